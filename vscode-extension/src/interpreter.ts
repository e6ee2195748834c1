// Which Python runs the server: the candidates in order, the question put to each, and what its answer means. Pure.

import * as path from "node:path";

export type Source = "setting" | "Python extension" | "workspace" | "VIRTUAL_ENV" | "CONDA_PREFIX" | "path";

/** A command that may be a Python with the server in it, and where it was found. */
export interface Candidate {
  readonly command: readonly string[];
  readonly source: Source;
}

/** All that the choice depends on. `exists` tells whether a file is there. */
export interface Surroundings {
  readonly setting: readonly string[];
  readonly pythonExtension: string | undefined;
  readonly folders: readonly string[];
  readonly trusted: boolean;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly platform: NodeJS.Platform;
  exists(file: string): boolean;
}

/** What a candidate turned out to be. */
export type Judgement =
  | { readonly usable: true; readonly version: string; readonly executable: string; readonly server: string }
  | { readonly usable: false; readonly reason: string };

export const OLDEST_PYTHON = [3, 11] as const;

/**
 * Run as `python -c QUESTION`: prints one line of JSON. It must be valid in any Python, also in one that is too old.
 * The server itself needs pygls, so both are asked for.
 */
export const QUESTION = `
import json, sys
answer = {"version": list(sys.version_info[:3]), "executable": sys.executable, "server": None, "error": None}
try:
    import kernelwright.server, pygls
    from importlib.metadata import version
    try:
        answer["server"] = version("kernelwright")
    except Exception:
        answer["server"] = "source"
except Exception as error:
    answer["error"] = "%s: %s" % (type(error).__name__, error)
print(json.dumps(answer))
`;

/** The commands to try, best first, none twice. A setting that is made is the only candidate: it is the user's word. */
export function candidates(around: Surroundings): readonly Candidate[] {
  if (around.setting.length > 0) {
    return [{ command: around.setting.map((part) => expand(part, around)), source: "setting" }];
  }
  const found: Candidate[] = [];
  if (around.pythonExtension) {
    found.push({ command: [around.pythonExtension], source: "Python extension" });
  }
  for (const folder of around.folders) {
    for (const name of [".venv", "venv"]) {
      found.push({ command: [pythonIn(path.join(folder, name), around.platform)], source: "workspace" });
    }
  }
  for (const name of ["VIRTUAL_ENV", "CONDA_PREFIX"] as const) {
    const prefix = around.env[name];
    if (prefix) {
      const conda = name === "CONDA_PREFIX" && around.platform === "win32";
      found.push({
        command: [conda ? path.join(prefix, "python.exe") : pythonIn(prefix, around.platform)],
        source: name,
      });
    }
  }
  const present = found.filter(({ command: [file] }) => file !== undefined && around.exists(file));
  const allowed = around.trusted ? present : present.filter(({ command }) => !liesIn(command[0], around.folders));
  for (const command of around.platform === "win32" ? [["py", "-3"], ["python"]] : [["python3"], ["python"]]) {
    allowed.push({ command, source: "path" });
  }
  return allowed.filter((one, at) => allowed.findIndex((other) => same(one, other)) === at);
}

/** The meaning of what a candidate printed and of how it ended. `output` is all of its standard output. */
export function judge(output: string, failure: string | undefined): Judgement {
  const answer = parse(output);
  if (answer === undefined) {
    return { usable: false, reason: failure ?? "it gave no answer" };
  }
  const [major = 0, minor = 0] = answer.version;
  const version = answer.version.join(".");
  if (major < OLDEST_PYTHON[0] || (major === OLDEST_PYTHON[0] && minor < OLDEST_PYTHON[1])) {
    return { usable: false, reason: `Python ${version} is too old, ${OLDEST_PYTHON.join(".")} is needed` };
  }
  if (answer.server === null) {
    const missing = /No module named '?kernelwright/.test(answer.error ?? "");
    return {
      usable: false,
      reason: missing ? "the package kernelwright is not installed there" : (answer.error ?? ""),
    };
  }
  return { usable: true, version, executable: answer.executable, server: answer.server };
}

/** The one message for a user whose candidates all failed: what happened and what to do. */
export function explainFailure(tried: readonly { candidate: Candidate; reason: string }[]): string {
  const [first] = tried;
  if (tried.length === 1 && first?.candidate.source === "setting") {
    const command = first.candidate.command.join(" ");
    return `The interpreter in kernelwright.interpreter, ${command}, cannot run Kernelwright: ${first.reason}.`;
  }
  const list = tried.map(({ candidate, reason }) => `${candidate.command.join(" ")} (${reason})`).join("; ");
  return `No Python with the package kernelwright was found. Install it into your environment, or select an interpreter. Tried: ${list}.`;
}

function pythonIn(prefix: string, platform: NodeJS.Platform): string {
  return platform === "win32" ? path.join(prefix, "Scripts", "python.exe") : path.join(prefix, "bin", "python");
}

function expand(part: string, around: Surroundings): string {
  const home = around.env.HOME ?? around.env.USERPROFILE ?? "~";
  return part.replaceAll(/\$\{workspaceFolder\}/g, around.folders[0] ?? "").replace(/^~(?=[\\/])/, home);
}

/** Is the file inside one of the folders? Compared by name: a link that leaves the folder still counts as inside. */
function liesIn(file: string | undefined, folders: readonly string[]): boolean {
  return folders.some((folder) => {
    const way = path.relative(folder, file ?? "");
    return way !== "" && !way.startsWith("..") && !path.isAbsolute(way);
  });
}

function same(one: Candidate, other: Candidate): boolean {
  return one.command.join("\0") === other.command.join("\0");
}

interface Answer {
  version: number[];
  executable: string;
  server: string | null;
  error: string | null;
}

/** The last line that is JSON: a sitecustomize or a conda hook may print above it. */
function parse(output: string): Answer | undefined {
  for (const line of output.trim().split(/\r?\n/).reverse()) {
    try {
      const value = JSON.parse(line) as Partial<Answer>;
      if (Array.isArray(value.version)) {
        const { version, executable = "", server = null, error = null } = value;
        return { version, executable, server, error };
      }
    } catch {
      // not the answer
    }
  }
  return undefined;
}
