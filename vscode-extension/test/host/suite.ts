// The extension in a real extension host with the real server: every feature through VS Code's own providers.

import assert from "node:assert/strict";
import * as path from "node:path";
import * as vscode from "vscode";

const FINDING = "0.5 * x * (1.0 + tanh";

let document: vscode.TextDocument;

before("open a model file", async () => {
  const [folder] = vscode.workspace.workspaceFolders ?? [];
  assert.ok(folder);
  document = await vscode.workspace.openTextDocument(path.join(folder.uri.fsPath, "feedforward.py"));
  await vscode.window.showTextDocument(document);
});

describe("start", () => {
  it("the server starts and finds the hand-written GELU", async () => {
    const found = await eventually(() => findings()[0]);
    assert.match(document.getText(found.range), /tanh/);
    assert.notEqual(found.severity, vscode.DiagnosticSeverity.Error);
    assert.equal(code(found), "gelu");
  });
});

describe("features", () => {
  it("hover names the kernel", async () => {
    const hovers = await vscode.commands.executeCommand<vscode.Hover[]>(
      "vscode.executeHoverProvider",
      document.uri,
      place().start,
    );
    const text = hovers.flatMap(({ contents }) => contents.map(asText)).join("\n");
    assert.match(text, /gelu/);
  });

  it("a hint stands beside the code", async () => {
    const [label] = await eventually(async () => {
      const found = await hints();
      return found.length > 0 ? found : undefined;
    });
    assert.match(label ?? "", /gelu/);
  });

  it("the quick fix changes the expression and adds the import; one undo takes both back", async () => {
    const before = document.getText();
    const actions = await vscode.commands.executeCommand<vscode.CodeAction[]>(
      "vscode.executeCodeActionProvider",
      document.uri,
      place(),
      vscode.CodeActionKind.QuickFix.value,
      10,
    );
    const fix = actions.find(({ edit }) => edit !== undefined);
    assert.ok(fix?.edit, `no fix among: ${actions.map(({ title }) => title).join(", ")}`);
    assert.ok(await vscode.workspace.applyEdit(fix.edit));
    assert.match(document.getText(), /gelu\(x, approximate="tanh"\)/);
    assert.match(document.getText(), /# as in the first GPT-2 code/);
    await eventually(() => findings().length === 0 || undefined);
    await vscode.commands.executeCommand("undo");
    assert.equal(document.getText(), before);
  });

  it("fix-all does the same", async () => {
    const before = document.getText();
    await vscode.commands.executeCommand("kernelwright.fixAll");
    await eventually(() => /gelu\(x, approximate="tanh"\)/.test(document.getText()) || undefined);
    await vscode.commands.executeCommand("undo");
    assert.equal(document.getText(), before);
  });

  it("the evidence script of the finding at the cursor opens as a Python document", async () => {
    await cursorToFinding();
    await vscode.commands.executeCommand("kernelwright.openEvidence");
    const shown = vscode.window.activeTextEditor?.document;
    assert.equal(shown?.isUntitled, true);
    assert.equal(shown?.languageId, "python");
    assert.match(shown?.getText() ?? "", /import torch/);
    await vscode.commands.executeCommand("workbench.action.revertAndCloseActiveEditor");
  });

  it("the program of the finding at the cursor opens", async () => {
    await cursorToFinding();
    await vscode.commands.executeCommand("kernelwright.openProgram");
    const shown = vscode.window.activeTextEditor?.document;
    assert.equal(shown?.uri.scheme, "kernelwright-report");
    assert.match(shown?.getText() ?? "", /tanh/);
    await vscode.commands.executeCommand("workbench.action.closeActiveEditor");
  });

  it("tuning ends in a report", async () => {
    await cursorToFinding();
    await vscode.commands.executeCommand("kernelwright.tuneFile");
    const tab = await eventually(() =>
      vscode.window.tabGroups.all.flatMap(({ tabs }) => tabs).find(({ label }) => /Tuning report/.test(label)),
    );
    await vscode.window.tabGroups.close(tab);
  });

  it("the other commands answer", async () => {
    await cursorToFinding();
    for (const name of ["pause", "resume", "explain", "debugInformation", "clearMeasurements"]) {
      await vscode.commands.executeCommand(`kernelwright.${name}`);
    }
    await vscode.commands.executeCommand("workbench.action.closeOtherEditors");
  });

  it("after a restart the findings come back", async () => {
    await vscode.commands.executeCommand("kernelwright.restart");
    await eventually(() => findings()[0]);
  });
});

function findings(): vscode.Diagnostic[] {
  return vscode.languages.getDiagnostics(document.uri).filter(({ source }) => /kernelwright/i.test(source ?? ""));
}

function code(found: vscode.Diagnostic): string {
  return String(typeof found.code === "object" ? found.code.value : found.code);
}

async function hints(): Promise<string[]> {
  const whole = new vscode.Range(0, 0, document.lineCount, 0);
  const found = await vscode.commands.executeCommand<vscode.InlayHint[]>(
    "vscode.executeInlayHintProvider",
    document.uri,
    whole,
  );
  return found.map(({ label }) => (typeof label === "string" ? label : label.map(({ value }) => value).join("")));
}

/** The range of the finding's text. */
function place(): vscode.Range {
  const at = document.positionAt(document.getText().indexOf(FINDING));
  return new vscode.Range(at, at.translate(0, FINDING.length));
}

async function cursorToFinding(): Promise<void> {
  const editor = await vscode.window.showTextDocument(document, vscode.ViewColumn.One);
  const { start } = place();
  editor.selection = new vscode.Selection(start, start);
}

function asText(content: vscode.MarkdownString | vscode.MarkedString): string {
  return typeof content === "string" ? content : content.value;
}

/** Asks until there is an answer; mocha's time-out is the end of patience. */
async function eventually<T>(ask: () => T | undefined | Promise<T | undefined>): Promise<T> {
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) {
      return answer;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}
