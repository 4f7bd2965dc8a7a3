/**
 * OpenAI's Responses. What the model thought comes back encrypted, is recorded with the answer,
 * and is told again, so that nothing has to be stored at the provider's.
 */

import type OpenAI from "openai";
import type {
  Response,
  ResponseCreateParamsStreaming,
  ResponseInputContent,
  ResponseInputItem,
  ResponseStreamEvent,
} from "openai/resources/responses/responses";
import {
  type Ask,
  base64,
  callsOf,
  codeOf,
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
  unusable,
  without,
  withoutLimit,
} from "./dialect.js";
import type { ModelOutcome } from "./models.js";
import { type Place, placed, placesOf } from "./own_items.js";
import type { Json } from "./plain.js";
import { opened } from "./provider_limits.js";
import type { Usage } from "./reply.js";
import type { Part } from "./values.js";

const NAME = "OpenAI responses";
/** Under which name a message keeps what the model thought. */
const KEPT = "openai";

/** Parameters of a pack, and their names here. */
const PARAMETERS = {
  temperature: "temperature",
  top_p: "top_p",
  max_tokens: "max_output_tokens",
};

const TAKES = "images and application/pdf (data or an http address)";

/** Responses of an endpoint. `lasting`: they are made in the background. */
export class ResponsesDialect implements Dialect {
  readonly own: readonly string[];
  readonly format = "text";
  readonly #endpoint: OpenAI;

  constructor(
    endpoint: OpenAI,
    readonly lasting: boolean,
  ) {
    this.#endpoint = endpoint;
    const own = ["model", "input", "stream", "tools"];
    this.own = lasting ? [...own, "background", "store"] : own;
  }

  async start(ask: Ask, signal: AbortSignal, responseId: string): Promise<Speech> {
    const request = requestOf(ask, this.lasting);
    const known = this.lasting && responseId ? await this.#known(responseId, signal) : undefined;
    if (known?.status === "completed") {
      const whole = { type: "response.completed", response: known } as ResponseStreamEvent;
      return speech([whole], new ResponsesDraft());
    }
    const running = known?.status === "in_progress" || known?.status === "queued";
    const { responses } = this.#endpoint;
    const { stream, limits } = await opened(
      running
        ? responses.retrieve(responseId, { stream: true }, { signal })
        : responses.create(request, { signal }),
    );
    return speech(stream, new ResponsesDraft(), limits);
  }

  /** A response that was begun before; undefined: nobody has it any more. */
  async #known(responseId: string, signal: AbortSignal): Promise<Response | undefined> {
    try {
      return await this.#endpoint.responses.retrieve(responseId, {}, { signal });
    } catch (error) {
      if ((error as { status?: unknown }).status === 404) {
        return undefined;
      }
      throw error;
    }
  }

  discreet(text: string): string {
    return without(this.#endpoint.apiKey, text);
  }
}

function requestOf(ask: Ask, lasting: boolean): ResponseCreateParamsStreaming {
  const tools = ask.tools.map(({ name, description, parameters }) => {
    const schema = parameters as Record<string, unknown>;
    return { type: "function" as const, name, description, parameters: schema, strict: false };
  });
  return {
    ...parametersFor(NAME, withoutLimit(ask.parameters), PARAMETERS),
    model: ask.model,
    input: ask.messages.flatMap(itemsOf),
    stream: true,
    // What is made in the background is stored there.
    ...(lasting ? { background: true, store: true } : { store: false }),
    include: ["reasoning.encrypted_content"],
    ...(ask.system ? { instructions: ask.system } : {}),
    ...(tools.length > 0 ? { tools } : {}),
    ...(ask.choice === "required" ? { tool_choice: "required" } : {}),
    ...(ask.schema === undefined ? {} : { text: formatOf(ask.schema) }),
    ...ask.extra,
    ...limitOf(ask, ["max_output_tokens"]),
  } as ResponseCreateParamsStreaming;
}

function formatOf(schema: Json): object {
  return { format: { type: "json_schema", name: "answer", schema, strict: true } };
}

function itemsOf(message: Said): ResponseInputItem[] {
  const { role, parts, toolCallId } = message;
  if (role === "tool") {
    return [{ type: "function_call_output", call_id: toolCallId, output: wordsOf(parts) }];
  }
  if (role === "assistant") {
    return answerItems(message);
  }
  const content = parts.map(pieceOf);
  return [{ type: "message", role: role as "user" | "system", content }];
}

function answerItems(message: Said): ResponseInputItem[] {
  const calls = callsOf(message);
  const text = wordsOf(message.parts);
  return placesOf(KEPT, message, calls.length).flatMap((place): ResponseInputItem[] => {
    if (place === "text") {
      return text ? [{ role: "assistant", content: text }] : [];
    }
    if (typeof place === "object") {
      return [place.own as unknown as ResponseInputItem];
    }
    const call = calls[place];
    return call
      ? [{ type: "function_call", call_id: call.id, name: call.name, arguments: call.arguments }]
      : [];
  });
}

function wordsOf(parts: readonly Part[]): string {
  return parts
    .map((part) => {
      const text = textIn(part);
      if (text === undefined) {
        throw unsupported(NAME, part, "text there");
      }
      return text;
    })
    .join("\n");
}

function pieceOf(part: Part): ResponseInputContent {
  const text = textIn(part);
  if (text !== undefined) {
    return { type: "input_text", text };
  }
  const media = mediaOf(part);
  const { content, filename } = part;
  const data =
    content.case === "data" ? `data:${media};base64,${base64(content.value)}` : undefined;
  const url = data ?? fetchable(part);
  if (media.startsWith("image/") && url !== undefined) {
    return { type: "input_image", image_url: url, detail: "auto" };
  }
  if (media === "application/pdf" && url !== undefined) {
    return data === undefined
      ? { type: "input_file", file_url: url }
      : { type: "input_file", filename: filename || "document.pdf", file_data: data };
  }
  throw unsupported(NAME, part, TAKES);
}

/** An answer as its events come in; the last one holds all of it. */
class ResponsesDraft extends Draft<ResponseStreamEvent> {
  #response: Response | undefined;
  #fault: { readonly code: string; readonly message: string } | undefined;
  #streamed = false;

  take(event: ResponseStreamEvent): string {
    switch (event.type) {
      case "response.created":
        this.responseId = event.response.id;
        this.model = event.response.model;
        return "";
      case "response.completed":
      case "response.incomplete":
      case "response.failed":
        return this.#whole(event.response);
      case "error":
        this.#fault = { code: event.code ?? "", message: event.message };
        return "";
      case "response.output_text.delta":
        this.size += event.delta.length;
        this.#streamed = true;
        return event.delta;
      case "response.refusal.delta":
      case "response.function_call_arguments.delta":
      case "response.reasoning_summary_text.delta":
      case "response.reasoning_text.delta":
        this.size += event.delta.length;
        return "";
    }
    return "";
  }

  end(): ModelOutcome {
    const fault = this.#fault ?? this.#response?.error;
    if (fault) {
      return unusable(codeOf(fault.code), fault.message);
    }
    const places: Place[] = [];
    const calls: { id: string; name: string; arguments: string }[] = [];
    let text = "";
    let refusal = "";
    for (const item of this.#response?.output ?? []) {
      if (item.type === "function_call") {
        places.push(calls.length);
        calls.push({ id: item.call_id, name: item.name, arguments: item.arguments });
      } else if (item.type === "message") {
        places.push("text");
        for (const piece of item.content) {
          text += piece.type === "output_text" ? piece.text : "";
          refusal += piece.type === "refusal" ? piece.refusal : "";
        }
      } else {
        // What it thought, and what tools of the provider's own did.
        places.push({ own: item as unknown as Json });
      }
    }
    return ended({
      content: text || undefined,
      calls,
      refusal,
      finishReason: finishOf(this.#response, calls.length),
      model: this.model,
      responseId: this.responseId,
      provider: placed(KEPT, unique(places)),
    });
  }

  /** Gives the text that no piece had before. */
  #whole(response: Response): string {
    this.#response = response;
    this.responseId = response.id;
    this.model = response.model;
    this.usage = usageOf(response.usage);
    return this.#streamed ? "" : textOfAll(response);
  }
}

function textOfAll({ output }: Response): string {
  const messages = output.flatMap((item) => (item.type === "message" ? item.content : []));
  return messages.map((piece) => (piece.type === "output_text" ? piece.text : "")).join("");
}

/** All text is one; it stands where the first of it was. */
function unique(places: readonly Place[]): Place[] {
  return places.filter((place, at) => place !== "text" || places.indexOf("text") === at);
}

function finishOf(response: Response | undefined, calls: number): string {
  switch (response?.incomplete_details?.reason) {
    case "max_output_tokens":
      return "length";
    case "content_filter":
      return "content_filter";
  }
  if (response?.status !== "completed") {
    return "";
  }
  return calls > 0 ? "tool_calls" : "stop";
}

function usageOf(usage: Response["usage"]): Usage {
  const inputTokens = count(usage?.input_tokens);
  const outputTokens = count(usage?.output_tokens);
  return {
    inputTokens,
    outputTokens,
    cachedTokens: Math.min(count(usage?.input_tokens_details?.cached_tokens), inputTokens),
    reasoningTokens: Math.min(count(usage?.output_tokens_details?.reasoning_tokens), outputTokens),
    estimated: typeof usage?.output_tokens !== "number",
  };
}
