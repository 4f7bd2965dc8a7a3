/**
 * Repairs responses of endpoints that the SDK's providers cannot read, before the providers see
 * them. ADR 0090 has the table of repairs.
 */

import { failTurn, type PawlError } from "./errors.js";
import type { LanguageModel } from "./language_model.js";
import { brokenBy, wordsOf } from "./model_fault.js";
import { restoreRawJson } from "./raw_json.js";

type Fetch = typeof globalThis.fetch;

/**
 * Prefix of an id that stands for a missing one: the endpoint sent no id, or that of another call.
 */
export const NO_ID = "pawl-no-id-";

/** Size in bytes above which no record accepts an answer in any endpoint's form. */
const MAX_BYTES = 256 << 20;

/** A model whose responses are repaired. */
export interface Mended {
  readonly model: LanguageModel;
  /** False means that the model has its own transport, and its responses are not repaired. */
  readonly own: boolean;
  readonly seen: Seen;
}

/** Observations of the requests of a model. */
export interface Seen {
  /** Keys that the requests contained. */
  readonly keys: Set<string>;
  /** True means that the endpoint began a stream, so it was working. */
  streaming: boolean;
}

/**
 * Returns the model with a fetch that repairs its responses. Providers of the SDK keep their fetch
 * in `config`; a model without one is returned unchanged.
 */
export function mended(model: LanguageModel): Mended {
  const seen: Seen = { keys: new Set(), streaming: false };
  const { config } = model as { config?: { fetch?: unknown } };
  const redacts = /\bthis\.#/.test(String(model.constructor)); // A copy of the model lacks private fields.
  if (typeof config !== "object" || config === null || redacts) {
    return { model, own: true, seen };
  }
  const given = config.fetch;
  const fetch = mendedFetch(
    seen,
    config,
    typeof given === "function" ? (given as Fetch) : undefined,
  );
  const own = { config: { value: { ...config, fetch } } };
  return { model: Object.create(model, own) as LanguageModel, own: false, seen };
}

/** Returns a fetch that repairs event streams. Default `inner`: the current global fetch. */
function mendedFetch(seen: Seen, config: object, inner?: Fetch): Fetch {
  return async (input, init) => {
    for (const key of keysIn(new Headers(init?.headers))) {
      seen.keys.add(key);
    }
    const make = inner ?? globalThis.fetch;
    if (typeof init?.body !== "string") {
      return make(input, init);
    }
    const body = restoreRawJson(init.body);
    const ask = (text: string) => make(input, { ...init, body: text });
    const response = await ask(newer.has(config) ? renamed(body) : body);
    if (await wantsNewer(response, body)) {
      newer.add(config);
      return ask(renamed(body));
    }
    const streams = response.ok && /"stream"\s*:\s*true/.test(body);
    return streams && response.body ? mendedResponse(response, response.body, seen) : response;
  };
}

/** Endpoints of chat completions that require the newer name of the limit of an answer. */
const newer = new WeakSet<object>();
const NEWER = "max_completion_tokens";
/** The older name, in front of all nested values. */
const OLDER = /^(\{[^{[]*)"max_tokens"(?=\s*:)/;

/** Whether the endpoint refuses the older name and names the newer one. */
async function wantsNewer(response: Response, body: string): Promise<boolean> {
  return (
    response.status === 400 && OLDER.test(body) && (await response.clone().text()).includes(NEWER)
  );
}

function renamed(body: string): string {
  return body.replace(OLDER, `$1"${NEWER}"`);
}

const SECRET = /authorization|key|token|secret/;

function keysIn(headers: Headers): string[] {
  const values = [...headers].flatMap(([name, value]) => (SECRET.test(name) ? [value] : []));
  return values.map((value) => value.replace(/^(bearer|basic) /i, "")).filter(Boolean);
}

function mendedResponse(
  { status, statusText, headers }: Response,
  body: ReadableStream<Uint8Array>,
  seen: Seen,
): Response {
  const mender = new Mender(seen);
  const lines = new TransformStream<string, string>({
    transform: (text, controller) => controller.enqueue(mender.take(text)),
    flush: (controller) => controller.enqueue(mender.end()),
  });
  const decoder = new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>;
  const events = body.pipeThrough(decoder).pipeThrough(lines).pipeThrough(new TextEncoderStream());
  return new Response(events, { status, statusText, headers });
}

/**
 * Returns the error of a response that is no stream: a page, an error, or an answer in one piece.
 */
function noStream(body: string): PawlError {
  const error = errorIn(body);
  if (error === undefined) {
    const text = `the endpoint sent no event stream: ${wordsOf(body)}`;
    return failTurn("MODEL_NO_STREAM", text);
  }
  const { code, status, type } = Object(error) as { [word: string]: unknown };
  const entry = { message: wordsOf(body), code: [code, status].find(Boolean), type };
  const { failure } = brokenBy(entry);
  return failTurn(failure.error.code, failure.error.message ?? "", {
    retryable: !failure.nonRetryable,
  });
}

function errorIn(body: string): unknown {
  try {
    const value: unknown = JSON.parse(body);
    return Object(Array.isArray(value) ? value[0] : value).error;
  } catch {
    return undefined;
  }
}

interface Call {
  index?: unknown;
  id?: unknown;
  function?: { name?: unknown; arguments?: unknown } | null;
}

/** Repairs a stream line by line: chat completions, and the counts of the other forms. */
class Mender {
  readonly #seen: Seen;
  /** Received text that is no complete line yet; of a page all text. */
  #left = "";
  #bytes = 0;
  #chat = false;
  #finished = false;
  /** By the index of a call: the id from the endpoint, and the id that replaces it. */
  readonly #calls = new Map<unknown, { readonly said: unknown; readonly made?: string }>();
  readonly #ids = new Set<unknown>();

  constructor(seen: Seen) {
    this.#seen = seen;
  }

  /** Takes a piece and returns the complete lines. Throws failTurn (ANSWER_TOO_LARGE). */
  take(text: string): string {
    this.#left += text;
    this.#bytes += text.length;
    if (this.#bytes > MAX_BYTES) {
      const words = `the endpoint sent more than ${MAX_BYTES} bytes`;
      throw failTurn("ANSWER_TOO_LARGE", words, { retryable: false });
    }
    if (!text.includes("\n") || this.#isPage()) {
      return "";
    }
    const end = this.#left.lastIndexOf("\n") + 1;
    const whole = this.#left.slice(0, end);
    this.#left = this.#left.slice(end);
    return whole.replace(/[^\n]*\n/g, (line) => this.#line(line));
  }

  /** Returns the rest. Throws the error that a page reports. */
  end(): string {
    if (this.#isPage()) {
      throw noStream(this.#left);
    }
    // A last line without a line break is an event as well, if it is complete.
    return this.#left ? this.#line(`${this.#left}\n\n`) : "\n";
  }

  #isPage(): boolean {
    this.#seen.streaming ||= /^\s*[^<{[\s]/.test(this.#left);
    return !this.#seen.streaming;
  }

  #line(line: string): string {
    const data = /^data: ?/.exec(line)?.[0];
    if (data === undefined) {
      return line;
    }
    const text = line.slice(data.length);
    if (text.trim() === "[DONE]") {
      return this.#chat && !this.#finished ? `${FINISH}\n\n${line}` : line;
    }
    this.#chat ||= text.includes('"choices"') || text.includes('"chat.completion.chunk"');
    if (!this.#chat) {
      return text.includes('"usage"') ? `data: ${withCounts(text)}\n` : line;
    }
    if (!text.includes('"choices"') && !text.includes('"error"')) {
      return line.replace("{", '{"choices":[],');
    }
    this.#finished ||= /"finish_reason"\s*:\s*"/.test(text);
    return text.includes('"tool_calls"') ? `data: ${this.#chunk(text)}\n` : line;
  }

  #chunk(text: string): string {
    const exact = withArgumentsAsText(text);
    let chunk: { choices?: { delta?: { tool_calls?: Call[] } }[] };
    try {
      chunk = JSON.parse(exact) as typeof chunk;
    } catch {
      return text.trimEnd();
    }
    const calls = chunk.choices?.flatMap((choice) => choice?.delta?.tool_calls ?? []) ?? [];
    const changed = calls.map((call) => this.#call(call)).includes(true);
    return changed ? JSON.stringify(chunk) : exact.trimEnd();
  }

  /** Sets the id of a call that begins without one of its own; true: it was changed. */
  #call(call: Call): boolean {
    const { index, id } = call;
    const known = index === undefined ? undefined : this.#calls.get(index);
    if (known && (!id || id === known.said)) {
      const other = Boolean(id && known.made);
      call.id = other ? known.made : id;
      return other;
    }
    const repeated = this.#ids.has(id);
    if (!call.function?.name || (index === undefined && repeated)) {
      return false;
    }
    const made = id && !repeated ? undefined : `${NO_ID}${this.#ids.size}`;
    this.#ids.add(made ?? id);
    this.#calls.set(index, { said: id, made });
    call.id = made ?? id;
    return made !== undefined;
  }
}

/** Returns an event of Messages or Responses with 0 for each missing count; 0 means unknown. */
function withCounts(text: string): string {
  let event: { usage?: Counts; message?: { usage?: Counts }; response?: { usage?: Counts } };
  try {
    event = JSON.parse(text) as typeof event;
  } catch {
    return text.trimEnd();
  }
  const whole = event.message?.usage ?? event.response?.usage;
  const usage = whole ?? event.usage;
  const names = whole ? ["input_tokens", "output_tokens"] : ["output_tokens"];
  const missing = names.filter((name) => usage && typeof usage[name] !== "number");
  Object.assign(usage ?? {}, Object.fromEntries(missing.map((name) => [name, 0])));
  return missing.length > 0 ? JSON.stringify(event) : text.trimEnd();
}

type Counts = { [name: string]: unknown };

/** The finish reason that the library reads if the endpoint sends none. */
export const UNSAID = "unsaid";

/** The end of an answer without a finish reason, followed by the end of the stream. */
const FINISH = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"${UNSAID}"}]}`;

/** Returns arguments that are an object as its JSON text, with the original digits. */
function withArgumentsAsText(text: string): string {
  const at = /"arguments"\s*:\s*(?=[{[])/g;
  let out = "";
  let from = 0;
  for (let found = at.exec(text); found; found = at.exec(text)) {
    const begin = at.lastIndex;
    const end = endOf(text, begin);
    out += text.slice(from, begin) + JSON.stringify(text.slice(begin, end));
    from = end;
    at.lastIndex = end;
  }
  return out + text.slice(from);
}

/** Returns the end of the object or list that begins at a position of JSON text. */
function endOf(text: string, begin: number): number {
  const token = /"(?:[^"\\]|\\.)*"|[{}[\]]/gs;
  token.lastIndex = begin;
  let depth = 0;
  for (let found = token.exec(text); found; found = token.exec(text)) {
    depth += "{[".includes(found[0]) ? 1 : "}]".includes(found[0]) ? -1 : 0;
    if (depth === 0) {
      return token.lastIndex;
    }
  }
  return text.length;
}
