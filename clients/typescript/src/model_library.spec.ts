/** What a library may do: objects that cannot be recorded, messages of others, calls that fail. */

import { beforeAll, expect, test } from "vitest";
import { stepsPack, useSidecar } from "./fixture.js";
import { MODELS } from "./fixture_models.js";
import { Provider } from "./fixture_provider.js";
import { RunStatus } from "./index.js";
import type { StreamPart } from "./language_model.js";
import type { Ask, ConversationMessage } from "./model_prompt.js";
import { type LanguageModel, modelHandler } from "./models.js";
import { Prompter } from "./prompt.js";

const shared = useSidecar();
const variables = { n: 1 };

beforeAll(async () => {
  const bounds = { retry: { max_attempts: 2, initial_sec: 0.01 } };
  const calls = { retry: { max_attempts: 3, initial_sec: 0.01 } };
  const pack = stepsPack("attempts", { ...bounds, model_calls: calls });
  await shared.client.registerPack(pack, { filename: "a.json" });
});

/** A model whose answers are these parts. */
class Library implements LanguageModel {
  readonly specificationVersion = "v4";
  readonly provider = "library";
  readonly modelId = "m";
  requests = 0;

  constructor(readonly parts: readonly StreamPart[]) {}

  async doStream() {
    this.requests += 1;
    const { parts } = this;
    const stream = new ReadableStream<StreamPart>({
      start(controller) {
        for (const part of parts) {
          controller.enqueue(part);
        }
        controller.close();
      },
    });
    return { stream };
  }
}

const finish: StreamPart = {
  type: "finish",
  finishReason: { unified: "stop" },
  usage: { inputTokens: { total: 3 }, outputTokens: { total: 2 } },
};

test.each([503, 429, 500])(
  "after %s a call is made as often as the pack says, by nobody else",
  async (status) => {
    for (const model of Object.values(MODELS)) {
      await using provider = await Provider.start(status);
      const handler = modelHandler(model(provider.url));
      const result = await shared.client.run("attempts", handler, { variables });
      expect(result.status).toBe(RunStatus.ESCALATED);
      expect(provider.got).toHaveLength(2 * 3);
    }
  },
);

const ring: { [name: string]: unknown } = {};
ring.ring = ring;

test.each([
  ["holds itself", ring],
  ["is of a class", { own: new Map() }],
])("what a library keeps that %s makes the answer none, which is paid for", async (_, own) => {
  const library = new Library([
    { type: "text-start", id: "1", providerMetadata: { library: own as never } },
    { type: "text-delta", id: "1", delta: "Hello." },
    finish,
  ]);
  const result = await shared.client.run("attempts", modelHandler(library), { variables });
  expect(result.status).toBe(RunStatus.ESCALATED);
  const invalid = {
    reason: "ANSWER_INVALID",
    message: expect.stringContaining("cannot be recorded"),
  };
  expect(result.errors).toMatchObject([invalid, invalid]);
  expect([library.requests, result.run.tokens]).toEqual([6, 30]);
});

test("an error that is thrown as no Error is told in words", async () => {
  const library = new Library([]);
  library.doStream = async () => {
    throw { odd: ring };
  };
  const result = await shared.client.run("attempts", modelHandler(library), { variables });
  expect(result.errors).toMatchObject([{ reason: "MODEL_ERROR" }, { reason: "MODEL_ERROR" }]);
});

const message = { role: "assistant", content: [{ type: "text", text: "Kept." }] };

test.each([
  ["this library", { library: "ai", version: "v4", message }, ["Kept."], []],
  ["its interface before", { library: "ai", version: "v3", message }, ["Kept."], []],
  ["an interface to come", { library: "ai", version: "v9", message }, ["Seen."], ["ai v9"]],
  ["another", { library: "pydantic-ai", version: "2.9" }, ["Seen."], ["pydantic-ai 2.9"]],
  ["this one, that is none", { library: "ai", version: "v4", message: {} }, ["Seen."], ["ai v4"]],
  ["none, of before", { anthropic: [{}] }, ["Seen."], ["no library"]],
  ["nobody", undefined, ["Seen."], []],
])("a message that %s recorded is told", (_, provider, texts, warned) => {
  const seen = { content: { case: "text" as const, value: "Seen." }, mediaType: "", filename: "" };
  const toolCalls = [{ id: "c1", name: "shop.add", arguments: '{"a": 1.50}' }];
  const entry = {
    role: "assistant",
    parts: [seen],
    toolCalls,
    toolCallId: "",
    provider,
    refusal: "",
  } as unknown as ConversationMessage;
  const request = { tools: [], parameters: {}, settings: {}, choice: "auto", most: 0 } as const;
  const ask: Ask = { ...request, system: "", schema: undefined, messages: [entry] };
  const strange: string[] = [];
  const model = MODELS["chat completions"]("http://127.0.0.1:1");
  const prompter = new Prompter(model, ask, false, (library) => strange.push(library));
  const [report] = prompter.options(ask).prompt;
  const content = report?.content as readonly { type: string; text?: string }[];
  expect(content.flatMap(({ text }) => text ?? [])).toEqual(texts);
  expect(strange).toEqual(warned);
  if (warned.length > 0) {
    const call = { type: "tool-call", toolCallId: "c1", toolName: "shop_add", input: { a: 1.5 } };
    expect(content[1]).toEqual(call);
  }
});

test("a model of a middleware, without a fetch to mend, is asked all the same", async () => {
  const library = new Library([
    { type: "tool-call", toolCallId: "l", toolName: "leave_state", input: '{"event":"Done"}' },
    { ...finish, finishReason: { unified: "tool-calls" } },
  ]);
  const leaving = await shared.client.open("attempts", { variables });
  const { status } = await leaving.drive((turn) =>
    turn.terminal ? { output: "ok" } : modelHandler(library)(turn),
  );
  expect([status, library.requests]).toEqual([RunStatus.COMPLETED, 1]);
});
