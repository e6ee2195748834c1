// Python in the real world: which one can run the server, by asking the candidates; and which file is meant.

import { execFile } from "node:child_process";
import * as fs from "node:fs";
import * as vscode from "vscode";
import {
  type Candidate,
  candidates,
  explainFailure,
  type Judgement,
  judge,
  QUESTION,
  type Surroundings,
} from "./interpreter";

/** A Python that can run the server. */
export interface Interpreter {
  readonly candidate: Candidate;
  readonly version: string;
  readonly executable: string;
  readonly server: string;
}

/** Thrown when no candidate will do; the message is for the user. */
export class NoInterpreter extends Error {}

/** The slice of the Python extension's API that is used. Declared by hand: the extension is no dependency. */
interface PythonApi {
  readonly environments?: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

/** A first start of Python on a slow disk takes seconds. */
const PATIENCE_MS = 30_000;

/** The first candidate that can run the server. `where` is the folder to run in: not the workspace, since Python would
 * import from there. */
export async function findInterpreter(where: string, log: vscode.LogOutputChannel): Promise<Interpreter> {
  const tried: { candidate: Candidate; reason: string }[] = [];
  for (const candidate of candidates(await surroundings())) {
    const judgement = await ask(candidate, where);
    const name = `${candidate.command.join(" ")} (${candidate.source})`;
    if (judgement.usable) {
      log.info(`interpreter: ${name}, Python ${judgement.version}, kernelwright ${judgement.server}`);
      return { candidate, ...judgement };
    }
    log.info(`interpreter: not ${name}: ${judgement.reason}`);
    tried.push({ candidate, reason: judgement.reason });
  }
  throw new NoInterpreter(explainFailure(tried));
}

/** What one candidate answers. Never throws. */
export function ask(candidate: Candidate, where: string): Promise<Judgement> {
  const [file = "", ...rest] = candidate.command;
  return new Promise((resolve) => {
    execFile(file, [...rest, "-c", QUESTION], { cwd: where, timeout: PATIENCE_MS }, (error, stdout, stderr) => {
      const missing = (error as NodeJS.ErrnoException | null)?.code === "ENOENT";
      const complaint = missing ? "there is no such program" : stderr.trim().split("\n").at(-1) || error?.message;
      resolve(judge(stdout, error ? complaint : undefined));
    });
  });
}

/** All that the choice depends on, as it is now. */
export async function surroundings(): Promise<Surroundings> {
  const api = await pythonApi();
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  return {
    setting: vscode.workspace.getConfiguration("kernelwright").get<string[]>("interpreter", []),
    pythonExtension: api?.environments?.getActiveEnvironmentPath(folder?.uri)?.path,
    folders: (vscode.workspace.workspaceFolders ?? []).filter((f) => f.uri.scheme === "file").map((f) => f.uri.fsPath),
    trusted: vscode.workspace.isTrusted,
    env: process.env,
    platform: process.platform,
    exists: (file) => fs.existsSync(file),
  };
}

/** The Python file that is meant: the active one, or one that stands beside a report that is active. */
export function pythonEditor(): vscode.TextEditor | undefined {
  const { activeTextEditor, visibleTextEditors } = vscode.window;
  return [activeTextEditor, ...visibleTextEditors].find((editor) => editor?.document.languageId === "python");
}

/** Calls back when another environment is chosen in the Python extension. */
export async function onDidChangeEnvironment(listener: () => void): Promise<vscode.Disposable> {
  const api = await pythonApi();
  return api?.environments?.onDidChangeActiveEnvironmentPath(listener) ?? new vscode.Disposable(() => {});
}

async function pythonApi(): Promise<PythonApi | undefined> {
  try {
    return await vscode.extensions.getExtension<PythonApi>("ms-python.python")?.activate();
  } catch {
    return undefined; // its trouble is not ours: the other candidates are still there
  }
}

/** One row of the choice; `command` is empty for "automatic", undefined for "browse". */
interface Row extends vscode.QuickPickItem {
  readonly command: readonly string[] | undefined;
}

/** Lets the user choose one. The choice becomes the workspace's setting, and the server starts anew by that. */
export async function selectInterpreter(where: string): Promise<void> {
  const found = candidates({ ...(await surroundings()), setting: [] });
  const rows: Promise<Row[]> = Promise.all(found.map((candidate) => row(candidate, where))).then((known) => [
    ...known,
    { label: "$(folder) Browse…", detail: "A Python executable on this machine", command: undefined },
    { label: "$(discard) Automatic", detail: "Empty the setting kernelwright.interpreter", command: [] },
  ]);
  const chosen = await vscode.window.showQuickPick(rows, {
    title: "Kernelwright: the Python that runs the server",
    placeHolder: "It needs the package kernelwright",
  });
  const command = chosen && (chosen.command ?? (await browse()));
  if (command) {
    const target = vscode.workspace.workspaceFolders?.length
      ? vscode.ConfigurationTarget.Workspace
      : vscode.ConfigurationTarget.Global;
    const value = command.length > 0 ? command : undefined;
    await vscode.workspace.getConfiguration("kernelwright").update("interpreter", value, target);
  }
}

async function row(candidate: Candidate, where: string): Promise<Row> {
  const { command, source } = candidate;
  const judgement = await ask(candidate, where);
  const detail = judgement.usable ? `Python ${judgement.version}, kernelwright ${judgement.server}` : judgement.reason;
  return { label: command.join(" "), description: source, detail, command };
}

async function browse(): Promise<readonly string[] | undefined> {
  const [file] = (await vscode.window.showOpenDialog({ canSelectMany: false, openLabel: "Use this Python" })) ?? [];
  return file && [file.fsPath];
}
