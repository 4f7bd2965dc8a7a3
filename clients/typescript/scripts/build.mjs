// Builds dist/esm and dist/cjs with their declarations.
import { spawnSync } from "node:child_process";
import { rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = join(dirname(fileURLToPath(import.meta.url)), "..");
const commonjs = [
  "--module",
  "commonjs",
  "--moduleResolution",
  "bundler",
  "--verbatimModuleSyntax",
  "false",
];

function compile(form, type, flags) {
  const out = join("dist", form);
  const done = spawnSync(
    join(root, "node_modules", ".bin", "tsc"),
    ["--project", "tsconfig.build.json", "--outDir", out, ...flags],
    { cwd: root, stdio: "inherit" },
  );
  if (done.status !== 0) {
    process.exit(done.status ?? 1);
  }
  writeFileSync(join(root, out, "package.json"), `${JSON.stringify({ type })}\n`);
}

rmSync(join(root, "dist"), { recursive: true, force: true });
compile("esm", "module", []);
compile("cjs", "commonjs", commonjs);
