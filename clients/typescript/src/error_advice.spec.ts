/** What the client does with each error of the table of docs/reference/errors.md, sent by a server. */

import { readFileSync } from "node:fs";
import { createServer, type Http2Server, type Http2ServerResponse } from "node:http2";
import { join } from "node:path";
import { setTimeout as passed } from "node:timers/promises";
import { Code, ConnectError } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ADVICE, type Advice, type AdviceRow, adviceOf } from "./error_advice.js";
import { errorOf } from "./errors.js";
import { ErrorInfoSchema, RetryInfoSchema } from "./gen/google/rpc/error_details_pb.js";
import { RunService, type StartRunRequest } from "./gen/pawl/v1/run_pb.js";
import { WorkerService } from "./gen/pawl/v1/worker_pb.js";
import { PawlClient, PawlError } from "./index.js";

/** Returns the rows of the table in docs/reference/errors.md. */
function documented(): AdviceRow[] {
  const page = readFileSync(join(import.meta.dirname, "../../../docs/reference/errors.md"), "utf8");
  const section = page.split("## What to do with an error\n")[1]?.split("\n## ")[0] ?? "";
  const rows = section.matchAll(/^\| ([A-Za-z_]+) \| ([^|]+) \| (repeat|reconnect|give up) \|/gm);
  return [...rows].map(([, code = "", reasons = "", advice]) => {
    const named = [...reasons.matchAll(/`([A-Z_]+)`/g)].map(([, reason = ""]) => reason);
    return [code, wordOf(reasons.trim()) ?? named, advice as Advice];
  });
}

function wordOf(reasons: string): "any" | "none" | "waits" | undefined {
  const words = {
    "any, or no `ErrorInfo`": "any",
    "no `ErrorInfo`": "none",
    "any, with `RetryInfo`": "waits",
  } as const;
  return words[reasons as keyof typeof words];
}

test("the table is that of the page", () => {
  expect(documented().length).toBeGreaterThan(10);
  expect(ADVICE).toEqual(documented());
});

/** A status as a server sends it. */
interface Reported {
  readonly code: Code;
  readonly reason?: string;
  readonly waitsFor?: boolean;
  readonly advice: Advice;
}

/** Returns a status for each row of the table. The statuses of the last row are listed here. */
function statuses(): Reported[] {
  const report = documented().flatMap(([name, reasons, advice]): Reported[] => {
    const code = codeNamed(name);
    if (code === undefined) {
      return [];
    }
    if (Array.isArray(reasons)) {
      return reasons.map((reason) => ({ code, reason, advice }));
    }
    const bare = { code, advice };
    const known = { code, reason: "SOME_WORD", advice };
    return reasons === "any"
      ? [bare, known]
      : [reasons === "waits" ? { ...known, waitsFor: true } : bare];
  });
  const hopeless = [
    { code: Code.Unknown, reason: "SOME_WORD" },
    { code: Code.Internal, reason: "INTERNAL" },
    { code: Code.ResourceExhausted, reason: "MAX_LABELS" },
    { code: Code.ResourceExhausted },
    { code: Code.Aborted, reason: "SEQ_MISMATCH" },
    { code: Code.Unauthenticated, reason: "TOKEN_UNKNOWN" },
    { code: Code.Unimplemented, reason: "METHOD_UNKNOWN" },
    { code: Code.FailedPrecondition, reason: "PAUSED", waits: true },
    { code: Code.DataLoss },
    { code: Code.NotFound },
  ];
  return [...report, ...hopeless.map((status) => ({ ...status, advice: "give up" as const }))];
}

function codeNamed(name: string): Code | undefined {
  const words = name.toLowerCase().split("_");
  const camel = words.map((word) => word.slice(0, 1).toUpperCase() + word.slice(1)).join("");
  return Code[camel.replace("Cancelled", "Canceled") as keyof typeof Code];
}

const CASES = statuses().map((report) => {
  const name = `${Code[report.code]} ${report.reason ?? "without a reason"}${report.waitsFor ? " that waits" : ""}`;
  return [name, report] as const;
});

function sent({ code, reason, waitsFor: waiting }: Reported): ConnectError {
  return new ConnectError("no", code, undefined, [
    ...(reason ? [{ desc: ErrorInfoSchema, value: { reason, domain: "pawl.dev" } }] : []),
    ...(waiting ? [{ desc: RetryInfoSchema, value: { retryDelay: { nanos: 1000 } } }] : []),
  ]);
}

/** A server that gives the scripted answers in order. After the last one, it answers OK. */
class Scripted {
  readonly answers: (() => unknown)[] = [];
  readonly starts: StartRunRequest[] = [];
  streams = 0;
  readonly #server: Http2Server;
  #cut: ((response: Http2ServerResponse) => void) | undefined;

  constructor() {
    const handler = connectNodeAdapter({
      routes: (router) => {
        router.rpc(RunService.method.startRun, (request) => {
          this.starts.push(request);
          this.#next();
          return {};
        });
        router.rpc(RunService.method.streamTransitions, this.#records.bind(this));
        router.rpc(WorkerService.method.work, this.#work.bind(this));
      },
    });
    this.#server = createServer((request, response) => {
      const cut = this.#cut;
      this.#cut = undefined;
      if (cut) {
        cut(response);
      } else {
        handler(request, response);
      }
    });
  }

  /** Ends the stream of the next call with the function `how`, instead of an answer. */
  cut(how: (response: Http2ServerResponse) => void): void {
    this.#cut = how;
  }

  async listen(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    return `127.0.0.1:${(this.#server.address() as { port: number }).port}`;
  }

  close(): void {
    this.#server.close();
  }

  async *#records() {
    this.streams += 1;
    this.#next();
    yield* [];
  }

  async *#work() {
    this.streams += 1;
    const interval = { seconds: 5n };
    const value = { maxMessageBytes: 1n << 20n, heartbeatInterval: interval };
    yield { item: { case: "registered" as const, value } };
    this.#next();
  }

  #next(): void {
    this.answers.shift()?.();
  }
}

let server: Scripted;
let address: string;
beforeAll(async () => {
  server = new Scripted();
  address = await server.listen();
});
afterAll(() => server.close());

function throwing(report: Reported): () => never {
  return () => {
    throw sent(report);
  };
}

describe.each(CASES)("an error %s", (_, report) => {
  const retry = report.advice !== "give up";

  test("of a call", async () => {
    // The token is renewed, so that TOKEN_EXPIRED can help.
    using client = new PawlClient({ address, token: () => "t" });
    server.starts.length = 0;
    server.answers.push(throwing(report));
    const error = await client.start("p").then(
      () => undefined,
      (thrown: unknown) => thrown,
    );
    server.answers.length = 0;
    expect(server.starts).toHaveLength(retry ? 2 : 1);
    expect(new Set(server.starts.map(({ requestId }) => requestId)).size).toBe(1);
    expect(server.starts[0]?.requestId).not.toBe("");
    expect(PawlError.is(error)).toBe(!retry);
  });

  test("of a worker's stream", async () => {
    const log: string[] = [];
    using client = new PawlClient({
      address,
      token: () => "t",
      log: { info: () => undefined, warn: (text) => log.push(text) },
    });
    const worker = client.worker().prompt("calc", () => ({}));
    server.streams = 0;
    let connected = () => {};
    const twice = new Promise<void>((resolve) => {
      connected = resolve;
    });
    server.answers.push(throwing(report), connected);
    const served = worker.serve();
    // After a refused token, the worker calls the token function again until it is stopped.
    if (retry || report.code === Code.Unauthenticated) {
      await twice;
      await worker.stop();
      await served;
      expect(server.streams).toBeGreaterThan(1);
      return;
    }
    await expect(served).rejects.toMatchObject({ code: errorOf(sent(report)).code });
    server.answers.length = 0;
    expect(server.streams).toBe(1);
    expect(log).toEqual([expect.stringMatching(/^worker \S+: ends for good: .*no$/)]);
  });
});

test.each([
  ["TOKEN_EXPIRED", { code: Code.Unauthenticated, reason: "TOKEN_EXPIRED" }],
  ["any other", { code: Code.Unauthenticated }],
])("%s is given up where the token is fixed", async (_, status) => {
  using client = new PawlClient({ address, token: "t" });
  server.starts.length = 0;
  server.answers.push(throwing({ ...status, advice: "give up" }));
  await expect(client.start("p")).rejects.toMatchObject({ kind: "authentication" });
  expect(server.starts).toHaveLength(1);
});

/** PROTOCOL_ERROR, INTERNAL_ERROR, REFUSED_STREAM and CANCEL of HTTP/2. */
const RESETS = [1, 2, 7, 8];

test.each(RESETS)("a call whose stream is reset with %i is made again", async (code) => {
  using client = new PawlClient({ address });
  server.starts.length = 0;
  server.cut((response) => response.stream.close(code));
  await client.start("p");
  expect(server.starts).toHaveLength(1);
});

test("a stream of records is taken up again after a status that says nothing", async () => {
  using client = new PawlClient({ address });
  server.streams = 0;
  server.answers.push(throwing({ code: Code.Internal, advice: "reconnect" }));
  for await (const _ of client.transitions({}, { follow: true })) {
    // There is none.
  }
  expect(server.streams).toBe(2);
});

test("what the caller cancels, and what is thrown here, is given up", async () => {
  using client = new PawlClient({ address });
  server.starts.length = 0;
  const stop = new AbortController();
  server.answers.push(() => {
    stop.abort();
    throw sent({ code: Code.Canceled, advice: "reconnect" });
  });
  await expect(client.start("p", { signal: stop.signal })).rejects.toMatchObject({
    kind: "cancelled",
    code: "",
  });
  await passed(60); // Longer than the first pause.
  expect(server.starts).toHaveLength(1);
  const own = errorOf(ConnectError.from(new TypeError("a fault of the program")));
  expect([own.kind, own.code, adviceOf(own)]).toEqual(["server", "", "give up"]);
});

test("closing the client ends a call, which is not made again", async () => {
  const client = new PawlClient({ address });
  server.starts.length = 0;
  server.cut(() => client.close());
  await expect(client.start("p")).rejects.toMatchObject({ kind: "cancelled", code: "" });
  expect(server.starts).toHaveLength(0);
});
