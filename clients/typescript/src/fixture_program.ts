/** Compiles fixture_crash.ts or another fixture, and starts processes of the compiled program. */

import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));

/** A compiled fixture in a directory of its own, which is removed at the end. */
export class Program {
  readonly #built = mkdtempSync(`${root}node_modules/.crash-`);

  /** `fixture`: the name of the file, without its ending. */
  constructor(readonly fixture = "fixture_crash") {
    const flags = ["--project", "tsconfig.crash.json", "--outDir", this.#built];
    const done = spawnSync("node_modules/.bin/tsc", flags, { cwd: root, stdio: "inherit" });
    if (done.status !== 0) {
      throw new Error(`tsc ended with ${done.status}`);
    }
    // The compiler does not copy JavaScript files.
    copyFileSync(`${root}src/package_dir.cjs`, `${this.#built}/package_dir.cjs`);
  }

  /** Starts a process with arguments. */
  spawn(...args: string[]): ChildProcess {
    const stdio = ["ignore", "inherit", "inherit", "ipc"] as const;
    const path = `${this.#built}/${this.fixture}.js`;
    return spawn(process.execPath, [path, ...args], { stdio: [...stdio] });
  }

  remove(): void {
    rmSync(this.#built, { recursive: true, force: true });
  }
}
