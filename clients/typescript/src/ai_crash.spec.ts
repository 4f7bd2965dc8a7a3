/**
 * A program of the AI SDK is killed by SIGKILL at each moment of its run, and the sidecar with it.
 * The world outside removes no duplicates: it notes each request before the kill. `make kill-agents` has
 * all moments, each PAWL_AGENT_KILLS times; `make test` has two of them, once.
 */

import type { ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { all } from "./fixture.js";
import { Program } from "./fixture_program.js";
import { RunStatus } from "./index.js";
import { Sidecar } from "./testing.js";

let program: Program;

beforeAll(() => {
  program = new Program("fixture_ai_agent");
});

afterAll(() => program.remove());

/** A request of the program to the server of this test. */
interface Asked {
  readonly what: string;
  readonly body: { readonly key?: string; readonly amount?: number; readonly text?: string };
}

/** The server of this test: it notes each request, calls `happen`, and then answers. */
class Outside {
  readonly asked: Asked[] = [];
  #server: Server | undefined;
  url = "";

  constructor(readonly happen: (what: string, nth: number) => Promise<boolean>) {}

  async start(): Promise<void> {
    this.#server = createServer(async (request, response) => {
      const parts: Buffer[] = [];
      for await (const part of request) {
        parts.push(part as Buffer);
      }
      const what = (request.url ?? "").slice(1);
      this.asked.push({ what, body: JSON.parse(Buffer.concat(parts).toString()) });
      if (await this.happen(what, this.count(what))) {
        response.destroy(); // The one that asked is dead.
      } else {
        response.end(`${what} number ${this.count(what)}`);
      }
    });
    this.#server.listen(0, "127.0.0.1");
    await once(this.#server, "listening");
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  count(what: string): number {
    return this.asked.filter((one) => one.what === what).length;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }
}

/** The requests at which the program is killed, and the calls that may be made again then. */
const MOMENTS = [
  { at: "model/1", why: "in the first model call", again: ["model/1"] },
  { at: "look_up", why: "in one of two parallel tools", again: ["look_up", "stock"] },
  { at: "charge/before", why: "before the effect", again: [] },
  { at: "charge", why: "in the effect", again: ["charge"] },
  { at: "charge/after", why: "after the effect, before its record", again: ["charge"] },
  { at: "model/3", why: "in the last model call", again: ["model/3"] },
  { at: "result", why: "after the end", again: [] },
];

/** The stream of the first answer is not recorded before it has ended. */
const IN_STREAM = { at: "seen", why: "in the stream", again: ["model/1", "look_up", "stock"] };

/** Requests at which only the sidecar is killed. Its own tests kill it at each of its writes. */
const ALONE = ["model/1", "charge", "seen"];

const KILLS = Number(process.env.PAWL_AGENT_KILLS ?? 0);

const ALL = ["generate", "stream"].flatMap((how) =>
  ["app", "sidecar", "both"].flatMap((who) =>
    [...MOMENTS, ...(how === "stream" ? [IN_STREAM] : [])]
      .filter(({ at }) => who !== "sidecar" || ALONE.includes(at))
      .map((moment) => ({ how, who, ...moment })),
  ),
);

/** The two kills that `make test` makes: after an effect, and within a stream. */
const FEW = ALL.filter(
  ({ how, who, at }) =>
    (how === "generate" && who === "app" && at === "charge/after") ||
    (how === "stream" && who === "both" && at === "seen"),
);

const CASES = KILLS > 0 ? ALL.flatMap((one) => Array.from({ length: KILLS }, () => one)) : FEW;

describe.each(CASES)("$how: $who killed $why", ({ how, who, at, again }) => {
  test("no recorded answer is paid again, no recorded tool runs again", async () => {
    await using sidecar = await Sidecar.start({
      allowTools: ["*"],
      flags: ["--step-grace=100ms", "--restart-grace=1s"],
    });
    let child: ChildProcess | undefined;
    let kills = 0;
    await using outside = new Outside(async (what, nth) => {
      if (what !== at || nth > 1) {
        return false;
      }
      kills += 1;
      const dead = who === "sidecar" ? undefined : once(child as ChildProcess, "exit");
      if (who !== "sidecar") {
        child?.kill("SIGKILL");
      }
      if (who !== "app") {
        await sidecar.kill();
      }
      await dead;
      if (who !== "app") {
        await sidecar.start();
      }
      return who !== "sidecar";
    });
    await outside.start();
    for (;;) {
      child = program.spawn(sidecar.address, outside.url, "order-17", how);
      const [code, signal] = await once(child, "exit");
      if (signal === null) {
        expect(code).toBe(0);
        break;
      }
    }
    expect(kills).toBe(1);

    using client = sidecar.client();
    const [info] = await all(client.listRuns({ pack: "shop-agent" }));
    expect(info?.status).toBe(RunStatus.COMPLETED);
    for (const what of ["model/1", "model/2", "model/3", "look_up", "stock", "charge"]) {
      // What was under way when the program died has no record, and is made again under its key.
      const most = who !== "sidecar" && again.includes(what) ? 2 : 1;
      const least = who !== "sidecar" && what === at ? 2 : 1;
      expect(outside.count(what), what).toBeGreaterThanOrEqual(least);
      expect(outside.count(what), what).toBeLessThanOrEqual(most);
    }
    // Each effect has one key, also after kills.
    const keys = outside.asked.filter(({ what }) => what === "charge").map(({ body }) => body.key);
    expect(new Set(keys).size).toBe(1);
    const results = outside.asked.filter(({ what }) => what === "result");
    expect(new Set(results.map(({ body }) => body.text)).size).toBe(1);
  }, 60_000);
});

test("a tool that must not be repeated ends the run for a person, with the fact", async () => {
  await using sidecar = await Sidecar.start({ allowTools: ["*"], flags: ["--step-grace=100ms"] });
  let child: ChildProcess | undefined;
  await using outside = new Outside(async (what) => what === "charge" && !!child?.kill("SIGKILL"));
  await outside.start();
  const codes: (number | null)[] = [];
  for (let nth = 0; nth < 3; nth += 1) {
    child = program.spawn(sidecar.address, outside.url, "order-17", "careful");
    const [code] = await once(child, "exit");
    codes.push(code);
  }
  expect(codes).toEqual([null, 3, 3]);
  using client = sidecar.client();
  const [info] = await all(client.listRuns({ pack: "shop-agent" }));
  expect([info?.status, info?.reason]).toEqual([RunStatus.ESCALATED, "tool_error:charge"]);
  expect(outside.count("charge")).toBe(1);
});
