/** The sidecar of tests, and secured connections to it. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { all, SELF_CORRECTING } from "./fixture.js";
import { PawlClient, type Turn } from "./index.js";
import { findSidecar, Sidecar, script } from "./testing.js";

afterEach(() => void vi.unstubAllEnvs());

test("finds the program, or says where it looked", () => {
  const found = findSidecar();
  vi.stubEnv("PAWL_SIDECAR", found);
  expect(findSidecar()).toBe(found);
  vi.stubEnv("PAWL_SIDECAR", "/nowhere/sidecar");
  expect(findSidecar).toThrow("PAWL_SIDECAR=/nowhere/sidecar is no program");
});

test("tells why a sidecar did not start", async () => {
  const started = Sidecar.start({ flags: ["--no-such-flag"] });
  await expect(started).rejects.toMatchObject({ kind: "sidecar" });
  await expect(started).rejects.toThrow(/no-such-flag/);
});

test("a script gives its last answer again, and throws errors", () => {
  const model = script({ a: [{ event: "X" }, { event: "Y" }], p: [new Error("no")] });
  const turn = (state: string) => ({ state, prompt: "p" }) as Turn;
  expect([model(turn("a")), model(turn("a")), model(turn("a"))]).toEqual([
    { event: "X" },
    { event: "Y" },
    { event: "Y" },
  ]);
  expect(() => model(turn("b"))).toThrow("no");
  expect(model.turns).toHaveLength(4);
  expect(() => script({})(turn("b"))).toThrow("no answers for state b");
});

test("TLS and tokens", async () => {
  const directory = mkdtempSync(join(tmpdir(), "pawl-tls-"));
  const file = (name: string) => join(directory, name);
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  const out = ["-keyout", file("key.pem"), "-out", file("cert.pem"), "-days", "2"];
  execFileSync("openssl", ["req", "-x509", ...key, ...out, ...subject], { stdio: "ignore" });
  const secret = "0123456789abcdef0123456789abcdef";
  writeFileSync(file("tokens"), `app packs:write,runs:write,runs:read ${secret}\n`, {
    mode: 0o600,
  });
  const sidecar = await Sidecar.start({
    packs: [SELF_CORRECTING],
    flags: [
      `--tls-cert=${file("cert.pem")}`,
      `--tls-key=${file("key.pem")}`,
      `--tokens-file=${file("tokens")}`,
    ],
  });
  const tls = { ca: readFileSync(file("cert.pem")), serverName: "localhost" };
  const clients = [
    sidecar.client({ tls, token: async () => secret }),
    sidecar.client({ tls, token: "wrong-token-0123456789abcdef0123" }),
    sidecar.client({ tls }),
    sidecar.client({ tls: { serverName: "localhost" }, retryForMs: 0 }),
  ];
  try {
    const asked = await Promise.allSettled(clients.map((client) => all(client.listPacks())));
    expect(asked.map((one) => one.status === "rejected" && one.reason.reason)).toEqual([
      false,
      "TOKEN_UNKNOWN",
      "TOKEN_MISSING",
      "",
    ]);
  } finally {
    for (const client of clients) {
      client.close();
    }
    await sidecar.close();
    rmSync(directory, { recursive: true });
  }
});

test("settings that make no sense are refused by name", () => {
  expect(() => new PawlClient({ timeoutMs: 0 })).toThrow("timeoutMs: more than 0, not 0");
  expect(() => new PawlClient({ retryForMs: -1 })).toThrow("retryForMs: 0 or more, not -1");
  expect(() => new PawlClient({ address: "no port:x" })).toThrow("address: HOST:PORT");
  const client = new PawlClient();
  expect(() => client.worker({ turns: 0 })).toThrow("turns: 1 to 10000, not 0");
  client.close();
});
