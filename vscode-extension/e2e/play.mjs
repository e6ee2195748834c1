// Plays a story in a real VS Code: steps that are counted, pictures of them, logs where one fails, and the closing line.
import fs from "node:fs";
import path from "node:path";
import { startBrowser, startEditor } from "./editor.mjs";

const SCREENSHOTS = path.resolve("e2e/screenshots");

/** Runs `story({ editor, page, step, picture })`, prints `NAME: N passed, N failed` and ends the process. */
export async function play(name, how, story) {
  const failure = `${name}-failed`;
  fs.rmSync(path.join(SCREENSHOTS, `${failure}.png`), { force: true });
  const editor = await startEditor(how);
  const { browser, page } = await startBrowser();
  let passed = 0;
  let failed = 0;

  const step = async (title, run) => {
    const begin = Date.now();
    try {
      await run();
    } catch (error) {
      error.message = `${title}: ${error.message}`;
      throw error;
    }
    passed += 1;
    console.log(`ok ${title} (${Date.now() - begin} ms)`);
  };
  const picture = async (title) => {
    fs.mkdirSync(SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: path.join(SCREENSHOTS, `${title}.png`) });
  };

  try {
    await page.goto(editor.url);
    await page.locator(".explorer-folders-view .monaco-list-row").first().waitFor();
    await story({ editor, page, step, picture });
  } catch (error) {
    failed = 1;
    await picture(failure);
    console.log([error.stack, `pictures: ${SCREENSHOTS}`, ...editor.logs()].join("\n"));
  }
  await browser.close();
  await editor.stop({ keep: failed > 0 });
  console.log(`${name}: ${passed} passed, ${failed} failed`);
  process.exit(failed);
}

/** Waits until `holds()` is true, for at most ten seconds. */
export async function until(page, holds) {
  for (let tries = 0; !holds(); tries += 1) {
    if (tries === 200) {
      throw new Error("it did not come about in 10 s");
    }
    await page.waitForTimeout(50);
  }
}
