/** A real sidecar for one spec file, and a client of its gateway. */

import { type ChildProcess, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
export const BINARY = process.env.PAWL_SIDECAR ?? join(ROOT, "bin/pawl");

export const example = (name: string): string => join(ROOT, "testdata/packs", name);

/** A line of a tokens file, which has the token's digest. */
const tokenLine = ([principal, scopes, token]: TokenLine): string =>
  `${principal} ${scopes} sha256:${createHash("sha256").update(token).digest("hex")}\n`;

/** PRINCIPAL, SCOPES, TOKEN. */
export type TokenLine = readonly [string, string, string];

export interface SidecarOptions {
  packs?: string[];
  tokens?: readonly TokenLine[];
  flags?: string[];
  /** Data directory to go on with. */
  data?: string;
  /** Address of the gateway; default: a free port. */
  http?: string;
}

export class Sidecar {
  private constructor(
    readonly url: string,
    readonly data: string,
    private readonly process: ChildProcess,
    private readonly temp: string,
  ) {}

  static async start(options: SidecarOptions = {}): Promise<Sidecar> {
    const temp = mkdtempSync(join(tmpdir(), "pawl-ui-"));
    const data = options.data ?? join(temp, "data");
    const flags = [
      "--data",
      data,
      "--listen",
      "127.0.0.1:0",
      "--http",
      options.http ?? "127.0.0.1:0",
    ];
    flags.push("--allow-tool", "*", ...(options.flags ?? []));
    for (const pack of options.packs ?? []) {
      flags.push("--pack", pack);
    }
    if (options.tokens) {
      const file = join(temp, "tokens");
      writeFileSync(file, options.tokens.map(tokenLine).join(""), {
        mode: 0o600,
      });
      flags.push("--tokens-file", file);
    }
    const child = spawn(BINARY, ["serve", ...flags], { stdio: ["ignore", "pipe", "pipe"] });
    let log = "";
    child.stderr.on("data", (chunk: Buffer) => {
      log = (log + chunk.toString()).slice(-4000);
    });
    const ready = new Promise<{ http: string }>((resolve, reject) => {
      createInterface({ input: child.stdout }).once("line", (line) => resolve(JSON.parse(line)));
      child.once("exit", (code) => reject(new Error(`the sidecar ended with ${code}: ${log}`)));
      child.once("error", reject);
    });
    const { http } = await within(ready, 30_000, "the sidecar is not ready");
    return new Sidecar(`http://${http}`, data, child, temp);
  }

  /** Calls the gateway; throws on anything but 200. */
  async call<T = Record<string, unknown>>(
    method: "GET" | "POST",
    path: string,
    body?: unknown,
    token?: string,
  ): Promise<T> {
    const response = await fetch(this.url + path, {
      method,
      headers: {
        "Content-Type": "application/json",
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(30_000),
    });
    const text = await response.text();
    if (!response.ok) {
      throw new Error(`${method} ${path}: ${response.status} ${text}`);
    }
    return JSON.parse(text) as T;
  }

  async register(content: string, extra: Record<string, unknown> = {}): Promise<void> {
    await this.call("POST", "/v1/packs", {
      content: Buffer.from(content).toString("base64"),
      ...extra,
    });
  }

  /** Ends the process as a power cut does. */
  async kill(): Promise<void> {
    if (this.process.exitCode === null && this.process.signalCode === null) {
      const gone = once(this.process, "exit");
      this.process.kill("SIGKILL");
      await within(gone, 10_000, "the sidecar does not end");
    }
  }

  async stop(): Promise<void> {
    await this.kill();
    rmSync(this.temp, { recursive: true, force: true });
  }
}

/** Fails with words instead of hanging. */
export function within<T>(work: Promise<T>, ms: number, otherwise: string): Promise<T> {
  let timer: NodeJS.Timeout;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${otherwise} after ${ms} ms`)), ms);
  });
  return Promise.race([work, expired]).finally(() => clearTimeout(timer));
}
