import { expect, test } from "vitest";
import { queryOf } from "./client";
import { find, NO_FILTER, queryOfFilter, type Row, selects } from "./run_list";

const row = (change: Partial<Row> = {}): Row => ({
  id: "01M",
  pack: "codegen",
  version: "1",
  state: "test",
  status: "RUN_STATUS_BUDGET_EXHAUSTED",
  reason: "max_visits:test",
  paused: false,
  visits: 1,
  labels: "team=a ticket=b=c",
  createdAt: "2026-01-01T12:00:00Z",
  updatedAt: "2026-01-01T12:00:00Z",
  ...change,
});

test("rows are found newest first, and where one would be", () => {
  const rows = ["09", "07", "05"].map((id) => row({ id }));
  expect(["10", "09", "08", "05", "01"].map((id) => find(rows, id))).toEqual([0, 0, 1, 2, 3]);
});

test("a row is selected as the server selects", () => {
  const now = Date.parse("2026-01-01T12:10:00Z");
  const is = (change: object) => selects({ ...NO_FILTER, ...change }, row(), now);
  expect(is({})).toBe(true);
  expect([is({ pack: "codegen" }), is({ pack: "codegen@1" }), is({ pack: "codegen@2" })]).toEqual([
    true,
    true,
    false,
  ]);
  expect([
    is({ reason: "max_visits" }),
    is({ reason: "max_visits:test" }),
    is({ reason: "max" }),
  ]).toEqual([true, true, false]);
  expect([is({ label: "team=a" }), is({ label: "ticket=b=c" }), is({ label: "team=" })]).toEqual([
    true,
    true,
    false,
  ]);
  expect([is({ within: 900 }), is({ within: 60 })]).toEqual([true, false]);
  expect([is({ status: "BUDGET_EXHAUSTED" }), is({ status: "RUNNING" })]).toEqual([true, false]);
});

test("a filter becomes parameters of the gateway", () => {
  const query = queryOfFilter({ ...NO_FILTER, label: "ticket=b=c", status: "FAILED" }, 0);
  expect(decodeURIComponent(queryOf(query))).toBe(
    "?filter.statuses=RUN_STATUS_FAILED&filter.labels[ticket]=b=c",
  );
});
