// The status-bar entry, and the menu behind it.

import * as vscode from "vscode";
import { pythonEditor } from "./python";
import type { Server } from "./server";
import { statusText } from "./state";

/** Shows where the server stands, for as long as it is not disposed of. */
export function showStatus(server: Server): vscode.Disposable {
  const item = vscode.window.createStatusBarItem("kernelwright.status", vscode.StatusBarAlignment.Right, 90);
  item.name = "Kernelwright";
  item.command = "kernelwright.menu";
  const update = () => {
    const { text, tooltip, warning } = statusText(server.phase, server.state, server.problem);
    item.text = text;
    item.tooltip = new vscode.MarkdownString(tooltip);
    item.backgroundColor = warning ? new vscode.ThemeColor("statusBarItem.warningBackground") : undefined;
  };
  update();
  item.show();
  return vscode.Disposable.from(item, server.onDidChange(update));
}

/** What a click on the entry offers. */
export async function showMenu(server: Server): Promise<void> {
  const python = pythonEditor() !== undefined;
  const running = server.phase === "running";
  const rows: [shown: boolean, icon: string, label: string, command: string][] = [
    [running && python, "rocket", "Tune this model", "kernelwright.tuneFile"],
    [running && python, "wand", "Fix all exact opportunities in this file", "kernelwright.fixAll"],
    [running && server.state?.paused === false, "debug-pause", "Pause background measuring", "kernelwright.pause"],
    [running && server.state?.paused === true, "play", "Resume background measuring", "kernelwright.resume"],
    [running, "clear-all", "Clear measurements", "kernelwright.clearMeasurements"],
    [true, "symbol-misc", "Select interpreter", "kernelwright.selectInterpreter"],
    [true, "refresh", "Restart server", "kernelwright.restart"],
    [true, "output", "Show log", "kernelwright.showLog"],
    [true, "info", "Print debug information", "kernelwright.debugInformation"],
  ];
  const items = rows
    .filter(([shown]) => shown)
    .map(([, icon, label, command]) => ({ label: `$(${icon}) ${label}`, command }));
  const chosen = await vscode.window.showQuickPick(items, { title: "Kernelwright" });
  if (chosen) {
    await vscode.commands.executeCommand(chosen.command);
  }
}
