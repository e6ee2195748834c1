// Showing text that the server made: reports that are only read, and scripts that the user may keep.

import * as vscode from "vscode";
import { pythonEditor } from "./python";

const SCHEME = "kernelwright-report";

/** Reports live in memory under their own scheme, so that closing one asks nothing. */
export class Reports implements vscode.TextDocumentContentProvider, vscode.Disposable {
  private readonly texts = new Map<string, string>();
  private readonly changed = new vscode.EventEmitter<vscode.Uri>();
  readonly onDidChange = this.changed.event;
  private readonly registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.texts.get(uri.path) ?? "This report is gone: it lives as long as the window.";
  }

  /** Shows Markdown, rendered, beside the code, which keeps the focus: a report may come while somebody types. The same title
   * again replaces the report. */
  async showMarkdown(title: string, text: string): Promise<void> {
    const uri = this.put(title, text);
    const tabs = vscode.window.tabGroups.all.flatMap((group) => group.tabs);
    const shown = tabs.filter(({ input, label }) => input instanceof vscode.TabInputWebview && label.endsWith(title));
    await vscode.window.tabGroups.close(shown);
    const code = pythonEditor();
    const focusCode = () => code && vscode.window.showTextDocument(code.document, { viewColumn: code.viewColumn ?? 1 });
    await focusCode(); // "beside" is beside what has the focus
    await vscode.commands.executeCommand("markdown.showPreviewToSide", uri);
    await focusCode();
  }

  /** Shows plain text, read-only, beside the code. */
  async showText(title: string, text: string): Promise<void> {
    const document = await vscode.workspace.openTextDocument(this.put(title, text));
    await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: true });
  }

  dispose(): void {
    this.registration.dispose();
    this.changed.dispose();
  }

  private put(name: string, text: string): vscode.Uri {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${name.replaceAll("/", " ")}` });
    this.texts.set(uri.path, text);
    this.changed.fire(uri);
    return uri;
  }
}

/** Opens a new, unsaved Python document beside the code. */
export async function showScript(text: string): Promise<void> {
  const document = await vscode.workspace.openTextDocument({ language: "python", content: text });
  await vscode.window.showTextDocument(document, { viewColumn: vscode.ViewColumn.Beside, preview: false });
}
