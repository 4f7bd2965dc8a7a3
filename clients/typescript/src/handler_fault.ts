/**
 * Converts errors of handlers to failures that the contract accepts. A handler may throw any value;
 * the result is always text that the sidecar accepts, because a failure that cannot be reported
 * would leave the turn or step with a worker that has ended it.
 */

import { INVALID_ARGUMENTS, PawlError, RESULT_INVALID } from "./errors.js";

/** The failure of a turn or a step that an error of its handler causes. */
interface HandlerFault {
  readonly code: string;
  readonly message: string;
  /**
   * Where the error was thrown; empty: the handler threw it on purpose, or the place is unknown.
   */
  readonly trace: string;
  /** Of a turn: whether another attempt may succeed. */
  readonly retryable: boolean;
  /** Of a turn: whether the agent refuses the work. */
  readonly reject: boolean;
  /** Of a step: whether no further attempt can succeed. */
  readonly nonRetryable: boolean;
  /**
   * Of a step: least milliseconds before the next attempt. Undefined means that the handler named
   * none.
   */
  readonly retryAfterMs: number | undefined;
  /** Of a step: whether the call may have had its effect. */
  readonly unknown: boolean;
}

/** Codes of a payload that the tool does not accept; it is the same in each attempt. */
const HOPELESS = [INVALID_ARGUMENTS, "PAYLOAD_INVALID"];

/** Returns the failure that an error of a handler causes. */
export function faultOf(error: unknown): HandlerFault {
  const code = () => (PawlError.is(error) ? error.reason || error.kind.toUpperCase() : "");
  const known = error instanceof Error;
  const named = word(safely(code) || (known ? safely(() => error.name) : "Error"));
  // A model without a price has none in the next attempt either.
  const unpriced = PawlError.is(error, "MODEL_UNPRICED");
  const retryable = PawlError.is(error) ? error.retryable === true && !unpriced : true;
  const unknown = PawlError.is(error) && (error.unknown || isMade(error));
  const nonRetryable = !unknown && (!retryable || HOPELESS.includes(named));
  const wait = PawlError.is(error) && error.kind === "fail_step" && error.retryAfterMs;
  return {
    code: named,
    message: textOf(known ? safely(() => error.message) : error).slice(0, MAX_MESSAGE),
    trace: traceOf(error),
    retryable,
    reject: PawlError.is(error) && error.reject === true,
    nonRetryable,
    retryAfterMs: typeof wait === "number" && !nonRetryable ? wait : undefined,
    unknown,
  };
}

/**
 * Whether the tool was called and did not fail by itself: its result is invalid, or it is still
 * running. The effect of the call is unknown.
 */
function isMade({ kind, reason }: PawlError): boolean {
  return (
    (kind === "schema" && reason === RESULT_INVALID) ||
    (kind === "handler" && reason === "HANDLER_TIMEOUT")
  );
}

/** Returns the failure of a step whose result cannot be sent, although the call was made. */
export function refusedResult(why: unknown): HandlerFault {
  const fault = faultOf(why);
  const known = PawlError.is(why) && !PawlError.is(why, "INVALID_JSON");
  const code = known ? fault.code : RESULT_INVALID;
  const message = `the result was refused: ${fault.message}`.slice(0, MAX_MESSAGE);
  return { ...fault, code, message, nonRetryable: false, retryAfterMs: undefined, unknown: true };
}

/** Returns the failure of a step whose tool was stopped while it ran. */
export function stoppedFault(why: unknown): HandlerFault {
  const fault = faultOf(why);
  return deliberate(why)
    ? fault
    : { ...fault, nonRetryable: false, retryAfterMs: undefined, unknown: true };
}

/** Whether the program is wrong, so that each attempt would fail in the same way. */
export function isMistake(error: unknown): boolean {
  const refused = PawlError.is(error, ...REFUSALS) && error.kind === "step_refused";
  const unfit = PawlError.is(error, "SCHEMA") && error.metadata.tool !== undefined;
  return refused || unfit || PawlError.is(error, "BAD_REPLY", "NO_HANDLER", "MODEL_UNPRICED");
}

/** Reasons of a refused call that another attempt of the turn gets again. */
const REFUSALS = ["TOOL_NOT_ALLOWED", "TOOL_NOT_LISTED", "TOOL_BLOCKED", "PAYLOAD_INVALID"];

/** Whether a completion was refused, here or by the sidecar, because of its names or types. */
export function isWrongReply(error: unknown): boolean {
  return error instanceof TypeError || PawlError.is(error, ...WRONG);
}

const WRONG = [
  "UNKNOWN_EVENT",
  "UNDECLARED_ARTIFACT",
  "DUPLICATE_ARTIFACT",
  "ARTIFACT_TYPE",
  "AWAIT_WITH_EVENT",
  "INVALID_JSON",
];

/** Whether a handler failed its turn by `failTurn`. */
export function isFailTurn(error: unknown): boolean {
  return PawlError.is(error) && error.kind === "fail_turn";
}

/** Whether a handler threw the error on purpose, so that the place does not matter. */
export function deliberate(error: unknown): boolean {
  return PawlError.is(error) && (error.kind === "fail_turn" || error.kind === "fail_step");
}

/** Returns any value as text. */
export function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return "an object without text";
  }
}

// Limits of the contract: 128 bytes, and 16 KiB (a character has at most 4 bytes).
const MAX_CODE = 128;
const MAX_MESSAGE = 4096;
const MAX_TRACE = 2048;

function word(value: unknown): string {
  const text = textOf(value).slice(0, MAX_CODE);
  return text.replace(/[^\x20-\x7e]/g, "?") || "ERROR";
}

/** Returns the beginning of the error's stack: the place where it was thrown. */
function traceOf(error: unknown): string {
  if (deliberate(error) || !(error instanceof Error)) {
    return "";
  }
  const stack = textOf(safely(() => error.stack) ?? "");
  // The stack begins with the message, which can be long.
  const frames = stack.search(/^\s+at /m);
  return frames < 0
    ? ""
    : `${stack.slice(0, Math.min(frames, MAX_TRACE / 4))}${cut(stack, frames)}`;
}

function cut(stack: string, from: number): string {
  return stack.slice(from, from + (MAX_TRACE * 3) / 4);
}

/** Returns the value of a getter. Undefined means that it throws. */
function safely(get: () => unknown): unknown {
  try {
    return get();
  } catch {
    return undefined;
  }
}
