/** A recorded model: the agent runs without a key, in tests and in `pawl dev`. */

import { MockLanguageModelV3 } from "ai/test";

const usage = {
  inputTokens: { total: 20, noCache: 20, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
};

/** Returns a model that answers as a real one would: it calls a tool, then says what the tool returned. */
export function recorded(): MockLanguageModelV3 {
  return new MockLanguageModelV3({
    doGenerate: async ({ prompt }) => {
      const last = prompt.at(-1);
      if (last?.role === "tool" && last.content[0]?.type === "tool-result") {
        const { toolName, output } = last.content[0];
        const value = "value" in output ? output.value : output.type;
        const said = typeof value === "string" ? value : JSON.stringify(value);
        return {
          content: [{ type: "text", text: `${toolName}: ${said}` }],
          finishReason: { unified: "stop", raw: undefined },
          usage,
          warnings: [],
        };
      }
      const { toolName, input } = call(JSON.stringify(last?.content ?? ""));
      return {
        content: [
          { type: "tool-call", toolCallId: "1", toolName, input: JSON.stringify(input) },
        ],
        finishReason: { unified: "tool-calls", raw: undefined },
        usage,
        warnings: [],
      };
    },
  });
}

/** Returns the call of a tool that the question needs. */
function call(question: string): { toolName: string; input: object } {
  const numbers = question.match(/\d+/g) ?? ["17"];
  const order = numbers[0] ?? "17";
  return /refund/i.test(question)
    ? { toolName: "refund", input: { order, amount: Number(numbers.at(-1)) } }
    : { toolName: "order_status", input: { order } };
}
