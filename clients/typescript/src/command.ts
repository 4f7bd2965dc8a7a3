#!/usr/bin/env node
/** The command `pawl`, which runs the sidecar's program that this package carries. */

import { spawn } from "node:child_process";
import { sidecarPath } from "./sidecar_path.js";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

/** Runs the sidecar with the same arguments; `pawl codegen` writes TypeScript by default. */
function main(given: readonly string[]): void {
  const [first, ...rest] = given;
  const args = first === "codegen" ? [first, "--lang=typescript", ...rest] : given;
  const child = spawn(programPath(), args, { stdio: "inherit" });
  for (const signal of SIGNALS) {
    process.on(signal, () => child.kill(signal));
  }
  child.on("error", (error) => fail(error.message));
  child.on("exit", (code) => {
    process.exitCode = code ?? 1;
  });
}

function programPath(): string {
  try {
    return sidecarPath();
  } catch (error) {
    return fail(error instanceof Error ? error.message : String(error));
  }
}

function fail(text: string): never {
  console.error(`pawl: ${text}`);
  process.exit(1);
}

main(process.argv.slice(2));
