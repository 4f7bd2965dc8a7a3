/** Requests of the AI SDK in the form of records, each message once. */

import { createHash } from "node:crypto";
import { isDate, recordable, recordableText } from "./ai_record.js";
import type { Block, PromptMessage } from "./language_model.js";
import type { ModelMessage, ModelRequest } from "./model_step.js";
import type { Json } from "./plain_message.js";
import type { Usage } from "./reply.js";
import { replaceLoneSurrogates } from "./unicode.js";
import { type JsonText, json, type MessageLike } from "./values.js";

/** The used part of the options of a model call, in the interfaces v3 and v4. */
export interface CallOptions {
  readonly prompt: readonly Message[];
  readonly maxOutputTokens?: number | undefined;
  readonly tools?: readonly { readonly [word: string]: unknown }[] | undefined;
  readonly abortSignal?: AbortSignal | undefined;
  readonly [setting: string]: unknown;
}

/** A message of a prompt. */
export type Message = PromptMessage & { readonly [word: string]: unknown };

/** Output tokens of a call for which the program sets no `maxOutputTokens`. */
const OUTPUT_TOKENS = 4096;
const BYTES_PER_TOKEN = 4;
/** Most messages of one request in its record. */
const MAX_MESSAGES = 1024;

/** Options that are no setting of the model, or that can have keys. */
const OWN = ["prompt", "tools", "abortSignal", "headers", "includeRawChunks"];

/** A request that was answered, with its messages as text. */
interface Known {
  readonly step: number;
  readonly messages: readonly string[];
}

/** A request in the form of the record. */
export interface Recorded {
  readonly request: ModelRequest;
  readonly bound: Usage;
  readonly messages: readonly string[];
}

/** The requests of a program, so that a later one refers to the messages of an earlier one. */
export class Requests {
  readonly #known: Known[] = [];
  /** The last recorded result of each id of a tool call. */
  readonly #results = new Map<string, { readonly step: number; readonly text: string }>();

  /** Returns the request of a call in the form of the record, and the most that it may consume. */
  of(model: string, options: CallOptions): Recorded {
    const said = options.prompt.filter(({ role }) => role !== "system");
    const made = said.flatMap(messagesOf);
    const messages = made.map(recordableText);
    const known = this.#before(made, messages);
    const fresh = known ? made.slice(known.messages.length + 1) : made;
    const system = options.prompt
      .flatMap(({ role, content }) =>
        role === "system" ? [replaceLoneSurrogates(String(content))] : [],
      )
      .join("\n\n");
    const tools = (options.tools ?? []).map(toolOf);
    const parameters = recordable(
      Object.fromEntries(Object.entries(options).filter(([name]) => !OWN.includes(name))),
    );
    const bytes = [system, recordableText(tools), ...messages].join("").length;
    return {
      request: {
        model,
        ...(known ? { previousStep: known.step } : {}),
        system,
        tools,
        parameters,
        messages: fresh.slice(-MAX_MESSAGES).map((message) => this.#reference(message)),
      },
      bound: {
        inputTokens: Math.ceil(bytes / BYTES_PER_TOKEN),
        outputTokens: options.maxOutputTokens ?? OUTPUT_TOKENS,
      },
      messages,
    };
  }

  /** A request was answered. */
  answered(step: number, { messages }: Recorded): void {
    this.#known.push({ step, messages });
  }

  /** A tool call was answered; requests then refer to its result. */
  result(toolCallId: string, step: number, value: unknown): void {
    this.#results.set(toolCallId, { step, text: recordableText(value) });
  }

  /** Returns a reference to a recorded result; any other message as it is. */
  #reference(message: MessageLike): ModelMessage {
    const { role, toolCallId = "", content } = message;
    const known = role === "tool" ? this.#results.get(toolCallId) : undefined;
    const [part] = Array.isArray(content) ? content : [];
    const said = (part as JsonText | undefined)?.value;
    return known && known.text === recordableText(said)
      ? { result: { step: known.step, callId: toolCallId } }
      : { message };
  }

  /** Returns the last request whose messages, and then its answer, begin the messages. */
  #before(made: readonly MessageLike[], messages: readonly string[]): Known | undefined {
    return this.#known.findLast((known) => {
      const { length } = known.messages;
      return (
        made[length]?.role === "assistant" &&
        known.messages.every((message, index) => message === messages[index])
      );
    });
  }
}

/** Returns a message in the form of the record; each result of a tool is a message of its own. */
function messagesOf({ role, content }: Message): MessageLike[] {
  if (typeof content === "string") {
    return [{ role, content: replaceLoneSurrogates(content) }];
  }
  if (role === "tool") {
    return content.flatMap(({ type, toolCallId = "", output }) => {
      return type === "tool-result"
        ? [{ role, toolCallId, content: [json(resultOf(output))] }]
        : [];
    });
  }
  const calls = content.filter(({ type }) => type === "tool-call");
  const said = content.filter(({ type }) => type !== "tool-call");
  const parts = said.slice(0, MAX_PARTS).map(partOf);
  if (said.length > MAX_PARTS) {
    parts.push(json(digested(said.slice(MAX_PARTS))));
  }
  const toolCalls = calls.map(({ toolCallId = "", toolName = "", input }) => {
    return { id: toolCallId, name: toolName, arguments: recordableText(input) };
  });
  return [{ role, content: parts, ...(toolCalls.length > 0 ? { toolCalls } : {}) }];
}

function resultOf(output: unknown): Json {
  const { type, value } = Object(output ?? null) as { type?: unknown; value?: unknown };
  return digested(type === "json" || type === "text" ? value : output);
}

/** Most parts of a message in its record, besides one that has all others. */
const MAX_PARTS = 63;

function partOf(part: Block): string | JsonText {
  return part.type === "text" ? replaceLoneSurrogates(part.text ?? "") : json(digested(part));
}

/** Returns a value as JSON, with a digest in place of bytes: the record says what was sent. */
function digested(value: unknown): Json {
  return recordable(withDigests(value));
}

/** Length of a file as text from which on the record has its digest only. */
const LONG = 4096;

function withDigests(value: unknown): unknown {
  if (value instanceof Uint8Array) {
    const sha256 = createHash("sha256").update(value).digest("hex");
    return { bytes: value.length, sha256 };
  }
  if (Array.isArray(value)) {
    return value.map(withDigests);
  }
  if (typeof value !== "object" || value === null || isDate(value)) {
    return value;
  }
  const { type, data } = value as { type?: unknown; data?: unknown };
  if (type === "file" && typeof data === "string" && data.length > LONG) {
    return { ...value, data: withDigests(new TextEncoder().encode(data)) };
  }
  return value instanceof URL
    ? value
    : Object.fromEntries(Object.entries(value).map(([key, item]) => [key, withDigests(item)]));
}

function toolOf(tool: { readonly [word: string]: unknown }): Json {
  const { type, name, description, inputSchema, ...rest } = tool;
  return type === "function"
    ? recordable({ name, description, parameters: inputSchema, ...rest })
    : recordable(tool);
}
