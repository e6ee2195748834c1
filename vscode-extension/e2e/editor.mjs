// A real VS Code (code-server) on loopback, and Debian's Chromium to drive it. Nothing is fetched at run time.
import { execSync, spawn, spawnSync } from "node:child_process";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { chromium } from "playwright-core";

export const CACHE = process.env.KERNELWRIGHT_CACHE ?? path.join(os.homedir(), ".cache/kernelwright-dev");
const NODE = path.join(CACHE, "e2e/bin/node");
const ENTRY = path.join(CACHE, "e2e/code-server/node_modules/code-server/out/node/entry.js");

/** The Python that has kernelwright in it: the one thing that the tests must be told. */
export const PYTHON = process.env.KERNELWRIGHT_PYTHON ?? path.resolve("../.venv/bin/python");

const SETTINGS = {
  "security.workspace.trust.enabled": false,
  "workbench.startupEditor": "none",
  "workbench.enableExperiments": false,
  "workbench.reduceMotion": "on",
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "telemetry.telemetryLevel": "off",
  "update.mode": "none",
  "extensions.autoUpdate": false,
  "extensions.autoCheckUpdates": false,
  "extensions.ignoreRecommendations": true,
  "files.autoSave": "off",
  "files.simpleDialog.enable": true,
  "chat.disableAIFeatures": true,
  "chat.commandCenter.enabled": false,
  "git.enabled": false,
  "editor.accessibilitySupport": "off",
  "editor.minimap.enabled": false,
};

/**
 * Starts a server with a home, a state folder, extensions and a copy of the workspace of its own (the workspace itself where it is
 * used in place).
 *
 * machine: settings of scope machine and machine-overridable; the window is a remote one, so they are read from there only.
 * smoke: needed for extension-host tests. It also silences every notification, so the story runs without it.
 */
export async function startEditor({
  workspace,
  inPlace = false,
  vsix = [],
  machine = {},
  user = {},
  smoke = false,
  env = {},
}) {
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), "kernelwright-e2e-"));
  const at = (name) => path.join(folder, name);
  for (const name of ["data/User", "data/Machine", "extensions", "home", "state"]) {
    fs.mkdirSync(at(name), { recursive: true });
  }
  if (!inPlace) {
    fs.cpSync(workspace, at("workspace"), { recursive: true });
  }
  const opened = inPlace ? workspace : at("workspace");
  fs.writeFileSync(at("data/User/settings.json"), JSON.stringify({ ...SETTINGS, ...user }));
  fs.writeFileSync(at("data/Machine/settings.json"), JSON.stringify(machine));
  // One thread for torch: VS Code and the browser need the other core, else every timing is refused as too noisy. And no
  // waiting for the load of what ran before.
  const quiet = { OMP_NUM_THREADS: "1", KERNELWRIGHT_LOAD_LIMIT: "1000" };
  const environment = { ...process.env, HOME: at("home"), XDG_STATE_HOME: at("state"), ...quiet, ...env };
  const base = [ENTRY, "--user-data-dir", at("data"), "--extensions-dir", at("extensions")];
  for (const file of vsix) {
    const done = spawnSync(NODE, [...base, "--install-extension", file], { env: environment, encoding: "utf8" });
    if (done.status !== 0) {
      throw new Error(`${file} does not install: ${done.stdout}${done.stderr}`);
    }
  }
  const port = await freePort();
  const log = fs.openSync(at("server.log"), "w");
  const options = [
    "--bind-addr",
    `127.0.0.1:${port}`,
    "--auth",
    "none",
    "--disable-telemetry",
    "--disable-update-check",
  ];
  options.push("--disable-workspace-trust", "--disable-getting-started-override");
  if (smoke) {
    options.push("--vscode-option", "enable-smoke-test-driver=true");
  }
  const child = spawn(NODE, [...base, ...options, opened], { env: environment, stdio: ["ignore", log, log] });
  const gone = new Promise((resolve) => child.once("exit", resolve));
  const authority = `127.0.0.1:${port}`;
  for (let tries = 0; !(await healthy(authority)); tries += 1) {
    if (tries > 600 || child.exitCode !== null) {
      child.kill("SIGKILL");
      throw new Error(`code-server did not start: ${fs.readFileSync(at("server.log"), "utf8")}`);
    }
    await sleep(100);
  }
  return {
    authority,
    folder,
    workspace: opened,
    url: `http://${authority}/?folder=${encodeURIComponent(opened)}`,
    /** The end of what the language server and the extension host wrote: for a failed test. */
    logs: () => logFiles(at("data/logs")).map((file) => `--- ${path.basename(file)}\n${tail(file, 40)}`),
    /** Stops the server; the folder is kept where a test failed. */
    stop: async ({ keep }) => {
      child.kill();
      const kill = setTimeout(() => child.kill("SIGKILL"), 5000);
      await gone;
      clearTimeout(kill);
      if (!keep) {
        fs.rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 });
      }
    },
  };
}

/** A headless Chromium with one page. */
export async function startBrowser() {
  const executablePath = execSync("command -v chromium", { encoding: "utf8" }).trim();
  const silent = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"];
  const args = ["--no-sandbox", "--disable-gpu", "--disable-quic", ...silent];
  const browser = await chromium.launch({ executablePath, headless: true, args });
  const page = await (await browser.newContext({ viewport: { width: 1400, height: 860 } })).newPage();
  page.setDefaultTimeout(60_000);
  return { browser, page };
}

/** Runs a command of the palette by its title. */
export async function palette(page, title) {
  await page.keyboard.press("F1");
  const widget = page.locator(".quick-input-widget:visible");
  await widget.locator("input[type=text]").fill(`>${title}`);
  await widget.locator(".monaco-list-row.focused", { hasText: title }).waitFor();
  await page.keyboard.press("Enter");
}

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function healthy(authority) {
  try {
    return (await fetch(`http://${authority}/healthz`)).ok;
  } catch {
    return false;
  }
}

function logFiles(folder) {
  if (!fs.existsSync(folder)) {
    return [];
  }
  const files = fs.readdirSync(folder, { recursive: true }).map((name) => path.join(folder, name));
  return files.filter((file) => ["Kernelwright.log", "remoteexthost.log"].includes(path.basename(file)));
}

function tail(file, lines) {
  return fs.readFileSync(file, "utf8").trimEnd().split("\n").slice(-lines).join("\n");
}
