/**
 * For tests of programs that use Pawl: a real sidecar, and a scripted model.
 *
 *     await using sidecar = await Sidecar.start({ packs: ["my.pack.json"] });
 *     using client = sidecar.client();
 *     await client.run("my-pack", script({ work: [{ event: "Done" }] }));
 */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { brand } from "./brand.js";
import { PawlClient } from "./client.js";
import { PawlError } from "./errors.js";
import type { NodeOptions } from "./node_transport.js";
import type { Reply } from "./reply.js";
import { sidecarPath } from "./sidecar_path.js";
import { later } from "./timer.js";
import type { Turn } from "./turn.js";

export { sidecarPath } from "./sidecar_path.js";

const STARTUP_MS = 30_000;

/** Options of a sidecar for tests. */
export interface SidecarOptions {
  /** Paths of pack files to register. Default: none. */
  readonly packs?: readonly string[];
  /** Tools that the sidecar permits. Default: none. */
  readonly allowTools?: readonly string[];
  /** Further flags of `pawl serve`. Default: none. */
  readonly flags?: readonly string[];
  /** Path of the program. Default: `sidecarPath()`. */
  readonly binary?: string;
}

/**
 * A sidecar process with a temporary directory, on a free loopback port. It may be killed and
 * started again, on the same directory and ports. It inherits no PAWL_ variable of the environment:
 * its settings are its flags. It ends with the process that started it.
 *
 *     await using sidecar = await Sidecar.start({ packs: ["my.pack.json"], allowTools: ["add"] });
 *     using client = sidecar.client();
 *     const run = await client.start("my-pack");
 *     await sidecar.restart();
 *     console.log((await run.info()).status);
 */
export class Sidecar {
  static {
    brand(Sidecar, "Sidecar");
  }

  readonly #options: SidecarOptions;
  #process: ChildProcess | undefined;
  /** Its directory, with data/ and sidecar.log; a test may add files. */
  readonly path: string;
  /** HOST:PORT of gRPC. */
  address = "127.0.0.1:0";
  /** HOST:PORT of the JSON gateway; empty without the flag --http. */
  http = "";

  private constructor(path: string, options: SidecarOptions) {
    this.path = path;
    this.#options = options;
  }

  /** Starts a sidecar and waits until it serves. Throws a PawlError of kind "sidecar". */
  static async start(options: SidecarOptions = {}): Promise<Sidecar> {
    const sidecar = new Sidecar(await mkdtemp(join(tmpdir(), "pawl-")), options);
    try {
      await sidecar.start();
    } catch (error) {
      await sidecar.close();
      throw error;
    }
    return sidecar;
  }

  /** Returns a client of the sidecar. */
  client(options: Omit<NodeOptions, "address"> = {}): PawlClient {
    return new PawlClient({ ...options, tls: options.tls ?? null, address: this.address });
  }

  /** Starts the process again after `kill` or `stop`, on the same data and ports. */
  async start(): Promise<void> {
    const log = openSync(join(this.path, "sidecar.log"), "a");
    const binary = this.#options.binary ?? sidecarPath();
    const child = spawn(binary, this.#arguments(), {
      // The pipe ends with this process, and the sidecar with the pipe.
      stdio: ["pipe", "pipe", log],
      env: withoutSettings(process.env),
    });
    closeSync(log);
    this.#process = child;
    const line = await firstLine(child);
    if (line === undefined) {
      await this.kill();
      throw new PawlError("sidecar", `the sidecar did not start:\n${this.log()}`);
    }
    const ready = JSON.parse(line) as { grpc: string; http?: string };
    this.address = ready.grpc;
    this.http = ready.http ?? "";
  }

  /** Returns the content of its log so far. */
  log(): string {
    return readFileSync(join(this.path, "sidecar.log"), "utf8");
  }

  /** Kills it at once (SIGKILL). */
  async kill(): Promise<void> {
    await this.#end("SIGKILL");
  }

  /** Stops it by SIGTERM, waits for its end and returns the exit code. */
  stop(): Promise<number | null> {
    return this.#end("SIGTERM");
  }

  /** Kills it and starts it again. */
  async restart(): Promise<void> {
    await this.kill();
    await this.start();
  }

  /** Kills it and removes its directory. */
  async close(): Promise<void> {
    await this.kill();
    await rm(this.path, { recursive: true, force: true });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  #arguments(): string[] {
    const { packs = [], allowTools = [], flags = [] } = this.#options;
    return [
      "serve",
      "--exit-with-stdin",
      `--data=${join(this.path, "data")}`,
      `--listen=${this.address}`,
      ...packs.map((pack) => `--pack=${pack}`),
      ...allowTools.map((tool) => `--allow-tool=${tool}`),
      ...flags.map((flag) =>
        flag === "--http=127.0.0.1:0" && this.http ? `--http=${this.http}` : flag,
      ),
    ];
  }

  async #end(signal: "SIGKILL" | "SIGTERM"): Promise<number | null> {
    const child = this.#process;
    this.#process = undefined;
    if (!child || child.exitCode !== null || child.signalCode !== null) {
      return child?.exitCode ?? null;
    }
    const ended = once(child, "exit");
    child.kill(signal);
    await ended;
    return child.exitCode;
  }
}

/** Returns the environment without the settings of another sidecar. */
function withoutSettings(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !name.startsWith("PAWL_")));
}

/**
 * Returns the first line that the process writes. Undefined means that it ended or took too long.
 */
async function firstLine(child: ChildProcess): Promise<string | undefined> {
  if (!child.stdout) {
    return undefined;
  }
  const failed = new Promise<undefined>((resolve) => child.once("error", () => resolve(undefined)));
  const timer = later(STARTUP_MS, () => child.kill("SIGKILL"));
  const lines = createInterface({ input: child.stdout });
  const first = (async () => {
    for await (const line of lines) {
      return line;
    }
    return undefined;
  })();
  try {
    return await Promise.race([first, failed]);
  } finally {
    timer.cancel();
    lines.close();
  }
}

// biome-ignore-start lint/suspicious/noExplicitAny: it fits the types of every pack.
/** One answer of a script; an Error is thrown. */
export type Answer = Reply<any> | Error | undefined;
// biome-ignore-end lint/suspicious/noExplicitAny: as above.

/** A scripted model: a handler that keeps the turns that it received. */
export interface Script {
  // biome-ignore lint/suspicious/noExplicitAny: it fits the types of every pack.
  (turn: Turn): Reply<any> | undefined;
  readonly turns: readonly Turn[];
}

/**
 * Returns a scripted model: for each state (or prompt), the answers to its turns in order. The last
 * answer of a state is repeated for every further turn.
 *
 *     const model = script({ work: [new Error("no"), { event: "Done" }], end: [undefined] });
 *     await client.run("my-pack", model);
 *     console.log(model.turns.length);
 */
export function script(answers: Readonly<{ [state: string]: readonly Answer[] }>): Script {
  const left = new Map(Object.entries(answers).map(([name, given]) => [name, [...given]]));
  const turns: Turn[] = [];
  const handler: (turn: Turn) => Reply | undefined = (turn) => {
    turns.push(turn);
    const given = left.get(turn.state) ?? left.get(turn.prompt);
    if (!given) {
      throw new RangeError(
        `script: no answers for state ${turn.state}; add a list under that name`,
      );
    }
    const answer = given.length > 1 ? given.shift() : given[0];
    if (answer instanceof Error) {
      throw answer;
    }
    return answer;
  };
  return Object.assign(handler, { turns });
}
