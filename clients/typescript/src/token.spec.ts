/** A worker whose token is rotated: it lives as long as a function may give another one. */

import { createHash } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { STEPS } from "./fixture.js";
import type { PawlError, Reply, TokenSource, Turn } from "./index.js";
import { PawlClient, RunStatus } from "./index.js";
import { Sidecar } from "./testing.js";

const directory = mkdtempSync(join(tmpdir(), "pawl-token-"));
const file = join(directory, "tokens");
const FIRST = "the-first-secret-0123";
const SECOND = "the-second-secret-012";
let sidecar: Sidecar;

function admit(secret: string): void {
  const digest = createHash("sha256").update(secret).digest("hex");
  writeFileSync(file, `app runs:write,runs:read,work sha256:${digest}\n`, { mode: 0o600 });
}

beforeAll(async () => {
  admit(FIRST);
  sidecar = await Sidecar.start({ packs: [STEPS], flags: [`--tokens-file=${file}`] });
});
afterAll(async () => {
  await sidecar.stop();
  rmSync(directory, { recursive: true });
});
beforeEach(async () => {
  admit(FIRST);
  await sidecar.restart();
});

const done = (turn: Turn): Reply => (turn.terminal ? {} : { event: "Done" });

/** Starts a worker and waits for its connection. Returns its warnings and its end. */
async function working(token: TokenSource) {
  const warnings: string[] = [];
  let connect = () => {};
  const connected = new Promise<void>((resolve) => {
    connect = resolve;
  });
  const log = { info: connect, warn: (text: string) => warnings.push(text) };
  const client = sidecar.client({ token, log });
  const worker = client.worker().prompt("calc", done);
  const served = worker.serve();
  served.catch(() => undefined);
  await connected;
  return { client, worker, served, warnings };
}

describe("a token that is rotated", () => {
  const expired = () => FIRST;
  const failing = () => {
    throw new Error("the vault is away");
  };
  const none = () => undefined as unknown as string;
  test.each<[string, () => string, string]>([
    ["is late", expired, "TOKEN_UNKNOWN"],
    ["cannot be had", failing, "token: the function threw: the vault is away"],
    ["is none", none, "token: the function must return a string"],
  ])("and %s: the worker goes on", async (_, bad, text) => {
    let request: number | undefined;
    const { client, worker, served, warnings } = await working(() => {
      if (request === undefined) {
        return FIRST;
      }
      request += 1;
      return request > 5 ? SECOND : bad();
    });
    admit(SECOND);
    request = 0;
    await sidecar.restart();
    await expect.poll(() => request, { timeout: 20_000 }).toBeGreaterThan(5);
    const run = await client.start("steps", { variables: { n: 1 } });
    expect((await run.wait({ timeoutMs: 20_000 })).run?.status).toBe(RunStatus.COMPLETED);
    await worker.stop();
    await served;
    client.close();
    expect(warnings.some((line) => line.includes("trying again: "))).toBe(true);
    expect(warnings.join("\n")).toContain(text);
  });

  test("and fixed ends the worker at once", async () => {
    const { client, served } = await working(FIRST);
    admit(SECOND);
    await sidecar.restart();
    await expect(served).rejects.toMatchObject({
      kind: "authentication",
      reason: "TOKEN_UNKNOWN",
    });
    client.close();
  });
});

describe("a client without settings", () => {
  const clear = () => {
    for (const name of ["PAWL_ADDR", "PAWL_TOKEN", "PAWL_TOKEN_FILE"]) {
      delete process.env[name];
    }
  };
  beforeEach(clear);
  afterAll(clear);
  const called = async (options = {}) => {
    using client = new PawlClient(options);
    return await client.caller().then(
      ({ principal }) => principal,
      (error: PawlError) => error.kind,
    );
  };

  test("takes those of the environment", async () => {
    process.env.PAWL_ADDR = sidecar.address;
    expect(await called()).toBe("authentication");
    process.env.PAWL_TOKEN = FIRST;
    expect(await called()).toBe("app");
    // PAWL_TOKEN_FILE takes precedence over PAWL_TOKEN, and the option over both.
    const held = join(directory, "token");
    process.env.PAWL_TOKEN_FILE = held;
    writeFileSync(held, "wrong-token-0123456789\n");
    expect(await called()).toBe("authentication");
    expect(await called({ token: FIRST })).toBe("app");
    writeFileSync(held, `${FIRST}\n`);
    expect(await called()).toBe("app");
  });

  test("refuses an address that is none", () => {
    process.env.PAWL_ADDR = "";
    expect(() => new PawlClient()).toThrow('address: must be HOST:PORT or unix:PATH, not ""');
  });
});
