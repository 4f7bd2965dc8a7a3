/** Converts errors of endpoints: a code, the provider's message, and whether to try again. */

import { PawlError } from "./errors.js";
import { textOf } from "./handler_fault.js";
import type { ModelFailure, ModelOutcome } from "./model_step.js";
import { replaceLoneSurrogates } from "./unicode.js";

/** The outcome of a failed model call. */
export type Failed = Extract<ModelOutcome, { readonly failure: unknown }>;

/** Returns the failure for an answer that arrived but cannot be used. */
export function unusable(code: string, message: string): Failed {
  return { failure: { error: { code, message } } };
}

/** Returns the failure for an answer of more bytes than the sidecar takes. */
export function tooLarge(most: number): Failed {
  const message = `the answer has more than ${most} bytes`;
  return { failure: { error: { code: "ANSWER_TOO_LARGE", message }, nonRetryable: true } };
}

/** Returns the failure for an answer that the sidecar refuses; it was paid for nevertheless. */
export function refusalOf(error: unknown): Failed | undefined {
  if (PawlError.is(error, "ANSWER_TOO_LARGE")) {
    return {
      failure: { error: { code: error.reason, message: error.message }, nonRetryable: true },
    };
  }
  return PawlError.is(error) && error.kind === "request"
    ? unusable("ANSWER_INVALID", error.message)
    : undefined;
}

/** Returns a code made of a provider's own error word, which can be any text. */
export function codeOf(word: unknown): string {
  const text = textOf(word ?? "").toUpperCase();
  return `MODEL_${text.replace(/[^A-Z0-9_]/g, "_").slice(0, MAX_WORD) || "ERROR"}`;
}

const MAX_WORD = 64;

/** The HTTP status of an error before a stream begins, by its type or code. */
const STATUSES: { readonly [word: string]: number } = {
  invalid_request_error: 400,
  invalid_prompt: 400,
  invalid_argument: 400,
  context_length_exceeded: 400,
  authentication_error: 401,
  invalid_api_key: 401,
  billing_error: 402,
  insufficient_quota: 402,
  permission_error: 403,
  not_found_error: 404,
  model_not_found: 404,
  request_too_large: 413,
  rate_limit_error: 429,
  rate_limit_exceeded: 429,
  too_many_requests: 429,
  resource_exhausted: 429,
};

/** Statuses below 500 after which the same request may succeed. */
const RETRIABLE = [408, 409, 425, 429];

const FINAL = [
  "MEDIA_UNSUPPORTED",
  "PARAMETER_UNSUPPORTED",
  "OVERRIDE_UNSUPPORTED",
  "ANSWER_TOO_LARGE",
];

/** Whether the code of a recorded failure says that no further attempt can succeed. */
export function isFinal(code: string): boolean {
  const status = Number(/^MODEL_(\d+)$/.exec(code)?.[1] ?? Number.NaN);
  return Number.isNaN(status) ? FINAL.includes(code) : status < 500 && !RETRIABLE.includes(status);
}

/** Fields of an error of the SDK, or of its cause; each may be missing. */
interface Thrown {
  readonly name?: unknown;
  readonly message?: unknown;
  readonly type?: unknown;
  readonly code?: unknown;
  readonly statusCode?: unknown;
  readonly responseHeaders?: { readonly [name: string]: string };
  readonly responseBody?: unknown;
  readonly functionality?: unknown;
  readonly cause?: unknown;
}

/** Returns the headers of the response that an error reports. */
export function headersOf(error: unknown): Headers | undefined {
  const { responseHeaders } = (error ?? {}) as Thrown;
  return responseHeaders && new Headers(responseHeaders);
}

/** Returns the failure for an error of a call that gave no stream. */
export function failureOf(error: unknown): Failed {
  if (PawlError.is(error, "INVALID_JSON")) {
    return unusable("ANSWER_INVALID", error.message); // The provider's library threw it.
  }
  if (PawlError.is(error)) {
    const fault = { code: error.reason, message: error.message };
    return { failure: { error: fault, nonRetryable: !error.retryable } };
  }
  const { name, statusCode, responseBody, functionality, cause } = (error ?? {}) as Thrown;
  if (PawlError.is(cause)) {
    return failureOf(cause);
  }
  if (name === "AI_UnsupportedFunctionalityError") {
    const message = `the provider does not support ${textOf(functionality ?? error)}`;
    return { failure: { error: { code: "MEDIA_UNSUPPORTED", message }, nonRetryable: true } };
  }
  if (typeof statusCode === "number" && statusCode < 400) {
    return unusable("STREAM_TRUNCATED", messageOf(error)); // The response broke after its headers.
  }
  if (typeof statusCode === "number") {
    const words = wordsOf(responseBody) || messageOf(error);
    return { failure: { ...statusFailure(statusCode, words), ...pauseOf(error) } };
  }
  const unreachable = name === "AI_APICallError";
  return unusable(unreachable ? "MODEL_UNREACHABLE" : "MODEL_ERROR", messageOf(error));
}

/** Returns the failure for an error that ended a stream: of the provider, or of the connection. */
export function brokenBy(error: unknown): Failed {
  if (PawlError.is(error)) {
    return failureOf(error);
  }
  const { statusCode, code, type } = (error ?? {}) as Thrown;
  if (error instanceof Error) {
    return typeof statusCode === "number"
      ? failureOf(error)
      : unusable("STREAM_TRUNCATED", messageOf(error));
  }
  const status = [statusCode, code, type].map(statusOf).find((number) => number > 0);
  const words = wordsOf(error) || messageOf(error);
  if (status !== undefined) {
    return { failure: { ...statusFailure(status, words), ...pauseOf(error) } };
  }
  const own = [code, type].find((word) => typeof word === "string" && word !== "error");
  return unusable(codeOf(own), words);
}

/** Returns the status that a word or a number of an error means; 0: none. */
function statusOf(text: unknown): number {
  const number = Number(text);
  if (number >= 400 && number < 600) {
    return number;
  }
  return typeof text === "string" && Object.hasOwn(STATUSES, text) ? (STATUSES[text] ?? 0) : 0;
}

function statusFailure(status: number, message: string): ModelFailure {
  const code = status === 429 ? "MODEL_RATE_LIMITED" : `MODEL_${status}`;
  return { error: { code, message }, nonRetryable: status < 500 && !RETRIABLE.includes(status) };
}

function messageOf(error: unknown): string {
  const { message, cause } = (error ?? {}) as Thrown;
  const below = (cause as Thrown | undefined)?.message;
  const text = typeof message === "string" ? message : textOf(error);
  return typeof below === "string" && !text.includes(below) ? `${text}: ${below}` : text;
}

const WORDS = ["error", "message", "detail", "msg", "title", "errors", "response"];

/** Returns the message in a provider's body, in any form; empty: it has none. */
export function wordsOf(body: unknown): string {
  if (typeof body === "string") {
    return inText(body.trim());
  }
  if (Array.isArray(body)) {
    return body.map(wordsOf).find((words) => words !== "") ?? "";
  }
  if (typeof body !== "object" || body === null) {
    return "";
  }
  const named = body as { readonly [name: string]: unknown };
  return WORDS.map((name) => wordsOf(named[name])).find((words) => words !== "") ?? "";
}

const MAX_PAGE = 200;

function inText(text: string): string {
  if (/^[[{]/.test(text)) {
    try {
      return wordsOf(JSON.parse(text)) || text;
    } catch {
      return text;
    }
  }
  if (!text.startsWith("<")) {
    return text;
  }
  const title = /<title[^>]*>([^<]+)</i.exec(text)?.[1];
  const bare = (title ?? text.replace(/<(script|style)[\s\S]*?<\/\1>|<[^>]*>/gi, " ")).trim();
  return bare.replace(/\s+/g, " ").slice(0, MAX_PAGE);
}

/** Returns how long a provider asks to wait. An invalid or past time is ignored. */
function pauseOf(error: unknown): Pick<ModelFailure, "retryAfterMs"> {
  const headers = headersOf(error);
  const text = headers?.get("retry-after")?.trim() ?? "";
  const ms = headers?.get("retry-after-ms")?.trim() ?? "";
  const given = [
    /^\d+(\.\d+)?$/.test(ms) ? Number(ms) : Number.NaN,
    /^\d+(\.\d+)?$/.test(text) ? Number(text) * 1000 : Number.NaN,
    /[a-z]{3}/i.test(text) ? Date.parse(text) - Date.now() : Number.NaN,
  ];
  const pause = given.find((value) => value >= 0);
  return pause === undefined ? {} : { retryAfterMs: pause };
}

/** Returns an outcome as it is recorded: without keys, which an endpoint may repeat. */
export function discreet(outcome: ModelOutcome, keys: Iterable<string>): ModelOutcome {
  if ("answer" in outcome) {
    return outcome;
  }
  const { error } = outcome.failure;
  const long = [...keys].filter((key) => key.length >= LEAST_KEY);
  const without = (text: string) => {
    return long.reduce((left, key) => left.replaceAll(key, "[key]"), replaceLoneSurrogates(text));
  };
  const message = without(error.message ?? "").slice(0, MAX_MESSAGE);
  return { failure: { ...outcome.failure, error: { code: without(error.code), message } } };
}

/** Least characters of a key; shorter text is no key, and is part of many words. */
const LEAST_KEY = 8;

/** Most characters of an endpoint's own message in a failure. */
const MAX_MESSAGE = 4096;
