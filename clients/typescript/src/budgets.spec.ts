/** What a run is for, what bounds it and what is left, from a real sidecar. */

import { readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { SELF_CORRECTING, useSidecar } from "./fixture.js";

const shared = useSidecar();

test("what a run was started for, what bounds it, and what is left", async () => {
  const pack = JSON.parse(readFileSync(SELF_CORRECTING, "utf8"));
  pack.id = "budgeted";
  pack.workflow.engine = {
    budget: { max_total_visits: 10, max_wall_time_sec: 300 },
    x_pawl: { max_steps: 5 },
  };
  await shared.client.registerPack(JSON.stringify(pack));
  const requestId = `for-${Date.now()}`;
  const run = await shared.client.open("budgeted", { input: "ship it", requestId, maxSteps: 3 });
  const report = await run.snapshot({ includeVariables: true });
  expect([report.goal, report.requestId]).toEqual(["ship it", requestId]);
  expect(report.budgets).toMatchObject({ maxSteps: 3, maxTotalVisits: 10, maxWallTime: 300_000 });
  expect((await run.snapshot()).goal).toBe("");

  const { remaining } = await run.turn();
  expect(remaining).toMatchObject({ steps: 3, visits: 9 });
  expect(remaining?.tokens).toBeUndefined();
  expect(remaining?.wallTime).toBeGreaterThan(0);
  expect(remaining?.wallTime).toBeLessThanOrEqual(300_000);
});
