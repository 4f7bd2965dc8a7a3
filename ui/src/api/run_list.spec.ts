import { expect, test } from "vitest";
import { queryOf } from "./client";
import { find, merge, NO_FILTER, queryOfFilter, type Row, selects } from "./run_list";

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

test("rows stay sorted and single, in whatever order runs come", () => {
  const ids = (rows: readonly Row[]) => rows.map((r) => r.id);
  const rows = (...names: string[]) => names.map((id) => row({ id }));
  // The first runs of an empty list came oldest first: the next look found none of them.
  let list = merge([], rows("10", "11"));
  expect(ids(list)).toEqual(["11", "10"]);
  expect([find(list, "10"), find(list, "11")]).toEqual([1, 0]);
  list = merge(list, rows("03", "12", "07", "12"));
  expect(ids(list)).toEqual(["12", "11", "10", "07", "03"]);
  expect(ids(merge(list, []))).toEqual(ids(list));
  expect(merge(list, [row({ id: "07", state: "new" })])[3]?.state).toBe("new");
  for (let seed = 1; seed < 200; seed++) {
    let got: Row[] = [];
    let n = seed;
    const all = new Set<string>();
    for (let i = 0; i < 12; i++) {
      n = (n * 1103515245 + 12345) % 2147483648;
      const added = [n % 30, (n >> 5) % 30, (n >> 10) % 30].map((k) => String(k).padStart(2, "0"));
      added.map((id) => all.add(id));
      got = merge(got, rows(...added));
    }
    expect(ids(got), `seed ${seed}`).toEqual([...all].sort().reverse());
  }
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
