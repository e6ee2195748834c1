// The commands: each puts its arguments together, asks the server, and shows what comes back.

import * as path from "node:path";
import * as vscode from "vscode";
import { debugInformation } from "./debug-information";
import { Reports, showScript } from "./documents";
import { pythonEditor, selectInterpreter, surroundings } from "./python";
import type { Server } from "./server";
import { showMenu } from "./status";
import { tune } from "./tune";

/** A place in a file: from the arguments where a code action or a hover gave them, else from the cursor. */
interface Place {
  readonly uri: vscode.Uri;
  readonly line: number;
}

/** Registers all commands. `folder` is the extension's. */
export function registerCommands(
  server: Server,
  log: vscode.LogOutputChannel,
  context: vscode.ExtensionContext,
): vscode.Disposable {
  const reports = new Reports();
  const folder = context.extensionPath;

  const commands: Record<string, (...args: unknown[]) => unknown> = {
    tuneFile: (uri) => tune(server, reports, place(uri).uri),
    tuneAt: (uri, line) => {
      const at = place(uri, line);
      return tune(server, reports, at.uri, at.line);
    },
    fixAll: async (uri) => {
      await server.execute("kernelwright.fixAll", place(uri).uri.toString());
    },
    explain: async (uri, line) => {
      const at = place(uri, line);
      const text = asText(await server.execute("kernelwright.explain", at.uri.toString(), at.line));
      await reports.showMarkdown(`Line ${at.line + 1} of ${path.posix.basename(at.uri.path)}`, text);
    },
    openEvidence: async (uri, key) => {
      const [where, finding] = await chosenFinding("kernelwright.openEvidence", uri, key);
      await showScript(asText(await server.execute("kernelwright.openEvidence", where, finding)));
    },
    openProgram: async (uri, key) => {
      const [where, finding] = await chosenFinding("kernelwright.openProgram", uri, key);
      const text = asText(await server.execute("kernelwright.openProgram", where, finding));
      await reports.showText(`Program of ${path.posix.basename(vscode.Uri.parse(where).path)}.txt`, text);
    },
    pause: () => server.execute("kernelwright.pause"),
    resume: () => server.execute("kernelwright.resume"),
    clearMeasurements: () => server.execute("kernelwright.clearMeasurements"),
    selectInterpreter: () => selectInterpreter(folder),
    restart: () => server.restart(),
    showLog: () => log.show(),
    debugInformation: async () => {
      const text = debugInformation({
        extension: String(context.extension.packageJSON.version),
        vscode: vscode.version,
        phase: server.phase,
        problem: server.problem,
        interpreter: server.interpreter,
        state: server.state,
        surroundings: await surroundings(),
        settings: vscode.workspace.getConfiguration("kernelwright"),
      });
      await reports.showMarkdown("Kernelwright debug information", text);
    },
    menu: () => showMenu(server),
  };

  const registered = Object.entries(commands).map(([name, run]) =>
    vscode.commands.registerCommand(`kernelwright.${name}`, async (...args: unknown[]) => {
      try {
        return await run(...args);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        log.error(`${name}: ${reason}`);
        void complain(reason, log);
        return undefined;
      }
    }),
  );
  return vscode.Disposable.from(reports, ...registered);
}

async function complain(reason: string, log: vscode.LogOutputChannel): Promise<void> {
  const show = "Show log";
  if ((await vscode.window.showErrorMessage(`Kernelwright: ${reason}`, show)) === show) {
    log.show();
  }
}

function place(uri: unknown, line?: unknown): Place {
  if (typeof uri === "string") {
    return { uri: vscode.Uri.parse(uri), line: typeof line === "number" ? line : 0 };
  }
  const editor = pythonEditor();
  if (editor === undefined) {
    throw new Error("Open a Python file first.");
  }
  return { uri: editor.document.uri, line: editor.selection.active.line };
}

/** The file and the key of the finding to show: the arguments, or the first finding at the cursor's line, which the
 * server's code actions name. */
async function chosenFinding(command: string, uri: unknown, key: unknown): Promise<[uri: string, key: string]> {
  if (typeof uri === "string" && typeof key === "string") {
    return [uri, key];
  }
  const at = place(undefined);
  const document = await vscode.workspace.openTextDocument(at.uri);
  const actions = await vscode.commands.executeCommand<(vscode.Command | vscode.CodeAction)[]>(
    "vscode.executeCodeActionProvider",
    at.uri,
    document.lineAt(at.line).range,
  );
  for (const action of actions) {
    const called = "command" in action && typeof action.command === "object" ? action.command : undefined;
    const [where, finding] = called?.command === command ? (called.arguments ?? []) : [];
    if (typeof where === "string" && typeof finding === "string") {
      return [where, finding];
    }
  }
  throw new Error("There is no finding at this line.");
}

function asText(value: unknown): string {
  if (typeof value === "string") {
    return value;
  }
  throw new Error("The server had nothing to show for this.");
}
