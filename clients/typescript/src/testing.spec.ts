/** The sidecar of tests, and secured connections to it. */

import { afterEach, expect, test, vi } from "vitest";
import type { Turn } from "./index.js";
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
