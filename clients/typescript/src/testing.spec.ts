/** The sidecar of tests, and secured connections to it. */

import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, expect, test, vi } from "vitest";
import { Program } from "./fixture_program.js";
import type { Turn } from "./index.js";
import { Sidecar, script } from "./testing.js";

afterEach(() => {
  vi.unstubAllEnvs();
});

test("tells why a sidecar did not start", async () => {
  const started = Sidecar.start({ flags: ["--no-such-flag"] });
  await expect(started).rejects.toMatchObject({ kind: "sidecar" });
  await expect(started).rejects.toThrow(/no-such-flag/);
});

test("a sidecar does not inherit the settings of another one", async () => {
  vi.stubEnv("PAWL_LISTEN", "no address");
  vi.stubEnv("PAWL_HTTP", "no address");
  vi.stubEnv("PAWL_METRICS", "no address");
  await using sidecar = await Sidecar.start();
  using client = sidecar.client();
  expect(sidecar.http).toBe("");
  expect((await client.countRuns()).size).toBeGreaterThan(0);
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

test("a sidecar ends with the process that started it", async () => {
  const program = new Program("fixture_sidecar");
  try {
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const child = program.spawn();
      const [address] = await once(child, "message");
      child.kill(signal);
      await vi.waitFor(() => expect(refused(address)).resolves.toBe(true), 30_000);
    }
  } finally {
    program.remove();
  }
});

/** Whether no process listens at an address. */
async function refused(address: string): Promise<boolean> {
  const [host, port] = address.split(":");
  const socket = connect(Number(port), host);
  try {
    await once(socket, "connect");
    return false;
  } catch {
    return true;
  } finally {
    socket.destroy();
  }
}
