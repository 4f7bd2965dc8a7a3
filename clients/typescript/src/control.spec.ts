/** What runs may spend and really spent, and what operators allow, from a real sidecar. */

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { all, stepsPack, useSidecar, useWorkers } from "./fixture.js";
import {
  failStep,
  type Json,
  PawlError,
  RecordKind,
  type Run,
  RunStatus,
  type ToolCall,
  type Turn,
  type Usage,
} from "./index.js";

/** What the pack says that a call costs at most, in millionths of a US dollar. */
const COST = 20_000;

const operator = mkdtempSync(join(tmpdir(), "pawl-operator-"));
afterAll(() => rmSync(operator, { recursive: true }));

function file(name: string, text: string): string {
  writeFileSync(join(operator, name), text);
  return `--${name}=${join(operator, name)}`;
}

const shared = useSidecar({
  flags: [
    file(
      "budgets",
      `accounts:
  - {label: tenant, window: day, max_cost_usd: 0.03}
  - {window: ever, max_tokens: 1000}
`,
    ),
    file("limits", "limits: [{id: adds, key: tool, per_minute: 600, concurrent: 9}]"),
    file("schedules", 'nightly: {cron: "30 2 * * *", time_zone: Europe/Rome, pack: priced}'),
  ],
});
const serve = useWorkers();

beforeAll(async () => {
  const tool = { cost: COST / 1e6, attempts: 2, on_error: "return" };
  const bounds = { max_cost_usd: 0.5, max_tokens: 1000, tools: { add: tool } };
  await shared.client.registerPack(stepsPack("priced", bounds));
});

const variables = { n: 1 };

/** A turn that calls the tool once and ignores a failure of the call. */
async function asks(turn: Turn) {
  if (turn.terminal) {
    return;
  }
  await turn.step("add", { a: 1, b: 2 }).catch(() => undefined);
  return { event: "Done" };
}

/** What each attempt of a tool settled. */
async function consumed(run: Run): Promise<number[]> {
  const records = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
  return records.map(({ body }) =>
    body.case === "stepResolved" ? (body.value.usage?.costMicroUsd ?? 0) : 0,
  );
}

function reports(_payload: Json, call: ToolCall): Json {
  call.spent({ costMicroUsd: 1_000 });
  call.spent({ costMicroUsd: 7_000, inputTokens: 3 });
  return 3;
}

function fails(payload: Json, call: ToolCall): Json {
  reports(payload, call);
  throw failStep("SOLD_OUT", "there are none", { nonRetryable: call.attempt === 2 });
}

const TOOLS = [
  ["tells", reports, [7_000]],
  ["fails", fails, [7_000, 7_000]],
  ["says nothing", () => 3, [COST]],
] as const;

describe.each(TOOLS)("a tool that %s", (_, tool, settled) => {
  const sum = settled.reduce((a: number, b: number) => a + b, 0);

  test("of a worker", async () => {
    serve(
      shared.client
        .worker({ packs: ["priced"] })
        .prompt("calc", asks)
        .tool("add", tool),
    );
    const run = await shared.client.start("priced", { variables });
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(await consumed(run)).toEqual(settled);
    const { costMicroUsd, reservedCostMicroUsd } = await run.info();
    expect([costMicroUsd, reservedCostMicroUsd]).toEqual([sum, 0]);
  });

  test("of a run that is driven here", async () => {
    const result = await shared.client.run("priced", asks, { variables, tools: { add: tool } });
    expect(result.run.costMicroUsd).toBe(sum);
    expect(await consumed(shared.client.attach(result.run.runId))).toEqual(settled);
  });
});

test("a step that is answered by hand", async () => {
  const run = await shared.client.open("priced", { variables });
  const { turn } = await run.turn();
  if (!turn) {
    throw new Error("no turn");
  }
  await run.requestSteps(turn, [{ tool: "add", payload: { a: 1, b: 2 } }]);
  expect((await run.info()).reservedCostMicroUsd).toBe(COST);
  const usage = { costMicroUsd: 11 };
  await run.resolveStep(1, "add", { result: 3 }, { attempt: 1, token: turn.token, usage });
  expect(await consumed(run)).toEqual([11]);
});

test.each<[string, Usage]>([
  ["costMicroUsd", { costMicroUsd: -1 }],
  ["costMicroUsd", { costMicroUsd: 0.5 }],
  ["toolCalls", { toolCalls: 1_000_001 }],
  ["cachedTokens", { inputTokens: 1, cachedTokens: 2 }],
  ["model", { model: "m".repeat(257) }],
])("what nobody can have consumed is told to who says it: %s", async (field, usage) => {
  const caught: unknown[] = [];
  const add = (_payload: Json, call: ToolCall) => {
    try {
      call.spent(usage);
    } catch (error) {
      caught.push(error);
    }
    return 3;
  };
  const result = await shared.client.run("priced", asks, { variables, tools: { add } });
  expect(caught).toMatchObject([{ reason: "BAD_USAGE", metadata: { field } }]);
  expect(caught[0]).toBeInstanceOf(PawlError);
  expect(result.run.costMicroUsd).toBe(COST);
});

test("accounts over runs", async () => {
  const run = await shared.client.open("priced", { variables, labels: { tenant: "acme" } });
  const { turn } = await run.turn();
  if (!turn) {
    throw new Error("no turn");
  }
  const call = { tool: "add", payload: { a: 1, b: 2 } };
  await run.requestSteps(turn, [call]);
  const [day] = await all(shared.client.listBudgets({ namePrefix: "tenant=acme/" }));
  expect(day).toMatchObject({ name: "tenant=acme/day", reservedCostMicroUsd: COST, refused: 0 });
  expect((await run.info()).accounts).toMatchObject([
    { name: "tenant=acme/day", reservedCostMicroUsd: COST },
    { name: "/ever", reservedCostMicroUsd: COST },
  ]);

  const usage = { costMicroUsd: 12_000 };
  await run.resolveStep(1, "add", { result: 3 }, { attempt: 1, token: turn.token, usage });
  const { outcomes } = await run.requestSteps(turn, [{ ...call, key: "again" }]);
  expect(outcomes[0]?.denial?.code).toBe("ACCOUNT_EXHAUSTED");
  const accounts = await all(shared.client.listBudgets({ pageSize: 1 }));
  expect(accounts).toMatchObject([
    { name: "/ever", maxTokens: 1000, windowEnd: undefined },
    {
      settledCostMicroUsd: 12_000,
      reservedCostMicroUsd: 0,
      maxCostMicroUsd: 30_000,
      refused: 1,
    },
  ]);
  const report = await shared.client.usage({ by: ["state", "tool"], pack: "priced" });
  expect(report).toMatchObject({ complete: true, since: undefined });
  const costs = report.groups.map(({ costMicroUsd }) => costMicroUsd);
  expect(costs.reduce((all, cost) => all + cost, 0)).toBe(report.total.costMicroUsd);
  expect(report.groups.map(({ values }) => values[1])).toContain("add");
  const none = await shared.client.usage({ to: "2001-01-01" });
  expect(none).toMatchObject({ groups: [], total: { reports: 0 } });
  await expect(shared.client.usage({ by: ["colour"] })).rejects.toMatchObject({
    reason: "BAD_DIMENSION",
  });
  const { windowStart, windowEnd } = accounts[1] ?? {};
  expect((windowEnd?.getTime() ?? 0) - (windowStart?.getTime() ?? 0)).toBe(86_400_000);
});

test("limits and schedules", async () => {
  const limits = await shared.client.listLimits();
  expect(limits).toMatchObject([{ id: "adds", perMinute: 600, concurrent: 9 }]);
  const schedules = await shared.client.listSchedules();
  expect(schedules).toMatchObject([{ scheduleId: "nightly", pack: "priced", fault: undefined }]);
  expect(schedules[0]?.next).toHaveLength(5);
});

test("a raise tells what is left", async () => {
  const run = await shared.client.open("priced", { variables });
  const more = { maxCostMicroUsd: 800_000 };
  const raised = await run.raiseBudget("more of it", more, { id: "r" });
  expect(raised.record?.body).toMatchObject({
    case: "budgetRaised",
    value: { reason: "more of it" },
  });
  expect(raised.remaining).toMatchObject({ costMicroUsd: 800_000, tokens: 1000 });
  expect((await run.raiseBudget("more of it", more, { id: "r" })).duplicate).toBe(true);
  const lower = run.raiseBudget("less", { maxCostMicroUsd: 1 });
  await expect(lower).rejects.toMatchObject({ reason: "BUDGET_NOT_RAISED" });
});
