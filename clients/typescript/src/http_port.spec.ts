/** A program that calls the wrong port gets an error with the right one, and continues to run. */

import { createServer } from "node:net";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { PawlClient, PawlError, type PawlErrorInit } from "./index.js";
import { Sidecar } from "./testing.js";

let sidecar: Sidecar;
const lost: unknown[] = [];
const listenOn = (error: unknown) => lost.push(error);

beforeAll(async () => {
  process.on("uncaughtException", listenOn);
  sidecar = await Sidecar.start({ flags: ["--http=127.0.0.1:0", "--metrics=127.0.0.1:0"] });
});
afterAll(async () => {
  await sidecar.stop();
  process.off("uncaughtException", listenOn);
});

const QUIET = { info: () => undefined, warn: () => undefined };

/** Each way in which a client makes calls. */
const TRANSPORTS: { readonly [transport: string]: (client: PawlClient) => Promise<unknown> } = {
  unary: (client) => client.getPack("calc"),
  "a run that is driven": (client) => client.run("calc", {}),
  stream: (client) => client.transitions({}, { follow: true }).next(),
  "client stream": (client) => client.putBlob(new Uint8Array(1)),
  worker: (client) =>
    client
      .worker()
      .prompt("calc", () => ({}))
      .serve(),
};

describe.each(Object.entries(TRANSPORTS))("%s", (_, call) => {
  test("at the HTTP port", async () => {
    using client = new PawlClient({ address: sidecar.http, log: QUIET });
    const error = await call(client).catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({
      kind: "request",
      code: "INVALID_ARGUMENT",
      reason: "HTTP_PORT",
      message: `HTTP_PORT: ${sidecar.http} is the HTTP port of the sidecar; gRPC is at ${sidecar.address}`,
    } satisfies PawlErrorInit & { kind: string; message: string });
  });
});

/** Starts an HTTP/1.1 server. It answers at once (early), or after the first bytes of the client. */
async function other(early: boolean): Promise<{ address: string } & Disposable> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    const answer = () => socket.end("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    early ? answer() : socket.once("data", answer);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  return { address: `127.0.0.1:${port}`, [Symbol.dispose]: () => server.close() };
}

describe.each([true, false])("at a server without HTTP/2 that is early: %s", (early) => {
  test("calls fail with the reason, and the process continues", async () => {
    using server = await other(early);
    const message = `sidecar at ${server.address}: what listens there answers without HTTP/2, `;
    for (let round = 0; round < 20; round += 1) {
      using client = new PawlClient({ address: server.address, retryForMs: 100 });
      const calls = [1, 2, 3].map(() => client.getPack("calc"));
      for (const { status, ...end } of await Promise.allSettled(calls)) {
        expect(status).toBe("rejected");
        const { reason } = end as { reason: unknown };
        expect(PawlError.is(reason) && reason.kind).toBe("unavailable");
        expect((reason as PawlError).message).toContain(message);
      }
    }
    expect(lost).toEqual([]);
  });

  test("a worker logs the reason and continues", async () => {
    using server = await other(early);
    const warnings: string[] = [];
    let answer = () => {};
    const warned = new Promise<void>((resolve) => {
      answer = resolve;
    });
    const warn = (text: string) => {
      warnings.push(text);
      answer();
    };
    using client = new PawlClient({ address: server.address, log: { ...QUIET, warn } });
    const worker = client.worker().prompt("calc", () => ({}));
    const served = worker.serve();
    await warned;
    await worker.stop();
    await served;
    expect(warnings[0]).toContain("answers without HTTP/2");
    expect(lost).toEqual([]);
  });
});
