/** Turns executed by a chat endpoint, from recordings, against a real sidecar. */

import { describe, expect, test } from "vitest";
import { all, useSidecar } from "./fixture.js";
import { type ChatRequest, Endpoint } from "./fixture_endpoint.js";
import { chat, MODELS } from "./fixture_models.js";
import { type Json, PawlError, RecordKind, RunStatus, textOf } from "./index.js";
import { modelHandler } from "./model_handler.js";

const shared = useSidecar();

const add = (payload: Json) => {
  const { a, b } = payload as { a: number; b: number };
  return a + b;
};

/** Runs the pack with a model that answers with these recordings. */
async function played(names: readonly string[], maxRounds?: number) {
  await using endpoint = await Endpoint.start(...names);
  const handler = chat(endpoint.url, { maxRounds });
  const options = { tools: { add }, variables: { n: 1 }, input: "Add 2 and 3." };
  const result = await shared.client.run("steps", handler, options);
  return { result, requests: endpoint.requests };
}

const reasons = (errors: readonly unknown[]) =>
  errors.map((error) => (PawlError.is(error) ? error.reason : error));

const toolMessages = (request: ChatRequest | undefined) =>
  (request?.messages ?? []).flatMap(({ role, content }) => (role === "tool" ? [content] : []));

describe("a model", () => {
  test("calls tools and leaves by the one function", async () => {
    const { result, requests } = await played(["add", "leave", "text"]);
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(result.artifacts).toEqual({ sum: 5, log: "added" });
    expect([result.run.toolCalls, result.run.tokens]).toEqual([1, 3 * 18]);
    expect(textOf(result.output)).toBe("All done.");
    const [first, second, third] = requests;
    expect(first?.messages).toEqual([
      { role: "system", content: "Add 1." },
      { role: "user", content: "Add 2 and 3." },
    ]);
    expect(first).toMatchObject({ stream: true, stream_options: { include_usage: true } });
    expect(first?.tools?.at(-1)).toEqual({
      type: "function",
      function: {
        name: "leave_state",
        description: "Ends this state. Choose the event that says how it went.",
        parameters: {
          type: "object",
          properties: {
            event: { type: "string", enum: ["Again", "Ask", "Done"] },
            artifacts: {
              type: "object",
              properties: {
                log: { description: "(text/plain)", type: "string" },
                sum: { description: "(application/json)" },
              },
              additionalProperties: false,
            },
          },
          required: ["event"],
          additionalProperties: false,
        },
      },
    });
    expect(toolMessages(second)).toEqual(["5"]);
    expect(second?.messages[2]?.content).toBe("Let me add.");
    // A terminal state cannot be left, so it has no function for that.
    const names = third?.tools?.map((tool) => tool.type === "function" && tool.function.name);
    expect(names).toEqual(["add", "boom", "forbidden"]);
    const run = shared.client.attach(result.run.runId);
    const [completed] = await all(run.records({ kinds: [RecordKind.TURN_COMPLETED] }));
    const body = completed?.body.case === "turnCompleted" ? completed.body.value : undefined;
    // The records of the model calls have the conversation. Only the result of leaving is new.
    expect([body?.conversationThroughStep, body?.messages.map(({ role }) => role)]).toEqual([
      3,
      ["tool"],
    ]);
  });

  test("calls two tools at once", async () => {
    const { result, requests } = await played(["add_twice", "leave", "text"]);
    expect(result.run.toolCalls).toBe(2);
    expect(toolMessages(requests[1])).toEqual(["5", "9"]);
  });

  test.concurrent.each([
    ["leave_unknown_event", 'event: one of Again, Ask, Done, not \\"Ship\\"'],
    ["leave_unknown_artifact", 'artifacts: one of log, sum, not \\"nope\\"'],
    ["leave_wrong_type", "artifacts.log: a string, not ["],
    ["leave_malformed", "the arguments are no JSON"],
    ["leave_with_add", "call leave_state alone"],
    ["add_malformed", "the arguments are no JSON"],
    ["add_misfit", "payload of tool add: at /"],
    ["no_such_tool", 'there is no tool \\"rm_rf\\"'],
    ["not_allowed", "TOOL_NOT_ALLOWED"],
  ])("is told of %s and corrects itself", async (name, report) => {
    const { result, requests } = await played([name, "leave", "text"]);
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(result.errors).toEqual([]);
    expect(toolMessages(requests[1]).join("\n")).toContain(report);
  });

  test("does not move the run by text alone", async () => {
    const { result, requests } = await played(["text", "leave", "text"]);
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(requests[1]?.messages.at(-1)?.content).toContain("Call leave_state to go on");
  });

  test.concurrent.each([
    ["refusal", "REFUSED"],
    ["filtered", "CONTENT_FILTER"],
    ["length", "TRUNCATED"],
    ["broken", "STREAM_TRUNCATED"],
    ["error_in_stream", "MODEL_SERVER_ERROR"],
    ["rate_limited", "MODEL_RATE_LIMITED"],
    ["server_error", "MODEL_503"],
  ])("is asked again after %s, in the same turn", async (name, reason) => {
    const { result, requests } = await played([name, "leave", "text"]);
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(result.errors).toEqual([]);
    expect(requests).toHaveLength(3);
    const run = shared.client.attach(result.run.runId);
    const resolved = await all(run.records({ kinds: [RecordKind.STEP_RESOLVED] }));
    const outcomes = resolved.map(({ body }) => {
      const { step, attempt, ok, error } = body.case === "stepResolved" ? body.value : {};
      return [step, attempt, ok, error?.code];
    });
    expect(outcomes).toEqual([
      [1, 1, false, reason],
      [1, 2, true, undefined],
      [2, 1, true, undefined],
    ]);
  });

  test("that does not answer fails the attempt, and the next one asks only that again", async () => {
    const names = ["add", "server_error", "server_error", "server_error", "leave", "text"];
    const { result, requests } = await played(names);
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(reasons(result.errors)).toEqual(["MODEL_503"]);
    expect([result.run.toolCalls, requests.length]).toEqual([1, names.length]);
  });

  test("fails the run by a request that no repetition can help", async () => {
    const { result } = await played(["bad_request"]);
    expect(result.status).toBe(RunStatus.FAILED);
    expect(result.errors).toMatchObject([{ reason: "MODEL_400", retryable: false }]);
    expect(String(result.errors[0])).toContain("no such model");
  });

  test("that never leaves is bounded", async () => {
    const { result, requests } = await played(["text"], 2);
    expect([result.status, result.reason]).toEqual([RunStatus.ESCALATED, "turn_failed"]);
    expect(reasons(result.errors)).toEqual(["MAX_ROUNDS", "MAX_ROUNDS"]);
    // The second attempt takes all answers from the record except the last, and requests that
    // again.
    expect(requests).toHaveLength(4);
    expect(JSON.stringify(requests[3])).toContain("MAX_ROUNDS");
  });

  test("runs no tool twice after an answer that is none", async () => {
    const { result } = await played(["add", "refusal", "leave", "text"]);
    expect(result.status).toBe(RunStatus.COMPLETED);
    expect(result.run.toolCalls).toBe(1);
  });

  test("that nobody answers for fails the attempt", async () => {
    const handler = chat("http://127.0.0.1:1/v1");
    const result = await shared.client.run("steps", handler, { variables: { n: 1 } });
    expect(reasons(result.errors)).toEqual(["MODEL_UNREACHABLE", "MODEL_UNREACHABLE"]);
  });
});

test("a signal ends the request in the midst of an answer", async () => {
  await using endpoint = await Endpoint.start("stuck");
  const run = await shared.client.open("steps", { variables: { n: 1 } });
  const stop = new AbortController();
  const handler = chat(endpoint.url);
  const driven = run.drive(
    (turn) => {
      turn.output = async () => stop.abort(new Error("enough"));
      return handler(turn);
    },
    { signal: stop.signal },
  );
  await expect(driven).rejects.toMatchObject({
    kind: "cancelled",
    cause: { message: "enough" },
  });
  await endpoint.abandoned();
  expect((await run.info()).status).toBe(RunStatus.RUNNING);
});

test("a worker executes the turns of a model", async () => {
  await using endpoint = await Endpoint.start("add", "leave", "text");
  const handler = chat(endpoint.url);
  const worker = shared.client.worker({ packs: ["steps"] }).prompt("calc", handler);
  const served = worker.tool("add", add).serve();
  try {
    const run = await shared.client.start("steps", { variables: { n: 1 } });
    expect((await run.wait()).run?.status).toBe(RunStatus.COMPLETED);
    expect(await run.artifacts()).toEqual({ sum: 5, log: "added" });
  } finally {
    await worker.stop();
    await served;
  }
});

test("options that make no sense are refused by name", () => {
  const model = MODELS["chat completions"]("http://127.0.0.1:1/v1");
  expect(() => modelHandler("gpt-5-mini" as never)).toThrow("model: a model of the AI SDK");
  expect(() => modelHandler(undefined as never)).toThrow("model: a model of the AI SDK");
  const older = Object.create(model, { specificationVersion: { value: "v2" } });
  expect(() => modelHandler(older)).toThrow(
    "model: its specificationVersion must be one of v3 or v4 (ai 6, 7), not v2",
  );
  expect(() => modelHandler(model, { name: "" })).toThrow("name: must not be empty");
  expect(() => modelHandler(model, { maxRounds: 0 })).toThrow("maxRounds: must be a whole");
  const settings = { headers: { authorization: "x" } };
  expect(() => modelHandler(model, { settings })).toThrow("settings.headers");
});
