import { generateText, stepCountIs, streamText, tool } from "ai";
import { MockLanguageModelV4, simulateReadableStream } from "ai/test";
import { expect, test } from "vitest";
import { z } from "zod";
import { agent, bounds, currentCall } from "./ai_sdk.js";
import { useSidecar } from "./fixture.js";

const shared = useSidecar({ allowTools: ["*"] });

const usage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
};
const stop = { unified: "stop" as const, raw: "stop" };
const callTools = { unified: "tool-calls" as const, raw: "tool_calls" };

function model(answers: readonly object[][]) {
  let at = 0;
  return new MockLanguageModelV4({
    doGenerate: async () => {
      const content = answers[at++] as never[];
      const calls = JSON.stringify(content).includes('"tool-call"');
      return { content, finishReason: calls ? callTools : stop, usage, warnings: [] };
    },
  });
}

/** Steps without what the SDK makes anew in each execution: ids of calls, and times. */
function comparable(steps: readonly object[]): unknown {
  return steps.map((step) => {
    return JSON.parse(JSON.stringify({ ...step, callId: "", performance: {} }));
  });
}

test("generates", async () => {
  const asked: string[] = [];
  const tools = {
    weather: tool({
      description: "Reads the weather.",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => {
        asked.push(`${city} ${currentCall()?.idempotencyKey}`);
        return { city, sunny: true };
      },
    }),
  };
  const mock = model([
    [{ type: "tool-call", toolCallId: "c1", toolName: "weather", input: '{"city":"Oslo"}' }],
    [{ type: "text", text: "It is sunny." }],
  ]);
  const run = () =>
    agent(
      shared.client,
      { name: "forecast", requestId: "r1", tools, bounds: bounds({ maxToolCalls: 3 }) },
      (durable) =>
        generateText({
          model: durable.model(mock),
          tools: durable.tools,
          stopWhen: stepCountIs(5),
          prompt: "Weather in Oslo?",
        }),
    );
  const first = await run();
  expect(first.text).toBe("It is sunny.");
  expect(asked).toHaveLength(1);
  const again = await run();
  expect(again.text).toBe("It is sunny.");
  expect(comparable(again.steps)).toEqual(comparable(first.steps));
  expect(mock.doGenerateCalls).toHaveLength(2);
  expect(asked).toHaveLength(1);
});

test("streams", async () => {
  const mock = new MockLanguageModelV4({
    doStream: async () => ({
      stream: simulateReadableStream({
        chunks: [
          { type: "stream-start", warnings: [] },
          { type: "text-start", id: "1" },
          { type: "text-delta", id: "1", delta: "Hel" },
          { type: "text-delta", id: "1", delta: "lo" },
          { type: "text-end", id: "1" },
          { type: "finish", finishReason: stop, usage },
        ],
      }),
    }),
  });
  const run = async () => {
    const answer = agent(shared.client, { name: "hello", requestId: "s1" }, (durable) =>
      streamText({ model: durable.model(mock), prompt: "Hi" }),
    );
    const result = await answer;
    const text = await result.toUIMessageStreamResponse().text();
    await answer.ended;
    return text;
  };
  const first = await run();
  expect(first).toContain("Hel");
  expect(await run()).toBe(first);
  expect(mock.doStreamCalls).toHaveLength(1);
});
