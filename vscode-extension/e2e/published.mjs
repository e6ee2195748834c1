// Published model files in a real VS Code: each is opened at the place that is known, and the hint stands there. The files come
// from the packages that tests/cases/setup_corpus.sh installs; they are only read, and nothing is measured.
import path from "node:path";
import { CACHE, PYTHON } from "./editor.mjs";
import { play } from "./play.mjs";

const PLACES = [
  ["transformers/models/bert/modeling_bert.py", 325, "sdpa"],
  ["transformers/models/llama/modeling_llama.py", 103, "rms-norm"],
  ["transformers/models/llama/modeling_llama.py", 390, "sdpa"],
  ["vit_pytorch/vit.py", 57, "sdpa"],
  ["transformers/activations.py", 56, "gelu"],
];

const how = {
  workspace: path.join(CACHE, "corpus"),
  inPlace: true,
  vsix: ["kernelwright.vsix"],
  machine: { "kernelwright.interpreter": [PYTHON] },
  user: { "kernelwright.background": "off" },
};

await play("published", how, async ({ page, step, picture }) => {
  for (const [file, line, rule] of PLACES) {
    const name = path.basename(file);
    await step(`${rule} at ${name}:${line}`, async () => {
      await page.keyboard.press("Control+p");
      const widget = page.locator(".quick-input-widget:visible");
      await widget.locator("input[type=text]").fill(`${file}:${line}`);
      await widget.locator(".monaco-list-row.focused", { hasText: name }).waitFor();
      await page.keyboard.press("Enter");
      await page.locator(".tab.active", { hasText: name }).waitFor();
      // the hint's text is a part of its line's
      const hint = page.locator(".view-line", { hasText: new RegExp(`(→\\s${rule}|${rule}\\s~?\\d)`) });
      await hint.first().waitFor();
      await picture(`published-${name}-${line}`);
    });
  }
});
