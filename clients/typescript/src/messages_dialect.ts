/** Anthropic's Messages. */

import type Anthropic from "@anthropic-ai/sdk";
import type {
  ContentBlockParam,
  ImageBlockParam,
  MessageCreateParamsStreaming,
  MessageParam,
  RawContentBlockDelta,
  RawMessageStreamEvent,
} from "@anthropic-ai/sdk/resources/messages/messages";
import {
  type Ask,
  base64,
  callsOf,
  count,
  type Dialect,
  Draft,
  ended,
  fetchable,
  limitOf,
  mediaOf,
  objectFor,
  parametersFor,
  type Said,
  type Speech,
  speech,
  textIn,
  unsupported,
  without,
  withoutLimit,
} from "./dialect.js";
import type { ModelOutcome } from "./models.js";
import { type Place, placed, placesOf } from "./own_items.js";
import type { Json } from "./plain.js";
import { opened } from "./provider_limits.js";
import type { Part } from "./values.js";

const NAME = "Anthropic messages";
/** Under which name a message keeps what the model thought. */
const KEPT = "anthropic";

/** Parameters of a pack, and their names here. */
const PARAMETERS = {
  temperature: "temperature",
  top_p: "top_p",
  top_k: "top_k",
  max_tokens: "max_tokens",
};

const TAKES =
  "images (JPEG, PNG, GIF, WebP) and application/pdf (data or an http address) from a person";
const IMAGES = ["image/jpeg", "image/png", "image/gif", "image/webp"];

/** The provider wants to have a bound; a pack without one gets this. */
const MOST_TOKENS = 4096;

/** Messages of an endpoint. */
export class MessagesDialect implements Dialect {
  readonly own = ["model", "messages", "stream", "tools"];
  readonly format = "output_config";
  readonly lasting = false;
  readonly #endpoint: Anthropic;

  constructor(endpoint: Anthropic) {
    this.#endpoint = endpoint;
  }

  async start(ask: Ask, signal: AbortSignal): Promise<Speech> {
    const { messages } = this.#endpoint;
    const { stream, limits } = await opened(messages.create(requestOf(ask), { signal }));
    return speech(stream, new MessagesDraft(), limits);
  }

  discreet(text: string): string {
    return without(this.#endpoint.authToken, without(this.#endpoint.apiKey, text));
  }
}

function requestOf(ask: Ask): MessageCreateParamsStreaming {
  return {
    max_tokens: MOST_TOKENS,
    ...parametersFor(NAME, withoutLimit(ask.parameters), PARAMETERS),
    model: ask.model,
    messages: ask.messages.reduce(joined, []),
    stream: true,
    ...(ask.system ? { system: ask.system } : {}),
    ...toolsOf(ask),
    ...(ask.schema === undefined ? {} : { output_config: formatOf(ask.schema) }),
    ...ask.extra,
    ...limitOf(ask, ["max_tokens"]),
  } as MessageCreateParamsStreaming;
}

function formatOf(schema: Json): object {
  return { format: { type: "json_schema", schema } };
}

function toolsOf(ask: Ask): object {
  const tools = ask.tools.map(({ name, description, parameters }) => {
    return { name, description, input_schema: parameters };
  });
  if (tools.length > 0) {
    return { tools, ...(ask.choice === "required" ? { tool_choice: { type: "any" } } : {}) };
  }
  // Calls that were made are not taken without the tools that they were made of.
  const called = new Set(ask.messages.flatMap(callsOf).map(({ name }) => name));
  const known = [...called].sort().map((name) => ({ name, input_schema: { type: "object" } }));
  return known.length > 0 ? { tools: known, tool_choice: { type: "none" } } : {};
}

/** Messages of one role after another are one; a tool's answer is the person's. */
function joined(before: MessageParam[], message: Said): MessageParam[] {
  const role = message.role === "assistant" ? "assistant" : "user";
  const content = role === "assistant" ? answerBlocks(message) : blocksOf(message);
  const last = before.at(-1);
  if (last?.role === role && Array.isArray(last.content)) {
    last.content.push(...content);
    return before;
  }
  return content.length > 0 ? [...before, { role, content }] : before; // It takes no empty one.
}

function blocksOf({ role, parts, toolCallId }: Said): ContentBlockParam[] {
  if (role === "tool") {
    return [{ type: "tool_result", tool_use_id: toolCallId, content: wordsOf(parts) }];
  }
  return parts.map(blockOf).filter((block) => block.type !== "text" || block.text !== "");
}

function answerBlocks(message: Said): ContentBlockParam[] {
  const calls = callsOf(message);
  const text = wordsOf(message.parts);
  return placesOf(KEPT, message, calls.length).flatMap((place): ContentBlockParam[] => {
    if (place === "text") {
      return text ? [{ type: "text", text }] : [];
    }
    if (typeof place === "object") {
      return [place.own as unknown as ContentBlockParam];
    }
    const call = calls[place];
    return call
      ? [{ type: "tool_use", id: call.id, name: call.name, input: objectFor(call.arguments) }]
      : [];
  });
}

function wordsOf(parts: readonly Part[]): string {
  return parts
    .map((part) => {
      const text = textIn(part);
      if (text === undefined) {
        throw unsupported(NAME, part, TAKES);
      }
      return text;
    })
    .join("\n");
}

function blockOf(part: Part): ContentBlockParam {
  const text = textIn(part);
  if (text !== undefined) {
    return { type: "text", text };
  }
  const media = mediaOf(part);
  const source = sourceOf(part, media);
  if (source && IMAGES.includes(media)) {
    return { type: "image", source: source as ImageBlockParam["source"] };
  }
  if (source && media === "application/pdf") {
    return { type: "document", source: source as { type: "url"; url: string } };
  }
  throw unsupported(NAME, part, TAKES);
}

function sourceOf(part: Part, media: string): object | undefined {
  const { content } = part;
  if (content.case === "data") {
    return { type: "base64", media_type: media, data: base64(content.value) };
  }
  const url = fetchable(part);
  return url?.startsWith("http") ? { type: "url", url } : undefined;
}

/** A block of an answer as its pieces come in. */
interface Block {
  readonly type: string;
  [field: string]: unknown;
}

/** An answer as its events come in. */
class MessagesDraft extends Draft<RawMessageStreamEvent> {
  #finish = "";
  readonly #blocks = new Map<number, Block>();

  take(event: RawMessageStreamEvent): string {
    switch (event.type) {
      case "message_start":
        this.responseId = event.message.id;
        this.model = event.message.model;
        this.#count(event.message.usage);
        return "";
      case "content_block_start": {
        const { input, ...block } = event.content_block as unknown as Block;
        // Arguments come as text; some endpoints send them whole, and nothing then.
        const whole = input === undefined || isEmpty(input) ? {} : { whole: JSON.stringify(input) };
        this.#blocks.set(event.index, { ...block, ...whole } as Block);
        return "";
      }
      case "content_block_delta":
        return this.#add(this.#blocks.get(event.index), event.delta);
      case "message_delta":
        this.#finish = event.delta.stop_reason ?? this.#finish;
        this.#count(event.usage);
        this.usage = { ...this.usage, estimated: typeof event.usage?.output_tokens !== "number" };
        return "";
    }
    return "";
  }

  end(): ModelOutcome {
    const blocks = [...this.#blocks].sort(([a], [b]) => a - b).map(([, block]) => block);
    const places: Place[] = [];
    const calls: { id: string; name: string; arguments: string }[] = [];
    let text = "";
    for (const block of blocks) {
      if (block.type === "tool_use") {
        places.push(calls.length);
        calls.push({ id: String(block.id), name: String(block.name), arguments: givenIn(block) });
      } else if (block.type === "text") {
        places.push(...(text === "" ? (["text"] as const) : []));
        text += String(block.text);
      } else {
        places.push({ own: ownOf(block) });
      }
    }
    return ended({
      content: text || undefined,
      calls,
      finishReason: FINISH[this.#finish] ?? this.#finish,
      model: this.model,
      responseId: this.responseId,
      provider: placed(KEPT, places),
    });
  }

  #add(block: Block | undefined, delta: RawContentBlockDelta): string {
    if (!block) {
      return "";
    }
    const grow = (field: string, piece: string) => {
      this.size += piece.length;
      block[field] = String(block[field] ?? "") + piece;
    };
    switch (delta.type) {
      case "text_delta":
        grow("text", delta.text);
        return delta.text;
      case "input_json_delta":
        grow("input", delta.partial_json);
        return "";
      case "thinking_delta":
        grow("thinking", delta.thinking);
        return "";
      case "signature_delta":
        grow("signature", delta.signature);
        return "";
    }
    return "";
  }

  /** Counts are those of the whole message so far. */
  #count(usage: {
    readonly input_tokens?: number | null;
    readonly cache_read_input_tokens?: number | null;
    readonly cache_creation_input_tokens?: number | null;
    readonly output_tokens?: number | null;
  }): void {
    const { input_tokens: read, output_tokens: said } = usage;
    const cached = count(usage.cache_read_input_tokens ?? this.usage.cachedTokens);
    if (typeof read === "number") {
      const kept = count(usage.cache_creation_input_tokens);
      this.usage = {
        ...this.usage,
        inputTokens: count(read) + kept + cached,
        cachedTokens: cached,
      };
    }
    this.usage = { ...this.usage, outputTokens: count(said ?? this.usage.outputTokens) };
  }
}

function isEmpty(input: unknown): boolean {
  return typeof input === "object" && input !== null && Object.keys(input).length === 0;
}

/** The arguments of a call as text. */
function givenIn({ input, whole }: Block): string {
  return String(input || whole || "{}");
}

/** A block that the provider wants to have back as it was. */
function ownOf({ whole, ...block }: Block): Json {
  const called = block.type.endsWith("tool_use");
  return (called ? { ...block, input: objectFor(givenIn({ ...block, whole })) } : block) as Json;
}

const FINISH: { readonly [reason: string]: string | undefined } = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool_calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content_filter",
};
