// Where the extension begins: the log, the server, the status-bar entry and the commands are put together here.

import * as vscode from "vscode";
import { registerCommands } from "./commands";
import { onDidChangeEnvironment, surroundings } from "./python";
import { Server } from "./server";
import { showStatus } from "./status";

let server: Server | undefined;

/** Returns at once: the interpreter is looked for and the server started behind it. */
export function activate(context: vscode.ExtensionContext): void {
  const log = vscode.window.createOutputChannel("Kernelwright", { log: true });
  const started = new Server(context.extensionPath, log);
  server = started;
  context.subscriptions.push(
    log,
    started,
    showStatus(started),
    registerCommands(started, log, context),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("kernelwright.interpreter")) {
        void started.restart();
      }
    }),
    vscode.workspace.onDidGrantWorkspaceTrust(() => started.restart()),
  );
  void started.restart();
  void onDidChangeEnvironment(async () => {
    const around = await surroundings();
    const used = started.interpreter?.candidate.command.join(" ");
    if (around.setting.length === 0 && around.pythonExtension !== used) {
      await started.restart();
    }
  }).then((listener) => context.subscriptions.push(listener));
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
