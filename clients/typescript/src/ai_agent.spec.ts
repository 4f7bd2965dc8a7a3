/** Programs of the AI SDK under the sidecar: their calls are recorded, bounded and held. */

import {
  generateObject,
  generateText,
  jsonSchema,
  type ModelMessage,
  Output,
  stepCountIs,
  streamObject,
  streamText,
  ToolLoopAgent,
  type ToolSet,
  tool,
} from "ai";
import { convertArrayToReadableStream, MockLanguageModelV4 } from "ai/test";
import { generateText as generateText6, stepCountIs as stepCountIs6, tool as tool6 } from "ai-6";
import { MockLanguageModelV3 } from "ai-6/test";
import { expect, test } from "vitest";
import { z } from "zod";
import { agent, agentPack, bounds, currentCall } from "./ai_sdk.js";
import { all, Gate, QUIET, useSidecar } from "./fixture.js";
import { CALLS, call, comparable, STOP, say, scripted, USAGE } from "./fixture_ai.js";
import { type PawlClient, PawlError, RecordKind, RunStatus, StepDecision } from "./index.js";
import { Sidecar } from "./testing.js";

const shared = useSidecar({
  packs: [],
  allowTools: ["look_up", "refund", "ask_other", "broken", "odd"],
});
const stopWhen = stepCountIs(8);

/** A tool that writes down its calls. */
function lookUp(seen: string[]) {
  return tool({
    description: "Looks a word up.",
    inputSchema: z.object({ word: z.string() }),
    execute: async ({ word }) => {
      seen.push(`${word} ${currentCall()?.idempotencyKey ? "with a key" : "without a key"}`);
      return { word, found: true };
    },
  });
}

test("a program generates with tools; the same request id returns the recorded result", async () => {
  const seen: string[] = [];
  const tools = { look_up: lookUp(seen) };
  const model = scripted([
    [say("Let me see."), call("c1", "look_up", { word: "a" })],
    [say("Here.")],
  ]);
  const run = () =>
    agent(shared.client, { name: "generates", requestId: "g1", tools }, (durable) =>
      generateText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "a?" }),
    );
  const first = await run();
  const again = await run();
  expect([first.text, again.text]).toEqual(["Here.", "Here."]);
  expect(comparable(again.steps)).toEqual(comparable(first.steps));
  expect(again.totalUsage).toEqual(first.totalUsage);
  expect(model.doGenerateCalls).toHaveLength(2);
  expect(seen).toEqual(["a with a key"]);
});

test("a stream is the same when it is replayed, and is useChat's", async () => {
  const seen: string[] = [];
  const tools = { look_up: lookUp(seen) };
  const model = scripted([
    [say("Let me see. "), call("c1", "look_up", { word: "a" })],
    [say("Here it is.")],
  ]);
  const run = async () => {
    const answer = agent(shared.client, { name: "streams", requestId: "s1", tools }, (durable) =>
      streamText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "a?" }),
    );
    const text = await (await answer).toUIMessageStreamResponse().text();
    expect((await answer.ended).status).toBe(RunStatus.COMPLETED);
    return text;
  };
  const first = await run();
  expect(first).toContain('"delta":"see. "');
  expect(first).toContain('"type":"tool-output-available"');
  expect(first).toContain("[DONE]");
  expect(await run()).toBe(first);
  expect(model.doStreamCalls).toHaveLength(2);
  expect(seen).toHaveLength(1);
});

test("text arrives before the answer is recorded, a tool call after it", async () => {
  const gate = new Gate();
  const stream = new ReadableStream({
    async start(controller) {
      controller.enqueue({ type: "text-start", id: "1" });
      controller.enqueue({ type: "text-delta", id: "1", delta: "Wait" });
      controller.enqueue({ type: "text-end", id: "1" });
      controller.enqueue(call("c1", "look_up", { word: "a" }));
      await gate.opened;
      controller.enqueue({ type: "finish", finishReason: CALLS, usage: USAGE });
      controller.close();
    },
  });
  const model = new MockLanguageModelV4({ doStream: async () => ({ stream }) });
  const seen: string[] = [];
  const answer = agent(
    shared.client,
    { name: "early", tools: { look_up: lookUp(seen) } },
    (durable) => streamText({ model: durable.model(model), tools: durable.tools, prompt: "a?" }),
  );
  const types: string[] = [];
  for await (const part of (await answer).fullStream) {
    types.push(part.type);
    if (part.type === "text-end") {
      expect(seen).toEqual([]);
      gate.open();
    }
  }
  expect(types.indexOf("text-delta")).toBeLessThan(types.indexOf("tool-call"));
  expect(types).toContain("tool-result");
  expect(seen).toHaveLength(1);
});

test("agents of the SDK, structured output and 100 parallel calls", async () => {
  const seen: string[] = [];
  const words = Array.from({ length: 100 }, (_, at) => `w${at}`);
  const tools = { look_up: lookUp(seen) };
  const model = scripted([
    words.map((word) => call(`c-${word}`, "look_up", { word })),
    [say('{"count":100}')],
  ]);
  const run = () =>
    agent(shared.client, { name: "parallel", requestId: "p1", tools }, (durable) => {
      const output = Output.object({ schema: z.object({ count: z.number() }) });
      const counting = new ToolLoopAgent({
        model: durable.model(model),
        tools: durable.tools,
        output,
        stopWhen,
      });
      return counting.generate({ prompt: "Look all up." });
    });
  const result = await run();
  expect(result.output).toEqual({ count: 100 });
  expect(result.steps[0]?.toolResults).toHaveLength(100);
  expect((await run()).output).toEqual({ count: 100 });
  expect(seen).toHaveLength(100);
  expect(model.doGenerateCalls).toHaveLength(2);
});

test("models and tools of ai 6", async () => {
  let asked = 0;
  const model = new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      asked += 1;
      const first = prompt.every(({ role }) => role !== "assistant");
      const content = first ? [call("c1", "look_up", { word: "six" })] : [say("six it is")];
      return { content, finishReason: first ? CALLS : STOP, usage: USAGE, warnings: [] };
    },
  });
  const look_up = tool6({
    inputSchema: z.object({ word: z.string() }),
    execute: async ({ word }) => word,
  });
  const run = () =>
    agent(
      shared.client,
      { name: "six", requestId: "six", tools: { look_up } as unknown as ToolSet },
      (durable) =>
        generateText6({
          model: durable.model(model),
          tools: durable.tools as unknown as { look_up: typeof look_up },
          stopWhen: stepCountIs6(3),
          prompt: "six?",
        }),
    );
  expect((await run()).text).toBe("six it is");
  expect((await run()).text).toBe("six it is");
  expect(asked).toBe(2);
});

test("a call that needs approval waits for a person, who may change it", async () => {
  const paid: number[] = [];
  const refund = tool({
    description: "Refunds.",
    inputSchema: z.object({ amount: z.number() }),
    needsApproval: true,
    execute: async ({ amount }) => {
      paid.push(amount);
      return { paid: amount };
    },
  });
  const model = scripted([[call("c1", "refund", { amount: 150 })], [say("Done.")]]);
  const answer = agent(
    shared.client,
    { name: "refunds", requestId: "approve", tools: { refund } },
    (durable) =>
      generateText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "150" }),
  );
  const decide = async () => {
    for (;;) {
      for await (const { runId, call: held } of shared.client.listApprovals()) {
        if (held?.tool === "refund") {
          const run = shared.client.attach(runId);
          await run.decideStep(held.step, held.approval?.digest ?? "", StepDecision.EDIT, {
            payload: { amount: 50 },
            reason: "half",
          });
          return;
        }
      }
    }
  };
  const [result] = await Promise.all([answer, decide()]);
  expect(result.steps[0]?.toolResults[0]?.output).toEqual({ paid: 50 });
  expect(paid).toEqual([50]);
});

test("limits and approvals are those of the pack", async () => {
  const tools = {
    refund: tool({ inputSchema: z.object({ amount: z.number() }), execute: () => 1 }),
  };
  const limits = bounds({
    maxToolCalls: 1,
    maxCostUsd: 2,
    prices: { m: { input: 1, output: 2 } },
    approve: { refund: "payload.amount > 100.0" },
    repeat: ["refund"],
    tools: { refund: { timeout_sec: 30 } },
  });
  const { pack } = await agentPack({ name: "limited", tools, bounds: limits });
  const { workflow } = pack.document() as { workflow: { engine: object } };
  expect(workflow.engine).toEqual({
    budget: { max_tool_calls: 1 },
    x_pawl: {
      max_pending_steps: 1024,
      max_cost_usd: 2,
      prices: { m: { input: 1, output: 2 } },
      tools: {
        refund: {
          approve: "payload.amount > 100.0",
          attempts: 3,
          on_unknown: "retry",
          timeout_sec: 30,
        },
      },
    },
  });
  await pack.check();
  await expect(agentPack({ name: "x", bounds: limits })).rejects.toThrow('"refund" is no tool');
  await expect(agentPack({ name: "Not valid" })).rejects.toThrow("an id is lower-case");
});

test("a limit ends the run with its reason, the same for each later call", async () => {
  const tools = { look_up: lookUp([]) };
  const words = ["a", "b", "c"].map((word) => [call(`c-${word}`, "look_up", { word })]);
  const model = scripted(words);
  const run = () =>
    agent(
      shared.client,
      { name: "bounded", requestId: "b1", tools, bounds: bounds({ maxToolCalls: 2 }) },
      (durable) =>
        generateText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "?" }),
    );
  for (const _ of [1, 2]) {
    const error = await run().then(
      () => undefined,
      (thrown: unknown) => thrown as PawlError,
    );
    expect([error?.reason, error?.metadata.status, error?.metadata.reason]).toEqual([
      "RUN_ENDED",
      "BUDGET_EXHAUSTED",
      "max_tool_calls",
    ]);
  }
  expect(model.doGenerateCalls).toHaveLength(3);
});

test("usage counts against the budget", async () => {
  const model = scripted([[say("one")]]);
  const answer = agent(shared.client, { name: "tokens", requestId: "t1" }, (durable) =>
    generateText({ model: durable.model(model), prompt: "?" }),
  );
  const { run } = await answer.ended;
  expect(run.tokens).toBe(15);
  const poor = agent(
    shared.client,
    { name: "poor", bounds: bounds({ maxTokens: 100 }) },
    (durable) => generateText({ model: durable.model(model), maxOutputTokens: 200, prompt: "?" }),
  );
  await expect(poor).rejects.toMatchObject({ reason: "RUN_ENDED" });
  expect(model.doGenerateCalls).toHaveLength(1);
});

test("errors of tools reach the model in their own words", async () => {
  const broken = tool({
    inputSchema: z.object({ at: z.string().optional() }),
    execute: (): string => {
      throw new Error("the shop is closed");
    },
  });
  const odd = tool({
    inputSchema: z.object({ at: z.string().optional() }),
    execute: () => new Map([["a", 1]]),
  });
  const model = scripted([[call("c1", "broken", {})], [say("Sorry.")]]);
  const tools = { broken };
  const result = await agent(shared.client, { name: "broken", tools }, (durable) =>
    generateText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "?" }),
  );
  const [part] = result.steps[0]?.content.filter(({ type }) => type === "tool-error") ?? [];
  expect(String((part as { error?: Error }).error?.message)).toBe("the shop is closed");
  const wrong = scripted([[call("c1", "odd", {})], [say("Sorry.")]]);
  const answer = agent(shared.client, { name: "odd", tools: { odd } }, (durable) =>
    generateText({ model: durable.model(wrong), tools: durable.tools, stopWhen, prompt: "?" }),
  );
  await expect(answer).rejects.toMatchObject({ reason: "RESULT_INVALID" });
  await expect(answer).rejects.toThrow("an instance of Map is no JSON");
});

test("a tool that the operator does not allow ends the program, not the run", async () => {
  const model = scripted([[call("c1", "secret", {})], [say("Sorry.")]]);
  const tools = {
    secret: tool({ inputSchema: z.object({ at: z.string().optional() }), execute: () => 1 }),
  };
  const answer = agent(shared.client, { name: "secret", tools }, (durable) =>
    generateText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "?" }),
  );
  await expect(answer).rejects.toMatchObject({ reason: "TOOL_NOT_ALLOWED" });
  expect(model.doGenerateCalls).toHaveLength(1);
  const [run] = await all(shared.client.listRuns({ pack: "secret" }));
  expect(run?.status).toBe(RunStatus.RUNNING);
});

test("an error of the program ends the run, and is thrown as it is", async () => {
  const failing = () =>
    agent(shared.client, { name: "failing", requestId: "f1" }, () => {
      throw new TypeError("x is not a function");
    });
  await expect(failing()).rejects.toThrow(TypeError);
  await expect(failing()).rejects.toMatchObject({
    reason: "RUN_ENDED",
    metadata: { status: "FAILED" },
  });
});

test("a failure of the model is repeated as the pack says, not by the SDK", async () => {
  let asked = 0;
  const model = scripted([
    () => {
      asked += 1;
      if (asked < 3) {
        throw Object.assign(new Error("overloaded"), { statusCode: 503 });
      }
      return [say("at last")];
    },
  ]);
  const retry = { max_attempts: 3, initial_sec: 0.01, max_sec: 0.01 };
  const limits = bounds({ engine: { model_calls: { retry } } });
  const result = await agent(shared.client, { name: "retries", bounds: limits }, (durable) =>
    generateText({ model: durable.model(model), prompt: "?" }),
  );
  expect([result.text, asked]).toEqual(["at last", 3]);
});

test("a changed schema of a tool is reported by name; other changes keep the run's pack", async () => {
  const gate = new Gate();
  const quiet = shared.sidecar.client({ log: QUIET });
  const begun = (client: PawlClient, schema: z.ZodType, most: number, stop?: AbortSignal) => {
    const look_up = tool({ inputSchema: schema, execute: () => "found" });
    const limits = bounds({ maxToolCalls: most });
    const model = scripted([[call("c1", "look_up", { word: "a" })], [say("Here.")]]);
    const options = { name: "changing", requestId: "c1", tools: { look_up }, bounds: limits };
    return agent(client, { ...options, ...(stop ? { signal: stop } : {}) }, async (durable) => {
      const result = await generateText({
        model: durable.model(model),
        tools: durable.tools,
        prompt: "?",
      });
      if (stop) {
        gate.open();
        await new Promise(() => undefined);
      }
      return result.text;
    });
  };
  const stop = new AbortController();
  const first = begun(quiet, z.object({ word: z.string() }), 5, stop.signal);
  await gate.opened;
  stop.abort();
  await expect(first).rejects.toMatchObject({ kind: "cancelled" });
  const changed = begun(quiet, z.object({ word: z.string(), exact: z.boolean() }), 5);
  await expect(changed).rejects.toMatchObject({
    reason: "RUN_CHANGED",
    metadata: { tools: "look_up" },
  });
  await begun(quiet, z.object({ word: z.string() }), 6);
  quiet.close();
});

test("agents in tools: their calls are recorded under the call of the tool", async () => {
  const inner = scripted([[call("c1", "look_up", { word: "deep" })], [say("deep down")]]);
  const outer = scripted([[call("c1", "ask_other", { question: "?" })], [say("done")]]);
  const seen: string[] = [];
  const run = () => {
    let look = {} as ToolSet;
    let nested = inner as Parameters<typeof generateText>[0]["model"];
    const ask_other = tool({
      inputSchema: z.object({ question: z.string() }),
      execute: async ({ question }) => {
        const { look_up } = look;
        const tools: ToolSet = look_up ? { look_up } : {};
        return (await generateText({ model: nested, tools, stopWhen, prompt: question })).text;
      },
    });
    const tools = { ask_other, look_up: lookUp(seen) };
    return agent(shared.client, { name: "outer", requestId: "n1", tools }, (durable) => {
      look = durable.tools;
      nested = durable.model(inner);
      return generateText({
        model: durable.model(outer),
        tools: durable.tools,
        stopWhen,
        prompt: "?",
      });
    });
  };
  expect((await run()).steps[0]?.toolResults[0]?.output).toBe("deep down");
  await run();
  expect([inner.doGenerateCalls.length, outer.doGenerateCalls.length, seen.length]).toEqual([
    2, 2, 1,
  ]);
  const [info] = await all(shared.client.listRuns({ pack: "outer" }));
  const records = shared.client.attach(info?.runId ?? "").records({
    kinds: [RecordKind.STEP_REQUESTED],
  });
  const keys = (await all(records)).map(({ body }) => {
    return body.case === "stepRequested" ? body.value.key : "";
  });
  expect(keys).toEqual([
    "ai/model.1",
    "ai/model.1/0",
    "ai/model.1/0/model.1",
    "ai/model.1/0/model.1/0",
    "ai/model.1/0/model.2",
    "ai/model.2",
  ]);
});

test("an aborted call is recorded as such, once", async () => {
  const stop = new AbortController();
  const begun = new Gate();
  const model = scripted([
    ({ abortSignal }) =>
      new Promise((_, reject) => {
        begun.open();
        abortSignal?.addEventListener("abort", () => reject(abortSignal.reason));
      }),
  ]);
  const answer = agent(shared.client, { name: "aborting", requestId: "a1" }, (durable) =>
    generateText({ model: durable.model(model), prompt: "?", abortSignal: stop.signal }),
  );
  await begun.opened;
  stop.abort();
  await expect(answer).rejects.toMatchObject({ name: "AbortError" });
  const [run] = await all(shared.client.listRuns({ pack: "aborting" }));
  expect(run?.status).toBe(RunStatus.FAILED);
  const records = shared.client.attach(run?.runId ?? "").records({
    kinds: [RecordKind.STEP_RESOLVED],
  });
  const errors = (await all(records)).map(({ body }) => {
    return body.case === "stepResolved" ? body.value.error?.code : "";
  });
  expect(errors).toEqual(["ABORTED"]);
});

test("a cancelled stream ends its call and its run", async () => {
  const cancelled: unknown[] = [];
  const stop = new AbortController();
  const model = new MockLanguageModelV4({
    doStream: async () => ({
      stream: new ReadableStream({
        start(controller) {
          controller.enqueue({ type: "text-start", id: "1" });
          controller.enqueue({ type: "text-delta", id: "1", delta: "Once upon" });
        },
        cancel: (reason) => {
          cancelled.push(reason);
        },
      }),
    }),
  });
  const answer = agent(shared.client, { name: "cancelling" }, (durable) =>
    streamText({ model: durable.model(model), prompt: "?", abortSignal: stop.signal }),
  );
  const types: string[] = [];
  for await (const part of (await answer).fullStream) {
    types.push(part.type);
    if (part.type === "text-delta") {
      stop.abort();
    }
  }
  expect(types.at(-1)).toBe("abort");
  await expect(answer.ended).rejects.toMatchObject({ name: "AbortError" });
  expect(cancelled).toHaveLength(1);
  const [run] = await all(shared.client.listRuns({ pack: "cancelling" }));
  expect(run?.status).toBe(RunStatus.FAILED);
});

test("a stream that breaks after its first words is an error of the stream, without repetition", async () => {
  const model = new MockLanguageModelV4({
    doStream: async () => ({
      stream: new ReadableStream({
        start(controller) {
          controller.enqueue({ type: "text-start", id: "1" });
          controller.enqueue({ type: "text-delta", id: "1", delta: "Once" });
          controller.enqueue({
            type: "error",
            error: { type: "overloaded_error", message: "full" },
          });
          controller.close();
        },
      }),
    }),
  });
  const errors: unknown[] = [];
  const answer = agent(shared.client, { name: "breaking" }, (durable) =>
    streamText({
      model: durable.model(model),
      prompt: "?",
      onError: ({ error }) => {
        errors.push(error);
      },
    }),
  );
  const types: string[] = [];
  for await (const part of (await answer).fullStream) {
    types.push(part.type);
  }
  expect(types).toContain("error");
  await expect(answer.ended).rejects.toThrow();
  expect(errors).toHaveLength(1);
  expect(PawlError.is(errors[0])).toBe(true);
  expect(model.doStreamCalls).toHaveLength(1);
});

test("schemas of the SDK, dates in answers, and tools without execute", async () => {
  const schema = jsonSchema<{ word: string }>({
    type: "object",
    properties: { word: { type: "string" } },
    required: ["word"],
  });
  const tools = {
    look_up: tool({ inputSchema: schema, execute: async ({ word }) => new Date(Date.parse(word)) }),
    on_screen: tool({ inputSchema: schema, outputSchema: schema }),
  };
  const model = scripted([
    [call("c1", "look_up", { word: "2026-01-02T00:00:00Z" })],
    [call("c2", "on_screen", { word: "b" })],
  ]);
  const result = await agent(shared.client, { name: "schemas", tools }, (durable) =>
    generateText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "?" }),
  );
  expect(result.steps[0]?.toolResults[0]?.output).toBe("2026-01-02T00:00:00.000Z");
  expect(result.finishReason).toBe("tool-calls");
  const { pack } = await agentPack({ name: "schemas", tools });
  expect(Object.keys(pack.tools)).toEqual(["look_up"]);
});

test("names of tools that no pack can have, and tools without properties, as those of MCP", async () => {
  const execute = async () => "found";
  const inputSchema = jsonSchema<{ word?: string }>({ type: "object" });
  const tools = { "look-up": tool({ inputSchema, execute }) };
  const model = scripted([[call("c1", "look-up", {})], [say("Here.")]]);
  const result = await agent(
    shared.client,
    { name: "dashes", tools, bounds: bounds({ repeat: ["look-up"] }) },
    (durable) =>
      generateText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "?" }),
  );
  expect(result.steps[0]?.toolResults[0]?.output).toBe("found");
  const both = { ...tools, look_up: lookUp([]) };
  await expect(agentPack({ name: "both", tools: both })).rejects.toThrow("have one name in a pack");
});

test("each message is recorded once, and a request is the same when it is repeated", async () => {
  const long = "a long question ".repeat(500);
  const tools = { look_up: lookUp([]) };
  const words = ["a", "b", "c", "d"];
  const model = scripted([
    ...words.map((word) => [say(`next ${word}`), call(`c-${word}`, "look_up", { word })]),
    [say("Here.")],
  ]);
  const stop = new AbortController();
  const done = new Gate();
  using client = shared.sidecar.client({ log: QUIET });
  const run = (signal: AbortSignal) =>
    agent(client, { name: "once", requestId: "o1", tools, signal }, async (durable) => {
      const result = await generateText({
        model: durable.model(model),
        tools: durable.tools,
        stopWhen,
        system: "Be brief.",
        prompt: long,
      });
      if (signal === stop.signal) {
        done.open();
        await new Promise(() => undefined);
      }
      return result.text;
    });
  const first = run(stop.signal);
  await done.opened;
  stop.abort();
  await expect(first).rejects.toMatchObject({ kind: "cancelled" });
  expect(await run(new AbortController().signal)).toBe("Here.");
  expect(model.doGenerateCalls).toHaveLength(5);
  const [info] = await all(client.listRuns({ pack: "once" }));
  const own = client.attach(info?.runId ?? "");
  const kinds = [RecordKind.STEP_REQUESTED, RecordKind.MODEL_UPDATED];
  const records = await all(own.records({ kinds }));
  const requests = records.flatMap(({ body }) => {
    return body.case === "stepRequested" && body.value.model ? [body.value.model] : [];
  });
  const kindsOf = requests.map(({ messages }) =>
    messages.map(({ content }) => content.case).join(),
  );
  expect(kindsOf).toEqual(["message", "result", "result", "result", "result"]);
  expect(records.filter(({ body }) => body.case === "modelUpdated")).toEqual([]);
  const { messages, system } = await own.modelStep(info?.lastStep ?? 0);
  expect(messages.map(({ role }) => role)).toEqual([
    "user",
    ...words.flatMap(() => ["assistant", "tool"]),
  ]);
  expect(system).toBe("Be brief.");
});

test("a second program with the request id of an active run is refused", async () => {
  const gate = new Gate();
  const begun = new Gate();
  const run = () =>
    agent(shared.client, { name: "twice", requestId: "w1" }, async () => {
      begun.open();
      await gate.opened;
      return "done";
    });
  const first = run();
  await begun.opened;
  await expect(run()).rejects.toMatchObject({ reason: "RUN_DRIVEN" });
  gate.open();
  expect(await first).toBe("done");
});

test("an agent in a tool has the key of the call as its request id", async () => {
  const inner = scripted([[say("inside")]]);
  const outer = scripted([[call("c1", "ask_other", {})], [say("outside")]]);
  const ask_other = tool({
    inputSchema: z.object({ at: z.string().optional() }),
    execute: async (): Promise<string> => {
      const answer = await agent(shared.client, { name: "inner-agent" }, (durable) =>
        generateText({ model: durable.model(inner), prompt: "?" }),
      );
      return answer.text;
    },
  });
  await agent(shared.client, { name: "outer-agent", tools: { ask_other } }, (durable) =>
    generateText({ model: durable.model(outer), tools: durable.tools, stopWhen, prompt: "?" }),
  );
  const [own] = await all(shared.client.listRuns({ pack: "outer-agent" }));
  const [nested] = await all(shared.client.listRuns({ pack: "inner-agent" }));
  const { requestId } = await shared.client.attach(nested?.runId ?? "").snapshot();
  expect(requestId).toBe(`${own?.runId}/2`);
});

test("a completed run whose program makes other calls is reported, not called", async () => {
  const seen: string[] = [];
  const run = (words: readonly string[]) => {
    const tools = { look_up: lookUp(seen) };
    return agent(shared.client, { name: "other", requestId: "x1", tools }, async (durable) => {
      const found: unknown[] = [];
      for (const word of words) {
        const options = { toolCallId: word, messages: [], context: {} };
        const result = durable.tools.look_up.execute?.({ word }, options as never);
        found.push(await Promise.resolve(result).catch((error: Error) => error.message));
      }
      return found.length;
    });
  };
  expect(await run(["a"])).toBe(1);
  expect(await run(["a"])).toBe(1);
  await expect(run(["a", "b"])).rejects.toMatchObject({ reason: "RUN_CHANGED" });
  expect(seen).toHaveLength(1);
});

test("a stream that breaks before its first word is asked again", async () => {
  let asked = 0;
  const model = new MockLanguageModelV4({
    doStream: async () => {
      asked += 1;
      const parts =
        asked === 1
          ? [{ type: "error" as const, error: { type: "overloaded_error", message: "full" } }]
          : [
              { type: "text-start" as const, id: "1" },
              { type: "text-delta" as const, id: "1", delta: "at last" },
              { type: "text-end" as const, id: "1" },
              { type: "finish" as const, finishReason: STOP, usage: USAGE },
            ];
      return { stream: convertArrayToReadableStream(parts as never[]) };
    },
  });
  const retry = { max_attempts: 3, initial_sec: 0.01, max_sec: 0.01 };
  const limits = bounds({ engine: { model_calls: { retry } } });
  const answer = agent(shared.client, { name: "again", bounds: limits }, (durable) =>
    streamText({ model: durable.model(model), prompt: "?" }),
  );
  expect(await (await answer).text).toBe("at last");
  expect((await answer.ended).run.tokens).toBeGreaterThanOrEqual(15);
  expect(asked).toBe(2);
});

test("a run goes on to its end when the reader of its stream leaves", async () => {
  const tools = { look_up: lookUp([]) };
  const model = scripted([
    [say("One moment. "), call("c1", "look_up", { word: "a" })],
    [say("Here.")],
  ]);
  const answer = agent(shared.client, { name: "leaving", tools }, (durable) =>
    streamText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "?" }),
  );
  const reader = (await answer).toUIMessageStreamResponse().body?.getReader();
  await reader?.read();
  await reader?.cancel();
  expect((await answer.ended).text).toBe("Here.");
});

test("a response in place of the result is a mistake of the program", async () => {
  const answer = agent(shared.client, { name: "response" }, (durable) =>
    streamText({
      model: durable.model(scripted([])),
      prompt: "?",
      onError: () => undefined,
    }).toUIMessageStreamResponse(),
  );
  await expect(answer).rejects.toThrow("return the result of streamText itself");
});

test("objects are generated and streamed by the SDK's older functions", async () => {
  const schema = z.object({ count: z.number() });
  const model = scripted([[say('{"count":3}')]]);
  const generated = await agent(shared.client, { name: "objects" }, (durable) =>
    generateObject({ model: durable.model(model), schema, prompt: "?" }),
  );
  expect(generated.object).toEqual({ count: 3 });
  const answer = agent(shared.client, { name: "objects" }, (durable) =>
    streamObject({ model: durable.model(model), schema, prompt: "?" }),
  );
  const streamed = await answer;
  const parts = await all(streamed.partialObjectStream);
  expect(parts.at(-1)).toEqual({ count: 3 });
  expect((await answer.ended).status).toBe(RunStatus.COMPLETED);
});

test("models by their names, from the SDK's default provider", async () => {
  const model = scripted([[say("by name")]]);
  const place = globalThis as { AI_SDK_DEFAULT_PROVIDER?: unknown };
  place.AI_SDK_DEFAULT_PROVIDER = { languageModel: () => model };
  try {
    const result = await agent(shared.client, { name: "named" }, (durable) =>
      generateText({ model: durable.model("some/model"), prompt: "?" }),
    );
    expect(result.text).toBe("by name");
  } finally {
    delete place.AI_SDK_DEFAULT_PROVIDER;
  }
});

test("needsApproval as a function stays the SDK's: the result asks, the next run answers", async () => {
  const paid: number[] = [];
  const refund = tool({
    inputSchema: z.object({ amount: z.number() }),
    needsApproval: ({ amount }) => amount > 100,
    execute: ({ amount }) => {
      paid.push(amount);
      return { paid: amount };
    },
  });
  const model = scripted([[call("c1", "refund", { amount: 150 })], [say("Done.")]]);
  const run = (requestId: string, messages: ModelMessage[]) =>
    agent(shared.client, { name: "asking", requestId, tools: { refund } }, (durable) =>
      generateText({ model: durable.model(model), tools: durable.tools, stopWhen, messages }),
    );
  const asked: ModelMessage = { role: "user", content: "150 back" };
  const first = await run("q1", [asked]);
  const request = first.content.find(({ type }) => type === "tool-approval-request");
  const { approvalId = "" } = (request ?? {}) as { approvalId?: string };
  expect([approvalId.length > 0, paid]).toEqual([true, []]);
  const answer: ModelMessage = {
    role: "tool",
    content: [{ type: "tool-approval-response", approvalId, approved: true }],
  };
  const messages = [asked, ...first.response.messages, answer];
  for (const _ of [1, 2]) {
    expect((await run("q2", messages)).text).toBe("Done.");
  }
  expect(paid).toEqual([150]);
});

test("a message of a person reaches the model with its next call, and stays in the conversation", async () => {
  let runId = "";
  const look_up = tool({
    inputSchema: z.object({ word: z.string() }),
    execute: async ({ word }) => {
      if (word === "a") {
        await shared.client.attach(runId).steer("Only in English, please.");
      }
      return word;
    },
  });
  const model = scripted([
    [call("c1", "look_up", { word: "a" })],
    [call("c2", "look_up", { word: "b" })],
    [say("Here.")],
  ]);
  await agent(shared.client, { name: "steered", tools: { look_up } }, (durable) => {
    runId = durable.runId;
    return generateText({
      model: durable.model(model),
      tools: durable.tools,
      stopWhen,
      prompt: "?",
    });
  });
  const roles = model.doGenerateCalls.map(({ prompt }) => prompt.map(({ role }) => role).join(" "));
  expect(roles).toEqual([
    "user",
    "user assistant tool user",
    "user assistant tool user assistant tool",
  ]);
  expect(JSON.stringify(model.doGenerateCalls[2]?.prompt[3])).toContain("Only in English");
});

test("prompts that no record can have as they are: many parts, files, halves of characters", async () => {
  const model = scripted([[say("Here.")]]);
  const parts = Array.from({ length: 100 }, (_, at) => ({ type: "text" as const, text: `${at} ` }));
  const file = { type: "file" as const, mediaType: "image/png", data: new Uint8Array(100_000) };
  const messages: ModelMessage[] = [
    { role: "user", content: [...parts, file] },
    { role: "user", content: "half \ud83d of it" },
  ];
  const answer = agent(shared.client, { name: "prompts" }, (durable) =>
    generateText({ model: durable.model(model), system: "\ud83d", messages }),
  );
  expect((await answer).text).toBe("Here.");
  const { run } = await answer.ended;
  const view = await shared.client.attach(run.runId).modelStep(1);
  expect(view.messages[0]?.parts).toHaveLength(64);
  expect(JSON.stringify(view.messages[0]?.parts.at(-1)?.content)).toContain("sha256");
});

test("a model of an unknown interface is refused at once", async () => {
  const model = { ...scripted([]), specificationVersion: "v2" as never };
  const answer = agent(shared.client, { name: "old" }, (durable) =>
    generateText({ model: durable.model(model as never), prompt: "?" }),
  );
  await expect(answer).rejects.toThrow("must be v3 or v4 (ai 6, 7), not v2");
});

test("the program goes on while the sidecar is away", async () => {
  await using sidecar = await Sidecar.start({ allowTools: ["look_up"] });
  using client = sidecar.client({ log: QUIET });
  const seen: string[] = [];
  const look_up = tool({
    inputSchema: z.object({ word: z.string() }),
    execute: async ({ word }) => {
      seen.push(word);
      await sidecar.restart();
      return word;
    },
  });
  const model = scripted([
    async () => {
      await sidecar.restart();
      return [call("c1", "look_up", { word: "a" })];
    },
    [say("Here.")],
  ]);
  const result = await agent(client, { name: "away", tools: { look_up } }, (durable) =>
    generateText({ model: durable.model(model), tools: durable.tools, stopWhen, prompt: "?" }),
  );
  expect(result.text).toBe("Here.");
  expect(seen).toEqual(["a"]);
  expect(model.doGenerateCalls).toHaveLength(2);
});
