// The entry that the extension host calls: runs the suite with mocha and prints one line a test for the driver outside.

import * as path from "node:path";
import Mocha from "mocha";

export function run(): Promise<void> {
  const mocha = new Mocha({ ui: "bdd", timeout: 60_000, reporter: Lines });
  if (process.env.HOST_TESTS) {
    mocha.grep(process.env.HOST_TESTS);
  }
  mocha.addFile(path.join(__dirname, "suite.js"));
  return new Promise((resolve, reject) => {
    mocha.run((failures) => (failures > 0 ? reject(new Error(`${failures} failed`)) : resolve()));
  });
}

class Lines extends Mocha.reporters.Base {
  constructor(runner: Mocha.Runner, options?: Mocha.MochaOptions) {
    super(runner, options);
    runner.on("pass", (test) => console.log(`kw-test ok ${test.fullTitle()} (${test.duration} ms)`));
    runner.on("fail", (test, error) => console.log(`kw-test not ok ${test.fullTitle()}\n${error.stack ?? error}`));
  }
}
