// Runs the extension-host tests (test/host) in a real VS Code, twice: with the interpreter from the setting, and with none, so
// that it must come from the Python extension (a stand-in with that one call).
import { spawnSync } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import util from "node:util";
import { PYTHON, startBrowser, startEditor } from "./editor.mjs";

const EXTENSION = path.resolve(".");
const TESTS = path.resolve("dist-test/host/index.js");
const PATIENCE_MS = 240_000;

const stub = path.join(fs.mkdtempSync(path.join(os.tmpdir(), "kernelwright-stub-")), "python.vsix");
const vsce = ["--no-dependencies", "--allow-missing-repository", "--skip-license", "--out", stub];
const packed = spawnSync("npx", ["vsce", "package", ...vsce], { cwd: "e2e/python-stub", encoding: "utf8" });
if (packed.status !== 0) {
  throw new Error(packed.stdout + packed.stderr);
}

const total = { passed: 0, failed: 0 };
await run("interpreter from the setting", { machine: { "kernelwright.interpreter": [PYTHON] } });
await run("interpreter from the Python extension", { vsix: [stub], env: { STUB_PYTHON: PYTHON, HOST_TESTS: "start" } });
fs.rmSync(path.dirname(stub), { recursive: true });
console.log(`host: ${total.passed} passed, ${total.failed} failed`);
process.exit(total.failed > 0 || total.passed === 0 ? 1 : 0);

async function run(title, how) {
  const editor = await startEditor({ workspace: "e2e/workspace", smoke: true, ...how });
  const { browser, page } = await startBrowser();
  const lines = [];
  await page.exposeFunction("codeAutomationLog", (_type, args) => lines.push(util.format(...args)));
  let timer;
  const ended = new Promise((resolve) => {
    timer = setTimeout(() => resolve("timeout"), PATIENCE_MS);
    page.exposeFunction("codeAutomationExit", resolve).then(() => {
      const remote = (file) => `vscode-remote://${editor.authority}${file}`;
      const payload = [
        ["extensionDevelopmentPath", remote(EXTENSION)],
        ["extensionTestsPath", remote(TESTS)],
        ["skipWelcome", "true"],
      ];
      return page.goto(`${editor.url}&payload=${encodeURIComponent(JSON.stringify(payload))}`);
    });
  });
  const code = await ended;
  clearTimeout(timer);
  // what the suite itself prints; the rest is the workbench's chatter
  const results = lines.filter((line) => line.startsWith("kw-test "));
  const passed = results.filter((line) => line.startsWith("kw-test ok")).length;
  const failed = results.filter((line) => line.startsWith("kw-test not ok")).length;
  total.passed += passed;
  total.failed += failed;
  if (code !== 0 || failed > 0) {
    total.failed += failed > 0 ? 0 : 1;
    console.log([`host: ${title}, ended with ${code}`, ...results, ...editor.logs()].join("\n"));
  }
  await browser.close();
  await editor.stop({ keep: false });
}
