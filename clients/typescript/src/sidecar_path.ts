/** Finds the sidecar's program on this machine. */

import { accessSync, constants, existsSync, readFileSync, statSync } from "node:fs";
import { delimiter, dirname, join, resolve } from "node:path";
import { PawlError } from "./errors.js";
import directory from "./package_dir.cjs";

/** Names of architectures in the program's releases. */
const ARCHITECTURES: { readonly [name: string]: string } = { x64: "amd64" };

/**
 * Returns the path of the `sidecar` program, the first that exists of: the environment variable
 * PAWL_SIDECAR; the program that this package carries for the platform (`bin/<os>-<arch>/sidecar`,
 * for example `bin/linux-amd64/sidecar`); in Pawl's source tree, the result of `make build`;
 * `sidecar` on the PATH. Throws a PawlError of kind "sidecar" that names these places.
 *
 *     spawn(sidecarPath(), ["serve", "--data=data"]);
 */
export function sidecarPath(): string {
  return locate(process.env, packageRoot());
}

/** As `sidecarPath`, for a package in the directory `root`. */
export function locate(env: NodeJS.ProcessEnv, root: string): string {
  const named = env.PAWL_SIDECAR;
  if (named) {
    if (!isProgram(named)) {
      throw new PawlError(
        "sidecar",
        `PAWL_SIDECAR=${named} is no executable file; set it to the sidecar's program`,
      );
    }
    return named;
  }
  const carried = carriedIn(root);
  const found = [carried, ...builtAround(root), ...onPath(env)].find(isProgram);
  if (!found) {
    const text =
      "no sidecar found: set PAWL_SIDECAR to the program, install a pawl-client that has it " +
      `(${carried}), or put "sidecar" on the PATH`;
    throw new PawlError("sidecar", text, { reason: "NO_SIDECAR" });
  }
  return found;
}

/** Returns the path at which a package carries the program for this platform. */
export function carriedIn(root: string): string {
  const architecture = ARCHITECTURES[process.arch] ?? process.arch;
  return join(root, "bin", `${process.platform}-${architecture}`, "sidecar");
}

/** Returns the directory of the package.json that has a name; those in dist have none. */
function packageRoot(): string {
  const named = [...ancestors(directory)].find((here) => {
    const file = join(here, "package.json");
    return existsSync(file) && "name" in JSON.parse(readFileSync(file, "utf8"));
  });
  return named ?? directory;
}

function builtAround(root: string): string[] {
  const trees = [...ancestors(root)].filter((here) => {
    return existsSync(join(here, "go.mod")) && existsSync(join(here, "proto", "pawl"));
  });
  return trees.map((tree) => join(tree, "bin", "sidecar"));
}

function* ancestors(path: string): Generator<string, void, undefined> {
  yield path;
  if (path !== dirname(path)) {
    yield* ancestors(dirname(path));
  }
}

function onPath(env: NodeJS.ProcessEnv): string[] {
  const directories = (env.PATH ?? "").split(delimiter).filter((entry) => entry !== "");
  return directories.map((entry) => resolve(entry, "sidecar"));
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}
