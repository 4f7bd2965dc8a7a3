/** Runs from start to end through the client, against a real sidecar. */

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { all, STEPS, useSidecar } from "./fixture.js";
import { Endpoint } from "./fixture_endpoint.js";
import {
  Execution,
  failTurn,
  json,
  PawlError,
  RecordKind,
  type Reply,
  RunStatus,
  textOf,
  WaitUntil,
} from "./index.js";
import { Sidecar, script } from "./testing.js";
import { Disposition } from "./v1.js";

const shared = useSidecar();

const ANSWER = {
  id: "answer",
  name: "Answer",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: { say: { id: "say", name: "Say", version: "1.0.0", system_template: "Say it." } },
  workflow: { version: 2, entry: "say", states: { say: { prompt_task: "say", terminal: true } } },
};

describe("run", () => {
  test("completes after a correction", async () => {
    const model = script({
      work: [
        { event: "Error", artifacts: { error_summary: "E1: no such file" } },
        { event: "Success" },
      ],
      complete: [{ output: ["all", { ok: true }], usage: { outputTokens: 7 } }],
    });
    const result = await shared.client.run("self-correcting", model, {
      input: "go",
      labels: { k: "v" },
    });
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(result.artifacts).toEqual({ error_summary: "E1: no such file" });
    expect(textOf(result.output)).toBe("all");
    expect(result.run.visits).toEqual({ work: 2, complete: 1 });
    expect(result.run.tokens).toBe(7);
    expect(result.run.createdAt).toBeInstanceOf(Date);
    expect(result.errors).toEqual([]);
    const [first, second, last] = model.turns;
    expect([first?.state, first?.visit, second?.visit, last?.terminal]).toEqual([
      "work",
      1,
      2,
      true,
    ]);
    expect(first?.allowedEvents).toEqual(["Error", "Success"]);
    expect(textOf(first?.messages[0]?.parts ?? [])).toBe("go");
    expect(second?.systemPrompt).toContain("E1: no such file");
  });

  test("is forced out by a guard", async () => {
    const model = script({ work: [{ event: "Error" }], give_up: [undefined] });
    const result = await shared.client.run("self-correcting", model);
    const records = await all(shared.client.attach(result.run.runId).transitions());
    const cases = records.map((record) => record.body.case);
    expect(cases).toEqual(["transition", "transition", "transition", "transition", "ended"]);
    const last = records[3]?.body;
    expect(last?.case === "transition" && last.value.redirects).toEqual([
      { state: "work", guard: "max_visits:work" },
    ]);
    expect(records.slice(1).map((record) => record.prevSeq)).toEqual(
      records.slice(0, -1).map((record) => record.seq),
    );
  });

  test("takes a handler per prompt", async () => {
    const worker = (turn: { terminal: boolean }): Reply =>
      turn.terminal ? {} : { event: "Success" };
    const good = await shared.client.run("self-correcting", { worker });
    expect(good.status).toBe(RunStatus.COMPLETED);
  });

  const answers: [string, Reply | Error, string][] = [
    ["raises", new TypeError("boom"), "TypeError"],
    ["too large", { event: "Done", artifacts: { log: "x".repeat(70_000) } }, "ARTIFACT_TOO_LARGE"],
    ["10 MB", { event: "Done", artifacts: { log: "x".repeat(10_000_000) } }, "MESSAGE_TOO_LARGE"],
  ];

  test.concurrent.each(answers)(
    "retries the turn of a handler whose answer is bad: %s",
    async (_, bad, word) => {
      const good = { event: "Done", artifacts: { sum: 3 } };
      const model = script({ calc: [bad, good], end: [undefined] });
      const result = await shared.client.run("steps", model, { variables: { n: 1 } });
      expect(result.status).toBe(RunStatus.COMPLETED);
      expect(result.artifacts.sum).toBe(3);
      expect(model.turns.map((turn) => turn.attempt)).toEqual([1, 2, 1]);
      expect(result.errors).toHaveLength(1);
      const error = result.errors[0] as Error;
      expect(PawlError.is(error) ? error.reason : error.constructor.name).toBe(word);
    },
  );

  test.concurrent.each<[string, Reply]>([
    ["UNKNOWN_EVENT", { event: "NotDeclared" }],
    ["UNDECLARED_ARTIFACT", { event: "Done", artifacts: { nowhere: "x" } }],
    ["ARTIFACT_TYPE", { event: "Done", artifacts: { log: new Uint8Array(2) } }],
    ["INVALID_JSON", { event: "Done", artifacts: { sum: Symbol("no") as unknown as number } }],
  ])(
    "throws a reply that the pack does not know at once, and uses up no attempt: %s",
    async (reason, bad) => {
      const run = await shared.client.open("steps", { variables: { n: 1 } });
      await expect(run.drive(script({ calc: [bad] }))).rejects.toMatchObject({ reason });
      const model = script({ calc: [{ event: "Done", artifacts: { sum: 3 } }], end: [undefined] });
      expect((await run.drive(model)).status).toBe(RunStatus.COMPLETED);
      expect(model.turns.map((turn) => turn.attempt)).toEqual([1, 1]);
    },
  );

  test("ends when attempts are used up, or cannot help", async () => {
    const failing = script({ calc: [new Error("no")] });
    const used = await shared.client.run("steps", failing, { variables: { n: 1 } });
    expect([used.status, used.reason]).toEqual([RunStatus.ESCALATED, "turn_failed"]);
    expect(used.errors).toHaveLength(2);
    const quota = script({ calc: [failTurn("NO_QUOTA", "tomorrow", { retryable: false })] });
    const failed = await shared.client.run("steps", quota, { variables: { n: 1 } });
    expect(failed.status).toBe(RunStatus.FAILED);
  });

  test("goes on after the outside moved it", async () => {
    const model = script({ calc: [{ event: "Ask" }], end: [{ output: "ok" }] });
    const result = await shared.client.run("steps", model, { variables: { n: 1 } });
    expect([result.status, result.run.state]).toEqual([RunStatus.WAITING, "ask"]);
    const run = shared.client.attach(result.run.runId);
    expect((await run.drive(model)).status).toBe(RunStatus.WAITING);
    await run.emit("Yes");
    expect((await run.drive(model)).status).toBe(RunStatus.COMPLETED);
  });
});

describe("the calls one by one", () => {
  test("steps, artifacts, failure, events, pause, cancel", async () => {
    const run = await shared.client.open("steps", { variables: { n: 1 }, labels: { one: "by" } });
    const ref = async () => {
      const { turn } = await run.turn();
      if (!turn) {
        throw new Error("no turn");
      }
      return turn;
    };
    const turn = await ref();
    const request = await run.requestSteps(turn, [{ tool: "add", payload: { a: 1, b: 2 } }]);
    const step = request.outcomes[0]?.step;
    expect(step?.payload).toEqual({ a: 1, b: 2 });
    const answer = () =>
      run.resolveStep(1, "add", { result: 3 }, { attempt: 1, token: turn.token });
    expect((await answer()).disposition).toBe(Disposition.ACCEPTED);
    expect((await answer()).disposition).toBe(Disposition.IGNORED_DUPLICATE);
    expect((await run.turn()).steps[0]?.result).toBe(3);
    const { token } = await ref();
    await run.setArtifacts({ log: "a" }, { turnToken: token });
    await run.setArtifacts({ log: "b", sum: json("s") }, { turnToken: token });
    expect(await run.artifacts()).toEqual({ log: "a\nb", sum: "s" });
    const failed = await run.fail(await ref(), { code: "X" });
    expect(failed.record?.body.case).toBe("turnFailed");
    expect((await run.wait({ waitMs: 10 })).timedOut).toBe(true);
    const moved = await run.emit("Ask", { turnToken: (await ref()).token });
    expect([moved.state, moved.status]).toEqual(["ask", RunStatus.WAITING]);
    expect((await run.wait({ until: WaitUntil.WAITING })).run?.state).toBe("ask");
    await run.pause("lunch");
    await run.resume();
    expect((await run.emit("Yes")).state).toBe("end");
    expect((await run.cancel("enough")).status).toBe(RunStatus.CANCELLED);
    expect((await run.info({ atSeq: 1 })).state).toBe("calc");
    const kinds = [RecordKind.PAUSED, RecordKind.ENDED];
    const records = await all(run.records({ kinds, pageSize: 1 }));
    expect(records.map((record) => record.body.case)).toEqual(["paused", "ended"]);
    const listed = await all(shared.client.listRuns({ labels: { one: "by" } }, { pageSize: 1 }));
    expect(listed.map((info) => info.runId)).toEqual([run.id]);
    expect(listed[0]?.execution).toBe(Execution.CALLER);
  });

  test("an id of the caller's own", async () => {
    const options = { variables: { n: 1 }, requestId: "mine-1" };
    const first = await shared.client.open("steps", options);
    expect((await shared.client.open("steps", options)).id).toBe(first.id);
    const turnToken = (await first.turn()).turn?.token;
    const one = await first.emit("Again", { id: "e1", turnToken });
    const two = await first.emit("Again", { id: "e1", turnToken });
    expect([one.duplicate, two.duplicate]).toEqual([false, true]);
    expect(two.transition).toEqual(one.transition);
    await expect(first.emit("Done", { id: "e1", turnToken })).rejects.toMatchObject({
      reason: "ID_REUSED",
      kind: "conflict",
    });
  });

  test("packs", async () => {
    const document = readFileSync(STEPS);
    const report = await shared.client.validatePack(document, { filename: "steps.pack.json" });
    expect([report.ok, report.id]).toEqual([true, "steps"]);
    expect((await shared.client.registerPack(document)).duplicate).toBe(true);
    const packs = await all(shared.client.listPacks({ pageSize: 1 }));
    expect(packs.map((pack) => pack.id)).toEqual(["self-correcting", "steps"]);
    const read = await shared.client.getPack("steps", { includeContent: true });
    expect(read.content).toEqual(new Uint8Array(document));
    expect((await shared.client.packGraph("steps")).entry).toBe("calc");
  });
});

test("a run that the sidecar executes", async () => {
  const variables = { n: 1 };
  const start = (execution: Execution) =>
    shared.client.start("steps", { variables, execution: execution as Execution.SIDECAR });
  await expect(start(Execution.SIDECAR)).rejects.toMatchObject({ reason: "NO_MODELS" });
  expect(() => start(Execution.CALLER)).toThrow(
    "execution: must be Execution.WORKERS or Execution.SIDECAR, not CALLER",
  );
  await using model = await Endpoint.start("text");
  await using sidecar = await Sidecar.start({ flags: [`--model=gpt=${model.url}#gpt-5-mini`] });
  using client = sidecar.client();
  await client.registerPack(JSON.stringify(ANSWER), { filename: "answer.json" });
  const run = await client.start("answer", { input: "Go.", execution: Execution.SIDECAR });
  expect((await run.wait()).timedOut).toBe(false);
  const result = await run.result();
  expect([textOf(result.output), result.run.execution]).toEqual(["All done.", Execution.SIDECAR]);
  expect(model.requests).toHaveLength(1);
});

test("the loser of a race learns who won", async () => {
  // 8.18: two callers decide on the same state of a run. The second one receives the decision of
  // the first.
  const run = await shared.client.open("steps", { variables: { n: 1 } });
  const { turn } = await run.turn();
  await run.emit("Ask", { turnToken: turn?.token });
  const expectedSeq = (await run.info()).visitSeq;
  await run.emit("No", { expectedSeq });
  // The turn of this caller is no longer open. The error must name the sequence number instead.
  const error = await run.emit("Yes", { expectedSeq }).catch((caught: unknown) => caught);
  expect(error).toMatchObject({
    kind: "conflict",
    reason: "SEQ_MISMATCH",
    seq: (await run.info()).visitSeq,
    event: "No",
    principal: "anonymous",
    winner: { body: { case: "transition", value: { toState: "calc" } } },
  });
});
