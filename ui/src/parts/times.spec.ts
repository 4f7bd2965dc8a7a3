import { expect, test } from "vitest";
import type { Entry, Kind } from "../api/types";
import { countEdges, edgesOf } from "./entry_edges";
import { sharesOf, stretchesOf } from "./times";

const entry = (seq: number, second: number, kind: Kind, body: Entry["body"]): Entry => ({
  runId: "r",
  seq,
  prevSeq: seq - 1,
  cursor: "",
  at: new Date(second * 1000).toISOString(),
  cause: "",
  principal: "",
  hash: "",
  kind,
  body,
});

const RUN = [
  entry(1, 0, "transition", { toState: "plan", visit: 1 }),
  entry(2, 1, "stepRequested", { step: 1, tool: "grep" }),
  entry(3, 4, "stepResolved", { step: 1, tool: "grep", ok: true }),
  entry(4, 5, "transition", { fromState: "plan", event: "Go", toState: "test", visit: 1 }),
  entry(5, 6, "stepRequested", { step: 2, tool: "run" }),
  entry(6, 9, "stepResolved", { step: 2, tool: "run", ok: false }),
  entry(7, 10, "transition", { fromState: "test", event: "Again", toState: "plan", visit: 2 }),
  entry(8, 11, "stepRequested", { step: 3, tool: "run" }),
  entry(9, 20, "ended", { status: "RUN_STATUS_CANCELLED" }),
];

test("time goes to the visits and calls that took it", () => {
  const all = stretchesOf(RUN, 9, 99_000);
  expect(all.some((s) => s.open)).toBe(false);
  expect(sharesOf(all, "visit")).toEqual([
    { name: "plan", count: 2, failed: 0, total: 15_000, longest: 10_000, open: false },
    { name: "test", count: 1, failed: 0, total: 5_000, longest: 5_000, open: false },
  ]);
  expect(sharesOf(all, "step")).toEqual([
    { name: "run", count: 2, failed: 1, total: 12_000, longest: 9_000, open: false },
    { name: "grep", count: 1, failed: 0, total: 3_000, longest: 3_000, open: false },
  ]);
});

test("at an earlier record what goes on there is counted up to it", () => {
  const all = stretchesOf(RUN, 5, 6_000);
  expect(all.map((s) => [s.name, s.to - s.from, s.open])).toEqual([
    ["plan", 5_000, false],
    ["grep", 3_000, false],
    ["test", 1_000, true],
    ["run", 0, true],
  ]);
});

test("a call of a model is none of a tool; a failed attempt with another behind it ends nothing", () => {
  const model = { step: 1, tool: "gpt", kind: "STEP_KIND_MODEL" };
  const all = stretchesOf(
    [
      entry(1, 0, "stepRequested", model),
      entry(2, 3, "stepResolved", { ...model, ok: false, next: 2 }),
      entry(3, 9, "stepResolved", { ...model, ok: true }),
    ],
    3,
    99_000,
  );
  expect(sharesOf(all, "step")).toEqual([]);
  expect(sharesOf(all, "model")).toEqual([
    { name: "gpt", count: 1, failed: 0, total: 9_000, longest: 9_000, open: false },
  ]);
});

test("a forced exit is the edge that was taken, the event's own was refused", () => {
  const forced = entry(5, 1, "transition", {
    fromState: "work",
    event: "Error",
    toState: "give_up",
    redirects: [{ state: "work", guard: "max_visits:work" }],
  });
  expect([...edgesOf(forced)]).toEqual([
    ["work\nError\nEDGE_KIND_EVENT", "refused"],
    ["work\n\nEDGE_KIND_MAX_VISITS", "followed"],
  ]);
  const chain = entry(6, 1, "transition", {
    fromState: "a",
    event: "Go",
    toState: "d",
    redirects: [
      { state: "b", guard: "max_iterations:a.Go" },
      { state: "c", guard: "max_visits:c" },
    ],
  });
  expect([...edgesOf(chain).keys()].slice(1)).toEqual([
    "a\n\nEDGE_KIND_MAX_VISITS",
    "c\n\nEDGE_KIND_MAX_VISITS",
  ]);
  const timeout = { ...entry(7, 1, "transition", { fromState: "a", event: "Late", toState: "b" }) };
  timeout.cause = "CAUSE_TIMEOUT";
  expect([...countEdges([timeout, forced, forced])]).toEqual([
    ["a\nLate\nEDGE_KIND_TIMEOUT", 1],
    ["work\n\nEDGE_KIND_MAX_VISITS", 2],
  ]);
});
