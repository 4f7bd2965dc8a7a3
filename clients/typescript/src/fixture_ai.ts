/** Models of the AI SDK for specs of durable agents: they answer by what the prompt has so far. */

import { MockLanguageModelV4 } from "ai/test";

type Stream = Awaited<ReturnType<MockLanguageModelV4["doStream"]>>["stream"];
type Part = Stream extends ReadableStream<infer P> ? P : never;

/** What every answer consumes. */
export const USAGE = {
  inputTokens: { total: 10, noCache: 10, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 5, text: 5, reasoning: 0 },
};

export const STOP = { unified: "stop" as const, raw: "stop" };
export const CALLS = { unified: "tool-calls" as const, raw: "tool_calls" };

/** A tool call of an answer. */
export function call(toolCallId: string, toolName: string, input: object) {
  return { type: "tool-call" as const, toolCallId, toolName, input: JSON.stringify(input) };
}

/** A text of an answer. */
export function say(text: string) {
  return { type: "text" as const, text };
}

type Content = readonly (ReturnType<typeof call> | ReturnType<typeof say>)[];

/** What a model answers, by the number of answers in the prompt; a function throws or takes time. */
export type Answers = readonly (
  | Content
  | ((options: { readonly abortSignal?: AbortSignal | undefined }) => Content | Promise<Content>)
)[];

/** A model that answers as a whole, and as a stream of words. It counts its calls. */
export function scripted(answers: Answers): MockLanguageModelV4 {
  const answer = async (options: {
    readonly prompt: readonly { readonly role: string }[];
    readonly abortSignal?: AbortSignal | undefined;
  }) => {
    const given = options.prompt.filter(({ role }) => role === "assistant").length;
    const one = answers[given] ?? [say("that is all")];
    const content = typeof one === "function" ? await one(options) : one;
    const finishReason = content.some(({ type }) => type === "tool-call") ? CALLS : STOP;
    return { content: [...content], finishReason, given };
  };
  return new MockLanguageModelV4({
    doGenerate: async (options) => {
      const { content, finishReason } = await answer(options);
      return { content, finishReason, usage: USAGE, warnings: [] };
    },
    doStream: async (options) => {
      const { content, finishReason, given } = await answer(options);
      const parts = content.flatMap((part, index): Part[] => {
        return part.type === "tool-call" ? [part] : textParts(`${given}-${index}`, part.text);
      });
      return {
        stream: new ReadableStream<Part>({
          start(controller) {
            controller.enqueue({ type: "stream-start", warnings: [] });
            for (const part of parts) {
              controller.enqueue(part);
            }
            controller.enqueue({ type: "finish", finishReason, usage: USAGE });
            controller.close();
          },
        }),
      };
    },
  });
}

function textParts(id: string, text: string): Part[] {
  const words = text.split(/(?<= )/).map((delta) => ({ type: "text-delta" as const, id, delta }));
  return [{ type: "text-start" as const, id }, ...words, { type: "text-end" as const, id }];
}

/** Returns steps without the parts that the SDK makes again in each execution: ids of calls, and times. */
export function comparable(steps: readonly object[]): unknown {
  return steps.map((step) => {
    return JSON.parse(JSON.stringify({ ...step, callId: "", performance: {} }));
  });
}
