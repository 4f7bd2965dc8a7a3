/** OpenAI's chat completions, which many other endpoints speak as well. */

import type OpenAI from "openai";
import type {
  ChatCompletionChunk,
  ChatCompletionContentPart,
  ChatCompletionCreateParamsStreaming,
  ChatCompletionMessageParam,
} from "openai/resources/chat/completions";
import type { ResponseFormatJSONSchema } from "openai/resources/shared";
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
import type { Json } from "./plain.js";
import { opened } from "./provider_limits.js";
import type { Usage } from "./reply.js";
import type { Part } from "./values.js";

const NAME = "chat completions";

/** Parameters of a pack, and their names here. */
const PARAMETERS = Object.fromEntries(
  ["temperature", "top_p", "max_tokens", "frequency_penalty", "presence_penalty"].map((name) => {
    return [name, name];
  }),
);

const AUDIO: { readonly [media: string]: "wav" | "mp3" | undefined } = {
  "audio/wav": "wav",
  "audio/x-wav": "wav",
  "audio/mpeg": "mp3",
  "audio/mp3": "mp3",
};

const TAKES =
  "images (data or an http address), audio/wav and audio/mpeg data, and application/pdf data";

/** Chat completions of an endpoint. */
export class ChatDialect implements Dialect {
  readonly own = ["model", "messages", "stream", "tools"];
  readonly format = "response_format";
  readonly lasting = false;
  readonly #endpoint: OpenAI;
  /** The request names the bound of an answer by the newer parameter, `max_completion_tokens`. */
  #newer: boolean;

  constructor(endpoint: OpenAI) {
    this.#endpoint = endpoint;
    this.#newer = isOpenAI(endpoint.baseURL);
  }

  async start(ask: Ask, signal: AbortSignal): Promise<Speech> {
    const { stream, limits } = await this.#open(ask, signal);
    return speech(stream, new ChatDraft(), limits);
  }

  async #open(ask: Ask, signal: AbortSignal) {
    const { completions } = this.#endpoint.chat;
    const open = () => opened(completions.create(requestOf(ask, this.#newer), { signal }));
    try {
      return await open();
    } catch (error) {
      if (this.#newer || !wantsNewer(error, ask)) {
        throw error;
      }
      this.#newer = true;
    }
    return open();
  }

  discreet(text: string): string {
    return without(this.#endpoint.apiKey, text);
  }
}

/** OpenAI's own newer models refuse max_tokens, which is all that many other endpoints know. */
const NEWER = "max_completion_tokens";

function isOpenAI(url: unknown): boolean {
  const { hostname = "" } = URL.canParse(String(url)) ? new URL(String(url)) : {};
  return hostname === "api.openai.com" || hostname.endsWith(".api.openai.com");
}

/**
 * The endpoint refuses the older name of the bound, and names the newer one. Nothing else is
 * taken for that: who knows the older one alone would pass over the newer.
 */
function wantsNewer(error: unknown, { extra, most }: Ask): boolean {
  const { status, message } = error as { status?: unknown; message?: unknown };
  const own = Object.hasOwn(extra, "max_tokens") || Object.hasOwn(extra, NEWER);
  return status === 400 && most > 0 && !own && String(message).includes(NEWER);
}

function requestOf(ask: Ask, newer: boolean): ChatCompletionCreateParamsStreaming {
  const system = ask.system ? [{ role: "system" as const, content: ask.system }] : [];
  const tools = ask.tools.map(({ name, description, parameters }) => {
    const schema = parameters as Record<string, unknown>;
    return { type: "function" as const, function: { name, description, parameters: schema } };
  });
  return {
    ...parametersFor(NAME, withoutLimit(ask.parameters), PARAMETERS),
    model: ask.model,
    messages: [...system, ...ask.messages.map(messageOf)],
    stream: true,
    stream_options: { include_usage: true },
    ...(tools.length > 0 ? { tools } : {}),
    ...(ask.choice === "required" ? { tool_choice: "required" } : {}),
    ...(ask.schema === undefined ? {} : { response_format: formatOf(ask.schema) }),
    ...ask.extra,
    ...limitOf(ask, newer ? [NEWER, "max_tokens"] : ["max_tokens", NEWER]),
  };
}

function formatOf(schema: Json): ResponseFormatJSONSchema {
  const json_schema = {
    name: "answer",
    schema: schema as { [key: string]: unknown },
    strict: true,
  };
  return { type: "json_schema", json_schema };
}

function messageOf(message: Said): ChatCompletionMessageParam {
  const wire: { [field: string]: unknown } = {
    role: message.role,
    content: contentOf(message.parts),
  };
  const calls = callsOf(message);
  if (calls.length > 0) {
    wire.tool_calls = calls.map(({ id, name, arguments: given }) => {
      return { id, type: "function", function: { name, arguments: given } };
    });
    wire.content ||= null;
  }
  if (message.toolCallId) {
    wire.tool_call_id = message.toolCallId;
  }
  // Which content a role may have is the endpoint's to judge.
  return wire as unknown as ChatCompletionMessageParam;
}

function contentOf(parts: readonly Part[]): string | ChatCompletionContentPart[] {
  const texts = parts.map(textIn);
  return texts.includes(undefined) ? parts.map(pieceOf) : texts.join("\n");
}

function pieceOf(part: Part): ChatCompletionContentPart {
  const text = textIn(part);
  if (text !== undefined) {
    return { type: "text", text };
  }
  const media = mediaOf(part);
  const { content } = part;
  const data = content.case === "data" ? base64(content.value) : undefined;
  if (media.startsWith("image/")) {
    const url = data === undefined ? fetchable(part) : `data:${media};base64,${data}`;
    if (url !== undefined) {
      return { type: "image_url", image_url: { url } };
    }
  }
  const format = AUDIO[media];
  if (format && data !== undefined) {
    return { type: "input_audio", input_audio: { data, format } };
  }
  if (media === "application/pdf" && data !== undefined) {
    const filename = part.filename || "document.pdf";
    return { type: "file", file: { filename, file_data: `data:${media};base64,${data}` } };
  }
  throw unsupported(NAME, part, TAKES);
}

/** A tool call as its pieces come in. */
interface Call {
  id: string;
  name: string;
  arguments: string;
}

/** An answer as its chunks come in. */
class ChatDraft extends Draft<ChatCompletionChunk> {
  #text = "";
  #refusal = "";
  #finish = "";
  readonly #calls = new Map<number, Call>();

  take({ id, model, usage, choices }: ChatCompletionChunk): string {
    this.responseId = id || this.responseId;
    this.model = model || this.model;
    this.usage = usage ? usageOf(usage) : this.usage;
    // Not all endpoints send what the package's types promise.
    const [choice] = (choices ?? []) as Partial<ChatCompletionChunk.Choice>[];
    if (!choice) {
      return ""; // The last piece holds the usage alone.
    }
    const delta = choice.delta ?? {};
    this.#finish = choice.finish_reason ?? this.#finish;
    this.#refusal += delta.refusal ?? "";
    for (const piece of delta.tool_calls ?? []) {
      this.#call(piece);
    }
    const text = delta.content ?? "";
    this.#text += text;
    this.size += text.length + (delta.refusal ?? "").length;
    return text;
  }

  end(): ModelOutcome {
    const calls = [...this.#calls].sort(([a], [b]) => a - b);
    return ended({
      content: this.#text || undefined,
      calls: calls.map(([index, call]) => ({ ...call, id: call.id || `call_${index}` })),
      refusal: this.#refusal,
      finishReason: this.#finish,
      model: this.model,
      responseId: this.responseId,
    });
  }

  #call(piece: ChatCompletionChunk.Choice.Delta.ToolCall): void {
    const last = this.#calls.size - 1;
    const index = piece.index ?? (piece.id ? last + 1 : Math.max(0, last));
    const call = this.#calls.get(index) ?? { id: "", name: "", arguments: "" };
    this.#calls.set(index, call);
    call.id = piece.id || call.id;
    call.name += piece.function?.name ?? "";
    call.arguments += piece.function?.arguments ?? "";
    this.size += (piece.function?.arguments ?? "").length + (piece.function?.name ?? "").length;
  }
}

function usageOf(usage: NonNullable<ChatCompletionChunk["usage"]>): Usage {
  const inputTokens = count(usage.prompt_tokens);
  const outputTokens = count(usage.completion_tokens);
  const cached = count(usage.prompt_tokens_details?.cached_tokens);
  const thought = count(usage.completion_tokens_details?.reasoning_tokens);
  return {
    inputTokens,
    outputTokens,
    cachedTokens: Math.min(cached, inputTokens),
    reasoningTokens: Math.min(thought, outputTokens),
    estimated: typeof usage.completion_tokens !== "number",
  };
}
