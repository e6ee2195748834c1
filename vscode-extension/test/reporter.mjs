// A reporter for node's test runner: failures in full, and one closing line.
import { inspect } from "node:util";

export default async function* report(source) {
  let passed = 0;
  let failed = 0;
  for await (const { type, data } of source) {
    if (type === "test:pass") {
      passed += 1;
    } else if (type === "test:fail") {
      failed += 1;
      yield `not ok: ${data.name} (${data.file})\n${inspect(data.details.error.cause ?? data.details.error)}\n`;
    }
  }
  yield `unit: ${passed} passed, ${failed} failed\n`;
}
