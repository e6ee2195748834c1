import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { test } from "node:test";
import { candidates, explainFailure, judge, QUESTION, type Surroundings } from "../../src/interpreter";

const bare: Surroundings = {
  setting: [],
  pythonExtension: undefined,
  folders: ["/home/me/model"],
  trusted: true,
  env: {},
  platform: "linux",
  exists: () => true,
};

const commands = (around: Surroundings) => candidates(around).map(({ command }) => command.join(" "));

test("a setting is the only candidate", () => {
  const around = { ...bare, setting: ["/opt/py/bin/python", "-X", "utf8"], pythonExtension: "/other/python" };
  assert.deepEqual(commands(around), ["/opt/py/bin/python -X utf8"]);
});

test("a setting may name the workspace folder and the home folder", () => {
  const env = { HOME: "/home/me" };
  assert.deepEqual(commands({ ...bare, env, setting: ["~/venv/bin/python"] }), ["/home/me/venv/bin/python"]);
  const setting = ["$" + "{workspaceFolder}/env/bin/python"];
  assert.deepEqual(commands({ ...bare, setting }), ["/home/me/model/env/bin/python"]);
});

test("without a setting: Python extension, workspace, VIRTUAL_ENV, CONDA_PREFIX, path", () => {
  const env = { VIRTUAL_ENV: "/v", CONDA_PREFIX: "/c" };
  assert.deepEqual(commands({ ...bare, pythonExtension: "/p/python", env }), [
    "/p/python",
    "/home/me/model/.venv/bin/python",
    "/home/me/model/venv/bin/python",
    "/v/bin/python",
    "/c/bin/python",
    "python3",
    "python",
  ]);
});

test("what is not there, and what was named before, is left out", () => {
  const around = {
    ...bare,
    pythonExtension: "/home/me/model/.venv/bin/python",
    exists: (file: string) => file.includes("/.venv/"),
  };
  assert.deepEqual(commands(around), ["/home/me/model/.venv/bin/python", "python3", "python"]);
});

test("in an untrusted workspace nothing that lies in it is started", () => {
  const around = {
    ...bare,
    trusted: false,
    pythonExtension: "/home/me/model/env/bin/python",
    env: { VIRTUAL_ENV: "/home/me/model-env" },
  };
  assert.deepEqual(commands(around), ["/home/me/model-env/bin/python", "python3", "python"]);
});

test("on Windows the launcher is asked", () => {
  assert.deepEqual(commands({ ...bare, platform: "win32", folders: [] }), ["py -3", "python"]);
});

test("an answer with the server in it is usable, whatever is printed above it", () => {
  const answer = { version: [3, 12, 1], executable: "/v/bin/python", server: "0.1.0", error: null };
  assert.deepEqual(judge(`hello from a hook\n${JSON.stringify(answer)}\n`, undefined), {
    usable: true,
    version: "3.12.1",
    executable: "/v/bin/python",
    server: "0.1.0",
  });
});

test("the reason tells what to do: no package, too old, broken, silent", () => {
  const answer = { version: [3, 11, 7], executable: "p", server: null, error: "" };
  const reason = (change: object, failure?: string) => {
    const judgement = judge(JSON.stringify({ ...answer, ...change }), failure);
    return judgement.usable ? "usable" : judgement.reason;
  };
  assert.match(
    reason({ error: "ModuleNotFoundError: No module named 'kernelwright'" }),
    /kernelwright is not installed/,
  );
  assert.match(reason({ version: [3, 8, 10], server: "0.1.0" }), /3\.8\.10 is too old, 3\.11 is needed/);
  assert.match(reason({ error: "ModuleNotFoundError: No module named 'pygls'" }), /pygls/);
  assert.deepEqual(judge("", "spawn python3 ENOENT"), { usable: false, reason: "spawn python3 ENOENT" });
});

test("the question is answered by this machine's Python", () => {
  const judgement = judge(execFileSync("python3", ["-c", QUESTION], { encoding: "utf8" }), undefined);
  assert.ok(judgement.usable || /not installed|too old|No module/.test(judgement.reason), JSON.stringify(judgement));
});

test("the message names the setting, or all that was tried", () => {
  const setting = explainFailure([{ candidate: { command: ["/x/python"], source: "setting" }, reason: "gone" }]);
  assert.match(setting, /kernelwright\.interpreter, \/x\/python, .*gone/);
  const several = explainFailure([
    { candidate: { command: ["/a/python"], source: "workspace" }, reason: "too old" },
    { candidate: { command: ["py", "-3"], source: "path" }, reason: "not found" },
  ]);
  assert.match(several, /Install it.*\/a\/python \(too old\); py -3 \(not found\)/);
});
