/** Connections from Node: large answers, silence, TLS, sockets. */

import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { all, Gate, SELF_CORRECTING, STEPS } from "./fixture.js";
import { Cuttable } from "./fixture_cuttable.js";
import { PawlClient, WaitUntil } from "./index.js";
import { Sidecar } from "./testing.js";

test("answers of more than 4 MiB are read, and turns of that size are executed", async () => {
  const limits = ["message", "conversation"].map((what) => `--limits-${what}-bytes=32MiB`);
  await using sidecar = await Sidecar.start({ packs: [STEPS], flags: limits });
  using client = sidecar.client({ maxMessageBytes: 32 << 20 });
  const input = "x".repeat(6 << 20);
  const options = { variables: { n: 1 }, input };
  const read = async () => {
    const run = await client.open("steps", options);
    return (await run.turn()).messages[0]?.parts[0]?.content.value;
  };
  expect((await read()) === input).toBe(true);
  let length = 0;
  const worker = client.worker().prompt("calc", (turn) => {
    length = String(turn.messages[0]?.parts[0]?.content.value).length;
    return turn.terminal ? {} : { event: "Ask" };
  });
  const served = worker.serve();
  const run = await client.start("steps", options);
  await run.wait({ until: WaitUntil.WAITING });
  await worker.stop();
  await served;
  expect(length).toBe(input.length);
});

// A sidecar closes connections that ping more often than every 5 s. 6 s is the shortest interval
// that a client accepts.
describe("a silent connection", () => {
  const keepaliveMs = 6_000;

  test.concurrent("of an idle worker and an idle stream outlives three pings", async () => {
    await using sidecar = await Sidecar.start({ packs: [STEPS, SELF_CORRECTING] });
    const transport = new Cuttable(sidecar.address);
    using direct = sidecar.client();
    using client = new PawlClient({ address: await transport.listen(), keepaliveMs });
    const run = await direct.open("self-correcting");
    const ready = new Gate();
    const reading = (async () => {
      const kinds: unknown[] = [];
      for await (const record of client.attach(run.id).transitions()) {
        kinds.push(record.body.case);
        ready.open();
      }
      return kinds;
    })();
    const worker = client.worker().prompt("calc", () => ({ event: "Ask" }));
    const served = worker.serve();
    await ready.opened;
    await transport.pinged(3);
    await run.cancel();
    expect(await reading).toEqual(["transition", "ended"]);
    const work = await direct.start("steps", { variables: { n: 1 } });
    expect((await work.wait({ until: WaitUntil.WAITING })).run?.state).toBe("ask");
    expect(transport.connections).toBe(1);
    await worker.stop();
    await served;
    transport.close();
  });

  test.concurrent("that gives no sign of life is replaced", async () => {
    await using sidecar = await Sidecar.start({ packs: [SELF_CORRECTING] });
    const route = new Cuttable(sidecar.address);
    using direct = sidecar.client();
    using client = new PawlClient({ address: await route.listen(), keepaliveMs });
    const run = await direct.open("self-correcting");
    const kinds: unknown[] = [];
    for await (const record of client.attach(run.id).transitions()) {
      kinds.push(record.body.case);
      if (kinds.length === 1) {
        route.swallow();
        await run.cancel();
      }
    }
    expect(kinds).toEqual(["transition", "ended"]);
    expect(route.connections).toBe(2);
    route.close();
  });

  test.concurrent("that is dead is noticed in time for a call to be made again", async () => {
    await using sidecar = await Sidecar.start({ packs: [STEPS] });
    const variant = new Cuttable(sidecar.address);
    using client = new PawlClient({ address: await variant.listen() });
    await all(client.listPacks());
    variant.swallow();
    const started = performance.now();
    const run = await client.start("steps", { variables: { n: 1 } });
    expect(performance.now() - started).toBeLessThan(15_000);
    expect(variant.connections).toBe(2);
    const driven = client.run("steps", (turn) => (turn.terminal ? {} : { event: "Done" }), {
      variables: { n: 1 },
    });
    expect((await driven).reason).toBe("completed");
    await run.cancel();
    variant.close();
  });
});

describe("TLS", () => {
  let directory: string;
  const file = (name: string) => join(directory, name);
  const openssl = (...given: string[]) => execFileSync("openssl", given, { stdio: "ignore" });
  const secret = "0123456789abcdef0123456789abcdef";

  /** A key, and a certificate that is signed by `ca`, or by itself. */
  const certificate = (name: string, ca?: string) => {
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
    const about = ["-subj", `/CN=${name}`, "-addext", `subjectAltName=DNS:${name}`];
    const signed = ca ? ["-CA", file(`${ca}.pem`), "-CAkey", file(`${ca}.key`)] : [];
    const out = ["-keyout", file(`${name}.key`), "-out", file(`${name}.pem`), "-days", "2"];
    openssl("req", "-x509", ...key, ...out, ...about, ...signed);
  };

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "pawl-tls-"));
    certificate("ca");
    certificate("localhost", "ca");
    certificate("app", "ca");
    certificate("stranger");
    const tokens = `app packs:write,runs:write,runs:read sha256:${createHash("sha256").update(secret).digest("hex")}\n`;
    writeFileSync(file("tokens"), tokens, { mode: 0o600 });
  });
  afterAll(() => rmSync(directory, { recursive: true }));

  const serverFlags = () => [
    `--tls-cert=${file("localhost.pem")}`,
    `--tls-key=${file("localhost.key")}`,
    `--tokens-file=${file("tokens")}`,
  ];
  const trusting = () => ({ ca: readFileSync(file("ca.pem")), serverName: "localhost" });
  const showing = (name: string) => ({
    ...trusting(),
    cert: readFileSync(file(`${name}.pem`)),
    key: readFileSync(file(`${name}.key`)),
  });

  /** Lists packs with a client for each settings. Returns "" or the error's kind and reason. */
  async function requests(sidecar: Sidecar, settings: Parameters<Sidecar["client"]>[0][]) {
    return Promise.all(
      settings.map(async (options) => {
        using client = sidecar.client({ ...options, retryForMs: 0 });
        const error = await all(client.listPacks()).then(
          () => undefined,
          (thrown) => thrown,
        );
        return error ? `${error.kind} ${error.reason}`.trim() : "";
      }),
    );
  }

  test("and tokens", async () => {
    await using sidecar = await Sidecar.start({ packs: [SELF_CORRECTING], flags: serverFlags() });
    const tls = trusting();
    const answers = await requests(sidecar, [
      { tls, token: async () => secret },
      { tls, token: "wrong-token-0123456789abcdef0123" },
      { tls },
      { tls: { serverName: "localhost" }, token: secret },
    ]);
    expect(answers).toEqual([
      "",
      "authentication TOKEN_UNKNOWN",
      "authentication TOKEN_MISSING",
      "unavailable",
    ]);
  });

  test("with a certificate of the client", async () => {
    const flags = [...serverFlags(), `--tls-client-ca=${file("ca.pem")}`];
    await using sidecar = await Sidecar.start({ packs: [SELF_CORRECTING], flags });
    const answers = await requests(sidecar, [
      { tls: showing("app"), token: secret },
      { tls: showing("stranger"), token: secret },
      { tls: trusting(), token: secret },
    ]);
    expect(answers).toEqual(["", "unavailable", "unavailable"]);
  });

  test("from the environment", async () => {
    const flags = [...serverFlags(), `--tls-client-ca=${file("ca.pem")}`];
    await using sidecar = await Sidecar.start({ packs: [SELF_CORRECTING], flags });
    const address = sidecar.address.replace("127.0.0.1", "localhost");
    try {
      vi.stubEnv("PAWL_CERT", file("app.pem"));
      expect(() => new PawlClient({ address })).toThrow(
        "PAWL_CERT, PAWL_KEY: must be set together",
      );
      vi.stubEnv("PAWL_KEY", file("app.key"));
      expect(() => new PawlClient({ address })).toThrow("PAWL_CERT: needs TLS");
      vi.stubEnv("PAWL_CA", file("absent.pem"));
      expect(() => new PawlClient({ address })).toThrow("absent.pem");
      vi.stubEnv("PAWL_CA", file("ca.pem"));
      using client = new PawlClient({ address, token: secret });
      expect(await all(client.listPacks())).toHaveLength(1);
      using plain = new PawlClient({ address, token: secret, tls: null, retryForMs: 0 });
      await expect(all(plain.listPacks())).rejects.toMatchObject({ kind: "unavailable" });
    } finally {
      vi.unstubAllEnvs();
    }
  });
});

test("a Unix socket, and a sidecar that stops and starts again", async () => {
  const directory = mkdtempSync(join(tmpdir(), "pawl-socket-"));
  const socket = join(directory, "s");
  await using sidecar = await Sidecar.start({ flags: [`--socket=${socket}`] });
  using client = new PawlClient({ address: `unix:${socket}` });
  try {
    expect(await all(client.listPacks())).toEqual([]);
    expect(await sidecar.stop()).toBe(0);
    await sidecar.start();
    expect(await all(client.listPacks())).toEqual([]);
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test("settings that make no sense are refused by name", () => {
  const refused = (options: ConstructorParameters<typeof PawlClient>[0]) => () =>
    new PawlClient(options);
  expect(refused({ timeoutMs: 0 })).toThrow(
    "timeoutMs: must be from 1 to 2147483647 milliseconds, not 0",
  );
  expect(refused({ retryForMs: -1 })).toThrow(
    "retryForMs: must be from 0 to 2147483647 milliseconds, not -1",
  );
  expect(refused({ maxMessageBytes: 0.5 })).toThrow(
    "maxMessageBytes: must be from 1 to 4294967295 bytes",
  );
  expect(refused({ keepaliveMs: 5_000 })).toThrow("keepaliveMs: must be from 6000 to");
  expect(refused({ address: "no port:x" })).toThrow("address: must be HOST:PORT");
});

test("a request that is too large is refused before it holds up the connection", async () => {
  await using sidecar = await Sidecar.start({ packs: [STEPS] });
  using client = sidecar.client();
  const start = (length: number) =>
    client.open("steps", { variables: { n: 1 }, input: "x".repeat(length) });
  const refused = Array.from({ length: 20 }, () => start(10_000_000).catch((error) => error));
  for (const error of await Promise.all(refused)) {
    expect(error).toMatchObject({ kind: "limit", reason: "MESSAGE_TOO_LARGE", limit: 4 << 20 });
  }
  expect((await (await start(3_000_000)).info()).state).toBe("calc");
});

test("a worker keeps to the smaller limit of both sides", async () => {
  const flags = ["--limits-message-bytes=8MiB"];
  await using sidecar = await Sidecar.start({ packs: [STEPS], flags });
  using client = sidecar.client({ maxMessageBytes: 5_000_000 });
  const report: unknown[] = [];
  const worker = client.worker({ onError: (error) => report.push(error) });
  worker.prompt("calc", (turn) => {
    if (turn.terminal) {
      return;
    }
    return turn.attempt === 1 ? { output: "x".repeat(6_000_000) } : { event: "Done" };
  });
  const served = worker.serve();
  const run = await client.start("steps", { variables: { n: 1 } });
  expect((await run.wait()).run?.state).toBe("end");
  expect(report).toMatchObject([{ reason: "MESSAGE_TOO_LARGE", limit: 5_000_000 }]);
  await worker.stop();
  await served;
});
