/** Finding the program. */

import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { carriedIn, locate, sidecarPath } from "./sidecar_path.js";

let directory: string;

beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "pawl-path-"));
});
afterEach(() => {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true });
});

/** A file, that may be run or not. */
function file(path: string, mode: number): string {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, "");
  chmodSync(path, mode);
  return path;
}

test("PAWL_SIDECAR comes first, and has to be a program", () => {
  const program = file(join(directory, "mine"), 0o755);
  vi.stubEnv("PAWL_SIDECAR", program);
  expect(sidecarPath()).toBe(program);
  for (const wrong of [file(join(directory, "text"), 0o644), directory, "/nowhere/sidecar"]) {
    expect(() => locate({ PAWL_SIDECAR: wrong }, directory)).toThrow(
      `PAWL_SIDECAR=${wrong} is no executable file`,
    );
  }
});

test("then what the package carries, what the source tree built, and the PATH", () => {
  const root = join(directory, "tree", "clients", "typescript");
  const onPath = file(join(directory, "path", "sidecar"), 0o755);
  file(join(directory, "text", "sidecar"), 0o644);
  const PATH = ["", join(directory, "text"), join(directory, "path")].join(delimiter);
  expect(locate({ PATH }, root)).toBe(onPath);
  const built = file(join(directory, "tree", "bin", "sidecar"), 0o755);
  expect(locate({ PATH }, root)).toBe(onPath); // It is no tree of Pawl's yet.
  file(join(directory, "tree", "go.mod"), 0o644);
  mkdirSync(join(directory, "tree", "proto", "pawl"), { recursive: true });
  expect(locate({ PATH }, root)).toBe(built);
  const carried = file(carriedIn(root), 0o755);
  expect(locate({ PATH, PAWL_SIDECAR: "" }, root)).toBe(carried);
});

test("without any the error names them all", () => {
  const nowhere = () => locate({}, directory);
  expect(nowhere).toThrow(expect.objectContaining({ kind: "sidecar", reason: "NO_SIDECAR" }));
  expect(nowhere).toThrow(/set PAWL_SIDECAR .*"sidecar" on the PATH/);
  expect(nowhere).toThrow(carriedIn(directory));
});

test.each([
  ["linux", "x64", "linux-amd64"],
  ["darwin", "arm64", "darwin-arm64"],
])("platforms have the names of releases: %s %s", (platform, arch, name) => {
  const before = { platform: process.platform, arch: process.arch };
  try {
    Object.defineProperties(process, { platform: { value: platform }, arch: { value: arch } });
    expect(carriedIn("root")).toBe(join("root", "bin", name, "sidecar"));
  } finally {
    Object.defineProperties(process, {
      platform: { value: before.platform },
      arch: { value: before.arch },
    });
  }
});
