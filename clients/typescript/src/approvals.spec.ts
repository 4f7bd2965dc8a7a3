/** Held calls, from a real sidecar: what waits for a person, and what each answer does. */

import { beforeAll, expect, test } from "vitest";
import { PawlError } from "./errors.js";
import { useSidecar } from "./fixture.js";
import { StepDecision } from "./gen/pawl/v1/control_pb.js";
import { StepVerdict } from "./gen/pawl/v1/record_pb.js";
import { WaitingKind } from "./gen/pawl/v1/run_pb.js";

const shared = useSidecar();

const PACK = {
  id: "refunds",
  name: "Refunds",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: { a: { id: "a", name: "A", version: "1.0.0", system_template: "x", tools: ["add"] } },
  tools: {
    add: {
      name: "add",
      description: "Pays back.",
      parameters: {
        type: "object",
        properties: { order: { type: "string" } },
        required: ["order"],
      },
    },
  },
  workflow: {
    version: 1,
    entry: "s",
    states: { s: { prompt_task: "a", terminal: true } },
    engine: { x_pawl: { tools: { add: { approve: "always" } } } },
  },
};

beforeAll(async () => {
  await shared.client.registerPack(JSON.stringify(PACK));
});

/** A run with a held call, and its digest. */
async function held() {
  const run = await shared.client.open("refunds");
  const { turn } = await run.turn();
  if (!turn) {
    throw new Error("no turn");
  }
  await run.requestSteps(turn, [{ tool: "add", payload: { order: "o-17" } }]);
  for await (const pending of shared.client.listApprovals({ runId: run.id })) {
    return { run, waits: pending, digest: pending.call?.approval?.digest ?? "" };
  }
  throw new Error("nothing waits");
}

async function waiting(runId: string) {
  const all = [];
  for await (const one of shared.client.listApprovals({ runId })) {
    all.push(one);
  }
  return all;
}

test("a run says that it waits for approval, and lists select it by that", async () => {
  const { run } = await held();
  const waits = (await run.info()).waiting;
  expect(waits).toMatchObject({ kind: WaitingKind.APPROVAL, step: 1, tool: "add" });
  expect(waits?.sentence).toMatch(/^Step 1 \(add\) waits for approval since .*Z\. A principal/);
  const found: string[] = [];
  for await (const info of shared.client.listRuns({ waiting: [WaitingKind.APPROVAL] })) {
    found.push(info.runId);
  }
  expect(found).toContain(run.id);
  await run.cancel();
});

test("what waits is told with its call", async () => {
  const { run, waits: pending, digest } = await held();
  expect([pending.runId, pending.packId, pending.state]).toEqual([run.id, "refunds", "s"]);
  expect(pending.call?.payload).toEqual({ order: "o-17" });
  expect(digest).toMatch(/^sha256:/);
});

test.each([
  [StepDecision.APPROVE, undefined, StepVerdict.APPROVED],
  [StepDecision.EDIT, { order: "o-18" }, StepVerdict.EDITED],
  [StepDecision.DENY, undefined, StepVerdict.DENIED],
])("decision %i is recorded", async (decision, payload, verdict) => {
  const { run, digest } = await held();
  const reason = "so it is";
  const { decided } = await run.decideStep(1, digest, decision, {
    reason,
    ...(payload ? { payload } : {}),
  });
  expect(decided?.body).toMatchObject({ case: "stepDecided", value: { verdict, reason, step: 1 } });
  expect(await waiting(run.id)).toEqual([]);
});

test("the history has each decision", async () => {
  const { run, waits: pending, digest } = await held();
  const history = async (options: Parameters<typeof shared.client.listDecisions>[0]) => {
    const all = [];
    for await (const one of shared.client.listDecisions({ runId: run.id, ...options })) {
      all.push(one);
    }
    return all;
  };
  expect(await history({})).toEqual([]);
  const { decided } = await run.decideStep(1, digest, StepDecision.DENY, { reason: "too much" });
  const [made, ...more] = await history({
    tool: "add",
    pack: "refunds",
    principal: decided?.principal ?? "",
    verdicts: [StepVerdict.DENIED],
    from: new Date(Date.now() - 3_600_000),
    to: new Date(Date.now() + 3_600_000),
    pageSize: 1,
  });
  expect(more).toEqual([]);
  expect(made).toMatchObject({ runId: run.id, packId: "refunds", since: pending.since });
  expect(made?.record?.seq).toEqual(decided?.seq);
  expect(await history({ to: new Date(Date.now() - 3_600_000) })).toEqual([]);
  expect(await history({ labels: { team: "none" } })).toEqual([]);
});

test("the second is told who was first, and what is no decision is refused", async () => {
  const { run, digest } = await held();
  const refused = async (of: Promise<unknown>) =>
    of.then(
      () => undefined,
      (error: unknown) => (error instanceof PawlError ? error : undefined),
    );
  const other = `sha256:${"0".repeat(64)}`;
  expect((await refused(run.decideStep(1, other, StepDecision.APPROVE)))?.reason).toBe(
    "DIGEST_MISMATCH",
  );
  const payload = { order: 7 };
  expect((await refused(run.decideStep(1, digest, StepDecision.EDIT, { payload })))?.reason).toBe(
    "EDIT_REFUSED",
  );
  await run.decideStep(1, digest, StepDecision.DENY, { reason: "no" });
  const second = await refused(run.decideStep(1, digest, StepDecision.APPROVE));
  expect(second?.reason).toBe("ALREADY_DECIDED");
  expect(second?.message).toContain("denied");
});
