/** 8.17: a program that cannot reach a sidecar says so, and names its address. */

import { createServer } from "node:net";
import { describe, expect, test, vi } from "vitest";
import { Gate, QUIET, useSidecar } from "./fixture.js";
import { PawlClient, type Reply, RunStatus, type Turn } from "./index.js";
import { ReconnectLog } from "./reconnect_log.js";

const shared = useSidecar();

/** An address at which no server listens. */
async function unusedAddress(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return `127.0.0.1:${port}`;
}

test("a worker that reaches nobody says so, once", async () => {
  const message: string[] = [];
  const answer = new Gate();
  const warn = (text: string) => {
    message.push(text);
    answer.open();
  };
  const address = await unusedAddress();
  using client = new PawlClient({ address, log: { info: warn, warn } });
  const worker = client.worker().prompt("calc", () => ({}));
  const served = worker.serve();
  await answer.opened;
  await worker.stop();
  await served;
  expect(message).toHaveLength(1);
  expect(message[0]).toContain(`worker ${worker.id}: no connection to ${address}, trying again: `);
});

test("a worker says that it is connected", async () => {
  const connected = new Gate();
  let message = "";
  const info = (text: string) => {
    message = text;
    connected.open();
  };
  using client = shared.sidecar.client({ log: { info, warn: info } });
  const worker = client.worker().prompt("calc", () => ({}));
  const served = worker.serve();
  await connected.opened;
  expect(message).toBe(`worker ${worker.id}: connected to ${shared.sidecar.address}`);
  await worker.stop();
  await served;
});

test("how often it is said", () => {
  let now = 100_000;
  const outage = new ReconnectLog(() => now);
  const text: number[] = [];
  for (let second = 0; second < 1000; second += 1) {
    now = 100_000 + second * 1000;
    const since = outage.missed();
    if (since !== undefined) {
      text.push(since / 1000);
    }
  }
  expect(text).toEqual([0, 10, 30, 70, 150, 310, 610, 910]);
  outage.over();
  expect(outage.missed()).toBe(0);
});

test("errors name the address", async () => {
  const address = await unusedAddress();
  using client = new PawlClient({ address, retryForMs: 0 });
  await expect(client.start("steps")).rejects.toMatchObject({
    kind: "unavailable",
    message:
      `no sidecar can be reached at ${address}: ` +
      "nothing listens there; start one with: pawl serve --data DIR",
  });
});

test("errors name the variable of the address", async () => {
  const address = await unusedAddress();
  vi.stubEnv("PAWL_ADDR", address);
  using client = new PawlClient({ retryForMs: 0 });
  vi.unstubAllEnvs();
  const message = expect.stringContaining(`reached at ${address} (PAWL_ADDR): nothing listens`);
  await expect(client.start("steps")).rejects.toMatchObject({ message });
});

test("calls that are repeated are reported once, before they fail", async () => {
  const address = await unusedAddress();
  const message: string[] = [];
  const log = { ...QUIET, warn: (line: string) => message.push(line) };
  using client = new PawlClient({ address, log, retryForMs: 3_500 });
  const calls = [client.start("steps"), client.countRuns()];
  for (const { status } of await Promise.allSettled(calls)) {
    expect(status).toBe("rejected");
  }
  expect(message).toEqual([
    `a call is repeated for up to 3.5 s: no sidecar can be reached at ${address}: ` +
      "nothing listens there; start one with: pawl serve --data DIR",
  ]);
});

describe("an address", () => {
  test.each([
    ...["", "http://127.0.0.1:7291", "https://there:1", "localhost", "there:port", "a b:1"],
    ...["x:1/y", "://x:1", "::1:7291", "unix:", "user@there:1"],
  ])("that is none is refused at once: %j", (address) => {
    expect(() => new PawlClient({ address })).toThrow(
      "address: must be HOST:PORT or unix:PATH, not ",
    );
  });

  test.each(["127.0.0.1:7291", "localhost:1", "[::1]:7291", "my-host.example.:80", "unix:/a/b"])(
    "is taken: %s",
    (address) => {
      new PawlClient({ address }).close();
    },
  );
});

describe("a time in which nothing can happen", () => {
  test.each([0, -1, Number.NaN])("is refused: %d", async (timeoutMs) => {
    const refused = /^timeoutMs: must be from 1 to 2147483647 milliseconds, not /;
    expect(() => new PawlClient({ timeoutMs })).toThrow(refused);
    await expect(shared.client.start("steps", { timeoutMs })).rejects.toThrow(refused);
    const run = await shared.client.open("steps", { variables: { n: 1 } });
    await expect(run.info({ timeoutMs })).rejects.toThrow(refused);
    const reading = run.transitions({ timeoutMs })[Symbol.asyncIterator]();
    await expect(reading.next()).rejects.toThrow(refused);
    const result = await run.drive(async (turn) => {
      if (!turn.terminal) {
        const request = turn.step("add", { a: 1, b: 2 }, { timeoutMs });
        await expect(request).rejects.toThrow(refused);
      }
      return turn.terminal ? {} : { event: "Done" };
    });
    expect(result.errors).toEqual([]);
  });
});

describe("a map of handlers or tools", () => {
  const handler = async (turn: Turn): Promise<Reply> =>
    turn.terminal
      ? {}
      : { event: "Done", artifacts: { sum: await turn.step("add", { a: 1, b: 2 }) } };

  test("takes by '*' what has no other", async () => {
    const options = { tools: { "*": () => 3 }, variables: { n: 1 } };
    const result = await shared.client.run("steps", { "*": handler }, options);
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(result.artifacts).toEqual({ sum: 3 });
  });
});
