// A person whose Python has no Kernelwright: one message that says what to do, and a start as soon as it is done.
import fs from "node:fs";
import path from "node:path";
import { PYTHON } from "./editor.mjs";
import { play } from "./play.mjs";

const FILE = "feedforward.py";

const how = {
  workspace: "e2e/workspace",
  vsix: ["kernelwright.vsix"],
  machine: { "kernelwright.interpreter": ["/usr/bin/env", "python-that-is-not-there"] },
  user: { "kernelwright.background": "off" },
};

await play("interpreter", how, async ({ editor, page, step, picture }) => {
  const toast = page.locator(".notification-toast", { hasText: "cannot run Kernelwright" });
  const entry = page.locator(".statusbar-item[id='kernelwright.kernelwright.kernelwright.status']");
  await page.locator(".explorer-folders-view .monaco-list-row", { hasText: FILE }).dblclick();

  await step("one message tells what is wrong and what can be done", async () => {
    await toast.waitFor();
    for (const name of ["Select interpreter", "Open settings", "Show log"]) {
      await toast.getByRole("button", { name }).waitFor();
    }
    await page.locator(".statusbar-item.warning-kind", { hasText: "Kernelwright" }).waitFor();
    await picture("no-interpreter");
  });
  await step("the choice lists what was found, and says what each is good for", async () => {
    await toast.getByRole("button", { name: "Select interpreter" }).click();
    const rows = page.locator(".quick-input-widget:visible .monaco-list-row");
    await rows.filter({ hasText: "python3" }).first().waitFor();
    await rows.filter({ hasText: "Browse…" }).waitFor();
    await picture("select-interpreter");
    await page.keyboard.press("Escape");
  });
  await step("with the setting put right the server starts", async () => {
    const settings = path.join(editor.folder, "data/Machine/settings.json");
    fs.writeFileSync(settings, JSON.stringify({ "kernelwright.interpreter": [PYTHON] }));
    await page.locator(".monaco-editor .squiggly-info, .monaco-editor .squiggly-hint").first().waitFor();
    await page.locator(".statusbar-item:not(.warning-kind)", { hasText: "Kernelwright" }).waitFor();
    await entry.waitFor();
  });
});
