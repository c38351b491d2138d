// Bundle the libraries of entry.mjs into one file of the explorer's page, with their licences and
// a record of versions and of the file's SHA-256, which tests/serving/explorer/test_static.py checks.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const target = join(here, "../../src/pmvge/serving/explorer/vendor");
const result = await build({
  entryPoints: [join(here, "entry.mjs")],
  absWorkingDir: here,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  charset: "ascii",
  legalComments: "none",
  metafile: true,
  outfile: join(target, "vendor.js"),
});

// Licences of the packages that are in the bundle.
const used = Object.keys(result.metafile.inputs)
  .map((path) => path.match(/node_modules\/((?:@[^/]+\/)?[^/]+)/)?.[1])
  .filter(Boolean);
const packages = {};
const licences = [];
for (const name of [...new Set(used)].sort()) {
  const folder = join(here, "node_modules", name);
  const { version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e/i.test(entry));
  packages[name] = { version, license };
  licences.push(`${name} ${version}\n\n${readFileSync(join(folder, file), "utf8").trim()}\n`);
}
writeFileSync(join(target, "LICENSES.txt"), licences.join(`\n${"-".repeat(80)}\n\n`));
const sha256 = createHash("sha256").update(readFileSync(join(target, "vendor.js"))).digest("hex");
const record = { file: "vendor.js", sha256, packages };
writeFileSync(join(target, "vendor.json"), `${JSON.stringify(record, null, 2)}\n`);
