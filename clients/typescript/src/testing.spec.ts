/** The sidecar of tests, and secured connections to it. */

import { afterEach, expect, test, vi } from "vitest";
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
