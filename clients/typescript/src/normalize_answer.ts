/**
 * Normalizes an answer for its record and for later requests, by the rules of ADR 0087, which
 * executors in other languages follow as well (testdata/model/normal.json).
 */

import { toJsonText } from "./json_text.js";
import type { Block } from "./language_model.js";
import type { ModelCall } from "./model_step.js";
import { replaceLoneSurrogates, replaceLoneSurrogatesIn } from "./unicode.js";

/** A normalized answer: its text for people, and its message. */
export interface Normal {
  readonly texts: readonly string[];
  readonly calls: readonly ModelCall[];
  /** In order; the input of a call is the text of its arguments. */
  readonly blocks: readonly Block[];
}

/** The ids of calls in the rest of the conversation, which must differ. */
export interface Place {
  readonly round: number;
  readonly known: Iterable<string>;
}

const MAX_ID = 4096;

/**
 * Returns the normalized answer of these blocks; undefined if they have no text, no call and
 * `refusal` is empty. Calls that the provider makes itself are not calls of the answer.
 */
export function normalizeAnswer(
  given: readonly Block[],
  refusal: string,
  { round, known }: Place,
): Normal | undefined {
  const taken = new Set(known);
  const calls: ModelCall[] = [];
  const acts = given.some(isCall);
  const blocks = given.flatMap((block): Block[] => {
    if (isCall(block)) {
      const { name, ...call } = normalCall(block, taken, `call_${round}_${calls.length}`);
      calls.push({ name, ...call });
      return [
        {
          ...replaceLoneSurrogatesIn(block),
          toolCallId: call.id,
          toolName: name,
          input: call.arguments,
        },
      ];
    }
    return hasContent(block, acts) ? [replaceLoneSurrogatesIn(block)] : [];
  });
  const texts = blocks.flatMap(({ type, text }) => (type === "text" && text ? [text] : []));
  const none = calls.length === 0 && !refusal && texts.every(isBlank);
  return none ? undefined : { texts, calls, blocks };
}

/** Whether a block is a tool call that the provider does not make itself. */
export function isCall({ type, providerExecuted }: Block): boolean {
  return type === "tool-call" && !providerExecuted;
}

function hasContent({ type, text = "", providerOptions }: Block, acts: boolean): boolean {
  switch (type) {
    case "text":
      return acts ? !isBlank(text) : text !== "";
    case "reasoning":
      return text !== "" || providerOptions !== undefined;
    default:
      return true;
  }
}

function isBlank(text: string): boolean {
  return text.trim() === "";
}

function normalCall(block: Block, taken: Set<string>, made: string): ModelCall {
  const id = idOf(replaceLoneSurrogates(block.toolCallId ?? ""), taken, made);
  taken.add(id);
  const name = replaceLoneSurrogates(block.toolName ?? "");
  const wrote = wroteOf(block.input);
  const text = ["", "null"].includes(wrote.trim()) ? "{}" : wrote;
  return faultOf(text) === undefined
    ? { id, name, arguments: wholeEscapes(text) }
    : { id, name, arguments: "{}", brokenArguments: text };
}

function idOf(id: string, taken: ReadonlySet<string>, made: string): string {
  if (id && !taken.has(id) && new TextEncoder().encode(id).length <= MAX_ID) {
    return id;
  }
  let next = made;
  for (let count = 2; taken.has(next); count += 1) {
    next = `${made}_${count}`;
  }
  return next;
}

function wroteOf(input: unknown): string {
  return typeof input === "string"
    ? replaceLoneSurrogates(input)
    : toJsonText(replaceLoneSurrogatesIn(input ?? {}), "arguments");
}

/** Returns why arguments are no JSON object. Undefined means that they are one. */
export function faultOf(text: string): string | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text || "{}");
  } catch (error) {
    return `the arguments are no JSON: ${error instanceof Error ? error.message : error}`;
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    return "the arguments are no object";
  }
  const twice = duplicateId(text);
  return twice === undefined ? undefined : `the arguments are no JSON: ${twice} is there twice`;
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]/gs;

/** Returns a name that occurs twice in an object of JSON text. */
function duplicateId(text: string): string | undefined {
  const open: (Set<string> | undefined)[] = [];
  let last = "";
  for (const [token] of text.matchAll(TOKEN)) {
    if (token === "{" || token === "[") {
      open.push(token === "{" ? new Set() : undefined);
    } else if (token === "}" || token === "]") {
      open.pop();
    } else if (token === ":") {
      const names = open.at(-1);
      const name = String(JSON.parse(last));
      if (names?.has(name)) {
        return last;
      }
      names?.add(name);
    }
    last = token;
  }
  return undefined;
}

/** Returns JSON text with U+FFFD in place of each escaped lone surrogate. */
function wholeEscapes(text: string): string {
  return text.replace(ESCAPES, (all) => (/^\\u[dD][89a-fA-F]..$/.test(all) ? "\\ufffd" : all));
}

/** An escaped surrogate pair, or one escape. */
const ESCAPES = /\\u[dD][89abAB]..\\u[dD][c-fC-F]..|\\u.{4}|\\./g;
