// Builds dist/esm and dist/cjs with their declarations; an argument names another directory
// than dist, relative to the package.
//
// A package that carries the sidecar has it in bin/<os>-<arch>/sidecar, with the names of
// Go (bin/linux-amd64/sidecar, bin/darwin-arm64/sidecar) and mode 755: whoever packs it
// puts the programs there first, and `npm pack` takes them along. bin/ is not committed.
import { spawnSync } from "node:child_process";
import { copyFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const dist = process.argv[2] ?? "dist";
const commonjs = [
  "--module",
  "commonjs",
  "--moduleResolution",
  "bundler",
  "--verbatimModuleSyntax",
  "false",
];

function compile(form, type, flags) {
  const out = join(dist, form);
  const done = spawnSync(
    join(root, "node_modules", ".bin", "tsc"),
    ["--project", "tsconfig.build.json", "--outDir", out, ...flags],
    { cwd: root, stdio: "inherit" },
  );
  if (done.status !== 0) {
    process.exit(done.status ?? 1);
  }
  // The compiler takes no JavaScript along.
  for (const file of ["package_dir.cjs", "package_dir.d.cts"]) {
    copyFileSync(join(root, "src", file), join(root, out, file));
  }
  writeFileSync(join(root, out, "package.json"), `${JSON.stringify({ type })}\n`);
}

rmSync(join(root, dist), { recursive: true, force: true });
compile("esm", "module", []);
compile("cjs", "commonjs", commonjs);
