/** Collects an answer from the parts of its stream. */

import { textOf } from "./handler_fault.js";
import { toJsonText } from "./json_text.js";
import type { Block, ProviderData, StreamPart } from "./language_model.js";
import { brokenBy, type Failed, unusable } from "./model_fault.js";
import type { Usage } from "./reply.js";
import { replaceLoneSurrogatesIn } from "./unicode.js";

/** A block that is not complete yet. */
type Growing = { -readonly [K in keyof Block]: Block[K] };

/** The part of a piece of the stream that readers see. */
export interface Piece {
  readonly text?: string;
  readonly reasoning?: string;
}

/** An answer that is being received. */
export class Draft {
  readonly blocks: Growing[] = [];
  /** Consumption reported so far; `estimated` until the report is complete. */
  usage: Usage = { estimated: true };
  responseId = "";
  model = "";
  /** Size so far in UTF-16 units, at most the number of bytes. */
  size = 0;
  /** Why the stream is no answer. Undefined means that it may be one. */
  fault: Failed | undefined;
  /** Settings that the provider ignored, by the SDK's names. */
  readonly passedOver: string[] = [];
  finish: { readonly unified?: string; readonly raw?: string } | undefined;
  readonly #open = new Map<string, Growing>();
  readonly #strange = new Set<unknown>();

  /** Takes a part and returns what readers see of it. */
  take(part: StreamPart): Piece {
    switch (part.type) {
      case "text-start":
      case "reasoning-start":
        this.#begin(part);
        return {};
      case "text-delta":
      case "reasoning-delta":
        return this.#grow(part);
      case "tool-input-delta":
        this.size += part.delta?.length ?? 0;
        return {};
      case "finish":
        this.finish = part.finishReason ?? {};
        this.usage = usageOf(part.usage);
        return {};
      case "response-metadata":
        this.responseId = part.id ?? this.responseId;
        this.model = part.modelId ?? this.model;
        return {};
      case "error":
        this.#failed(part.error);
        return {};
      case "stream-start":
        this.#warned(part);
        return {};
      default:
        this.#other(part);
        return {};
    }
  }

  #begin({ type, id = "", providerMetadata }: StreamPart): void {
    const block: Growing = { type: type.slice(0, -"-start".length), text: "" };
    this.#keep(block, providerMetadata);
    this.blocks.push(block);
    this.#open.set(`${block.type} ${id}`, block);
  }

  #grow({ type, id = "", delta = "", providerMetadata }: StreamPart): Piece {
    const kind = type.slice(0, -"-delta".length);
    const block = this.#open.get(`${kind} ${id}`);
    if (!block) {
      return {}; // Part of a block that the library does not know.
    }
    block.text += delta;
    this.size += delta.length;
    this.#keep(block, providerMetadata);
    return kind === "text" ? { text: delta } : { reasoning: delta };
  }

  #keep(block: Growing, data: ProviderData | undefined): void {
    if (data !== undefined && Object.values(data).some((own) => own !== undefined)) {
      block.providerOptions = data;
      this.#weigh(data);
    }
  }

  /** Counts data that is not text. Data that cannot be recorded makes the answer invalid. */
  #weigh(value: unknown): void {
    try {
      this.size += toJsonText(replaceLoneSurrogatesIn(value), "provider").length;
    } catch (error) {
      this.fault ??= unusable(
        "ANSWER_INVALID",
        `what the library keeps of it cannot be recorded: ${textOf(error)}`,
      );
    }
  }

  #other(part: StreamPart): void {
    const { type, id = "", providerMetadata, toolCallId, toolName, providerExecuted } = part;
    const own: Growing = { type };
    if (type === "text-end" || type === "reasoning-end") {
      const block = this.#open.get(`${type.slice(0, -"-end".length)} ${id}`);
      if (block) {
        this.#keep(block, providerMetadata);
      }
      return;
    }
    if (type === "tool-call") {
      Object.assign(own, { toolCallId, toolName, input: part.input });
      Object.assign(own, providerExecuted ? { providerExecuted } : {});
    } else if (type === "tool-result") {
      const output = { type: part.isError ? "error-json" : "json", value: part.result ?? null };
      Object.assign(own, { toolCallId, toolName, output });
    } else if (type === "file" || type === "reasoning-file") {
      Object.assign(own, { mediaType: part.mediaType, data: textOfFile(part.data) });
    } else if (type === "custom" && !part.kind?.endsWith(".message_start")) {
      Object.assign(own, { kind: part.kind });
    } else {
      return; // Sources, approvals and raw chunks are not sent back to the provider.
    }
    if (type !== "tool-call") {
      this.#weigh(own);
    }
    this.#keep(own, providerMetadata);
    this.blocks.push(own);
  }

  /** Takes an error. Errors about events that an answer does not need are ignored. */
  #failed(error: unknown): void {
    const { name, value } = Object(error ?? null) as { name?: unknown; value?: unknown };
    if (name === "AI_TypeValidationError" && this.#needless(Object(value ?? null))) {
      return;
    }
    this.fault ??= brokenBy(error);
  }

  /** Whether it is an event of Messages of a new kind, or of a block of a new kind. */
  #needless(event: { readonly [word: string]: unknown }): boolean {
    const { type, index } = event;
    if (type === "content_block_start") {
      const block = Object(event.content_block ?? null) as { type?: unknown };
      this.#strange.add(index);
      return !NEEDED.includes(String(block.type));
    }
    if (type === "content_block_delta" || type === "content_block_stop") {
      return this.#strange.has(index);
    }
    return typeof type === "string" && !/^(message_|response\.|error)/.test(type);
  }

  #warned({ warnings = [] }: StreamPart): void {
    for (const { type, feature, setting } of warnings) {
      if (type === "unsupported" || type === "unsupported-setting") {
        this.passedOver.push(String(feature ?? setting));
      }
    }
  }

  /**
   * Returns the failure for an incomplete answer. Undefined means that it is complete, but may be
   * empty.
   */
  unfinished(): Failed | undefined {
    const { unified, raw } = this.finish ?? {};
    if (this.fault) {
      return this.fault;
    }
    switch (unified) {
      case "length":
        return unusable("TRUNCATED", "the answer was longer than max_tokens");
      case "content-filter":
        // A model that refuses stops by itself; a filter has its own finish reason.
        return raw === undefined || raw === "stop"
          ? unusable("REFUSED", this.#text() || "the model refused")
          : unusable("CONTENT_FILTER", `the answer was filtered (${raw})`);
      case "stop":
      case "tool-calls":
        return undefined;
      case "other":
        return raw === undefined ? cut() : undefined;
      default:
        return cut();
    }
  }

  #text(): string {
    return this.blocks.map(({ type, text }) => (type === "text" ? text : "")).join("");
  }
}

/** Blocks of Messages that an answer needs. */
const NEEDED = ["text", "thinking", "redacted_thinking", "tool_use"];

function cut(): Failed {
  return unusable("STREAM_TRUNCATED", "the stream ended in the midst of the answer");
}

/** Returns the data of a file as base64. */
function textOfFile(data: unknown): string {
  const given = Object(data ?? null) as { type?: unknown; data?: unknown; url?: unknown };
  const bytes = data instanceof Uint8Array || typeof data === "string" ? data : given.data;
  if (bytes instanceof Uint8Array) {
    return Buffer.from(bytes).toString("base64");
  }
  return String(bytes ?? given.url ?? "");
}

function usageOf(usage: StreamPart["usage"]): Usage {
  const { total: read } = usage?.inputTokens ?? {};
  const { total: wrote } = usage?.outputTokens ?? {};
  const inputTokens = count(read);
  const outputTokens = count(wrote);
  return {
    inputTokens,
    outputTokens,
    cachedTokens: Math.min(count(usage?.inputTokens?.cacheRead), inputTokens),
    reasoningTokens: Math.min(count(usage?.outputTokens?.reasoning), outputTokens),
    estimated: outputTokens === 0, // An empty answer is no answer.
  };
}

/** Returns a count of an endpoint; 0 for a value that is no whole number from 0 on. */
function count(given: unknown): number {
  return typeof given === "number" && Number.isSafeInteger(given) && given >= 0 ? given : 0;
}
