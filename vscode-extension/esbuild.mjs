// Bundles the extension (no argument), its unit tests ("unit") or its extension-host tests ("host").
import fs from "node:fs";
import path from "node:path";
import * as esbuild from "esbuild";

/** The test files of a folder under test/, as entry points. */
const tests = (folder) => fs.readdirSync(`test/${folder}`).map((name) => `test/${folder}/${name}`);

const jobs = {
  extension: () => ({ entryPoints: ["src/extension.ts"], outfile: "dist/extension.js", minify: true, sourcemap: true }),
  unit: () => ({ entryPoints: tests("unit"), outdir: "dist-test/unit" }),
  host: () => ({ entryPoints: tests("host"), outdir: "dist-test/host" }),
};
const [what = "extension"] = process.argv.slice(2);
const { metafile } = await esbuild.build({
  bundle: true,
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode", "mocha"],
  logLevel: "warning",
  metafile: true,
  ...jobs[what](),
});
if (what === "extension") {
  fs.writeFileSync("dist/LICENSES.txt", licenses(Object.keys(metafile.inputs)));
}

/** The licence texts of the packages that the files of a bundle come from. */
function licenses(inputs) {
  const folders = inputs.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]);
  return [...new Set(folders.filter(Boolean))]
    .sort()
    .map((folder) => {
      const { name, version, license } = JSON.parse(fs.readFileSync(path.join(folder, "package.json"), "utf8"));
      const file = fs.readdirSync(folder).find((entry) => /^licen[sc]e/i.test(entry));
      const text = file ? fs.readFileSync(path.join(folder, file), "utf8").trim() : "";
      return `${name} ${version} (${license})\n\n${text}\n`;
    })
    .join(`\n${"-".repeat(80)}\n\n`);
}
