/**
 * What a conversation needs to know of a model's provider, and what its errors mean. A
 * dialect makes one call of its provider's own package out of what the contract calls
 * messages, and reads the stream that comes back.
 */

import { failTurn, PawlError } from "./errors.js";
import { parseExact } from "./exact_json.js";
import { textOf as wordsOf } from "./handler_fault.js";
import { toJsonText } from "./json_text.js";
import type { ModelAnswer, ModelOutcome, ProviderLimits } from "./models.js";
import type { Json } from "./plain.js";
import type { Usage } from "./reply.js";
import type { TurnInfo } from "./turn.js";
import type { Part } from "./values.js";

/** A message as a model is shown it. */
export type Said = Omit<TurnInfo["messages"][number], "envelope">;

/** Values by name, as a pack has them. */
export type Values = { readonly [name: string]: Json };

/** What a model is told of a function that it can call. */
export interface Offer {
  readonly name: string;
  readonly description: string;
  readonly parameters: Json;
}

/** One request to a model: settings, and every message that it is shown. */
export interface Ask {
  readonly model: string;
  readonly system: string;
  readonly tools: readonly Offer[];
  /** Those of the pack, by its names. */
  readonly parameters: Values;
  readonly choice: "auto" | "required";
  /** A text is to be JSON that fits; undefined: it may be any. */
  readonly schema: Json | undefined;
  readonly messages: readonly Said[];
  /** Goes to the provider as it is. */
  readonly extra: Values;
  /** Tokens that the answer may have, sent to the provider; 0: the provider's own default. */
  readonly most: number;
}

/** An answer as its pieces come in. */
export abstract class Draft<Piece> {
  /** What was reported so far; `estimated` until all of it was. */
  usage: Usage = { estimated: true };
  responseId = "";
  model = "";
  /** What came so far, in UTF-16 units: not more than its bytes. */
  size = 0;

  /** Takes a piece and gives the text in it. */
  abstract take(piece: Piece): string;

  /** What it came to: an answer, or why it cannot be used. */
  abstract end(): ModelOutcome;
}

/** An answer under way. */
export interface Speech {
  readonly draft: Pick<Draft<never>, "usage" | "size" | "responseId" | "end">;
  /** Its text, piece by piece. */
  readonly texts: AsyncGenerator<string, void, undefined>;
  /** What its response told of the provider's limits. */
  readonly limits: ProviderLimits | undefined;
}

/** How a provider is spoken to. */
export interface Dialect {
  /** Fields of a request that no `extra` may have: what else would say them. */
  readonly own: readonly string[];
  /** The one among them that says which JSON an answer is to be. */
  readonly format: string;
  /** True: a response goes on being made when its stream is lost, and can be fetched by its id. */
  readonly lasting: boolean;
  /**
   * Makes the call, or fetches the response of an id that was noted, if that is of use. Throws
   * failTurn for what the provider cannot take.
   */
  start(ask: Ask, signal: AbortSignal, responseId: string): Promise<Speech>;
  /** A text without the key of the endpoint. */
  discreet(text: string): string;
}

/**
 * How many tokens the answer may have, by the name that the program gives in `extra`, else by
 * the first of `names`.
 */
export function limitOf(
  { extra, most }: Ask,
  names: readonly string[],
): { [name: string]: number } {
  const given = names.filter((name) => Object.hasOwn(extra, name));
  const told = given.length > 0 ? given : names.slice(0, 1);
  return most > 0 ? Object.fromEntries(told.map((name) => [name, most])) : {};
}

/** The pack's parameters but the bound of the answer, which `limitOf` tells. */
export function withoutLimit({ max_tokens: _, ...parameters }: Values): Values {
  return parameters;
}

/** A stream that is read into a draft. */
export function speech<Piece>(
  stream: AsyncIterable<Piece> | Iterable<Piece>,
  draft: Draft<Piece>,
  limits?: ProviderLimits,
): Speech {
  return { draft, texts: textsOf(stream, draft), limits };
}

async function* textsOf<Piece>(
  stream: AsyncIterable<Piece> | Iterable<Piece>,
  draft: Draft<Piece>,
) {
  for await (const piece of stream) {
    yield draft.take(piece);
  }
}

/** A text without a key; an endpoint may repeat what it was sent. */
export function without(key: unknown, text: string): string {
  return typeof key === "string" && key.length > 0 ? text.replaceAll(key, "[key]") : text;
}

/** The pack's parameters under the provider's names. Throws failTurn for one that it has not. */
export function parametersFor(provider: string, given: Values, taken: { [name: string]: string }) {
  const entries = Object.entries(given).map(([name, value]): [string, Json] => {
    const own = Object.hasOwn(taken, name) ? taken[name] : undefined;
    if (own === undefined) {
      const known = Object.keys(taken).sort().join(", ");
      const text = `parameters.${name}: ${provider} has no such parameter, only ${known}`;
      throw failTurn("PARAMETER_UNSUPPORTED", text, { retryable: false });
    }
    return [own, value];
  });
  return Object.fromEntries(entries);
}

/** The error of a part that the provider cannot take. */
export function unsupported(provider: string, part: Part, takes: string): PawlError {
  const media = part.mediaType || "application/octet-stream";
  const name = part.filename ? ` (${part.filename})` : "";
  const form = part.content.case === "uri" ? `the address ${part.content.value}` : "data";
  const text = `a part of ${media}${name} as ${form}: ${provider} takes ${takes}`;
  return failTurn("MEDIA_UNSUPPORTED", text, { retryable: false });
}

/** A part as text; undefined: it is none. */
export function textIn({ content }: Part): string | undefined {
  return content.case === "text" || content.case === "json" ? content.value : undefined;
}

/** The media type of a part, without parameters. */
export function mediaOf({ mediaType }: Part): string {
  return (mediaType.split(";")[0] ?? "").trim().toLowerCase();
}

/** Bytes as text. */
export function base64(data: Uint8Array): string {
  return Buffer.from(data).toString("base64");
}

/** An address that a provider can fetch; undefined: the part has none. */
export function fetchable({ content }: Part): string | undefined {
  return content.case === "uri" && /^(https?:\/\/|data:)/.test(content.value)
    ? content.value
    : undefined;
}

/** A count of an endpoint; what is no whole number from 0 on is 0. */
export function count(given: unknown): number {
  return typeof given === "number" && Number.isSafeInteger(given) && given >= 0 ? given : 0;
}

/** The code of a provider's own word; it may say anything. */
export function codeOf(word: unknown): string {
  const text = wordsOf(word ?? "").toUpperCase();
  return `MODEL_${text.replace(/[^A-Z0-9_]/g, "_").slice(0, MOST_WORD) || "ERROR"}`;
}

const MOST_WORD = 64;

/** An answer that came, and cannot be used. */
export function unusable(code: string, message: string): ModelOutcome {
  return { failure: { error: { code, message } } };
}

/** An answer, unless it ended so that it is none. */
export function ended(answer: ModelAnswer): ModelOutcome {
  if (answer.refusal) {
    return unusable("REFUSED", answer.refusal);
  }
  switch (answer.finishReason) {
    case "content_filter":
      return unusable("CONTENT_FILTER", "the answer was filtered");
    case "length":
      return unusable("TRUNCATED", "the answer was longer than max_tokens");
    case "":
      return unusable("STREAM_TRUNCATED", "the stream ended in the midst of the answer");
  }
  return { answer };
}

/** Statuses below 500 after which the same request may succeed. */
const AGAIN = [408, 409, 425, 429];

/** What an error of a provider's package, or of what is below it, means. */
export function failureOf(error: unknown): ModelOutcome {
  if (PawlError.is(error)) {
    const fault = { code: error.reason, message: error.message };
    return { failure: { error: fault, final: !error.retryable } };
  }
  const { status, headers } = error as { status?: unknown; headers?: unknown };
  const text = error instanceof Error ? error.message : wordsOf(error);
  if (typeof status === "number") {
    const code = status === 429 ? "MODEL_RATE_LIMITED" : `MODEL_${status}`;
    const final = status < 500 && !AGAIN.includes(status);
    return { failure: { error: { code, message: text }, final, retryAfterMs: pauseIn(headers) } };
  }
  if (isA(error, "APIConnectionTimeoutError")) {
    return unusable("MODEL_TIMEOUT", text);
  }
  const unreachable = isA(error, "APIConnectionError");
  return unusable(unreachable ? "MODEL_UNREACHABLE" : "MODEL_ERROR", text);
}

/** What breaks a stream in its midst, the connection included. */
export function brokenBy(error: unknown): ModelOutcome {
  if (typeof (error as { status?: unknown }).status === "number") {
    return failureOf(error);
  }
  return unusable("STREAM_TRUNCATED", wordsOf(error));
}

const FINAL = [
  "MEDIA_UNSUPPORTED",
  "PARAMETER_UNSUPPORTED",
  "OVERRIDE_UNSUPPORTED",
  "ANSWER_TOO_LARGE",
];

/** Whether the code of a recorded failure says that no further attempt can help. */
export function isFinal(code: string): boolean {
  const status = Number(/^MODEL_(\d+)$/.exec(code)?.[1] ?? Number.NaN);
  return Number.isNaN(status) ? FINAL.includes(code) : status < 500 && !AGAIN.includes(status);
}

/** Whether an error is of a class of that name, of whichever package. */
function isA(error: unknown, name: string): boolean {
  let made = error;
  while (typeof made === "object" && made !== null) {
    if (made.constructor?.name === name) {
      return true;
    }
    made = Object.getPrototypeOf(made);
  }
  return false;
}

/** How long a provider asks to wait, in milliseconds. */
function pauseIn(headers: unknown): number | undefined {
  if (!(headers instanceof Headers)) {
    return undefined;
  }
  const ms = Number.parseFloat(headers.get("retry-after-ms") ?? "");
  const text = headers.get("retry-after") ?? "";
  const seconds = /^[\d.]+$/.test(text) ? Number.parseFloat(text) : Number.NaN;
  const moment = Date.parse(text) - Date.now();
  const pause = [ms, seconds * 1000, moment].find((value) => !Number.isNaN(value));
  return pause === undefined ? undefined : Math.max(0, pause);
}

/** A tool call in a message of the conversation. */
interface SaidCall {
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/**
 * The tool calls of a message; conversations of before there were MODEL steps have them in
 * the words of chat completions.
 */
export function callsOf({ toolCalls }: Said): SaidCall[] {
  const calls = Array.isArray(toolCalls) ? toolCalls : [];
  return calls.map((call: { [key: string]: unknown }) => {
    const said = (call.function ?? call) as { name?: unknown; arguments?: unknown };
    const given = typeof said.arguments === "string" && said.arguments ? said.arguments : "{}";
    return { id: String(call.id ?? ""), name: String(said.name ?? ""), arguments: given };
  });
}

/**
 * Arguments for providers that want an object: what is none is told as it is, and a number that
 * the provider's package would round as its digits.
 */
export function objectFor(text: string): { readonly [name: string]: unknown } {
  let value: unknown;
  try {
    const parsed = parseExact(text || "{}");
    toJsonText(parsed, "arguments");
    value = withDigits(parsed);
  } catch {
    return { arguments: text };
  }
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? (value as { [name: string]: unknown })
    : { arguments: value };
}

function withDigits(value: unknown): unknown {
  if (typeof value === "bigint") {
    return String(value);
  }
  if (Array.isArray(value)) {
    return value.map(withDigits);
  }
  return typeof value === "object" && value !== null
    ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, withDigits(item)]))
    : value;
}
