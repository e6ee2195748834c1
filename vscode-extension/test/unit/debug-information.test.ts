import assert from "node:assert/strict";
import { test } from "node:test";
import { debugInformation } from "../../src/debug-information";

test("debug information names versions, the problem, the candidates and the settings", () => {
  const text = debugInformation({
    extension: "0.1.0",
    vscode: "1.100.0",
    phase: "failed",
    problem: "no Python",
    interpreter: undefined,
    state: undefined,
    surroundings: {
      setting: [],
      pythonExtension: "/p/python",
      folders: [],
      trusted: false,
      env: {},
      platform: "linux",
      exists: () => true,
    },
    settings: { hints: "quiet" },
  });
  assert.match(text, /extension 0\.1\.0, VS Code 1\.100\.0, linux/);
  assert.match(text, /server: failed: no Python/);
  assert.match(text, /interpreter: none/);
  assert.match(text, /trusted: no/);
  assert.match(text, /- `\/p\/python` \(Python extension\)\n- `python3` \(path\)/);
  assert.match(text, /"hints": "quiet"/);
});
