/**
 * What went wrong in a handler, as the contract takes it. Handlers are other people's code:
 * they may throw any value. What is made of it here is always text that the
 * sidecar takes, since a failure that cannot be told would leave its turn or step with a
 * worker that is through with it.
 */

import { INVALID_ARGUMENTS, PawlError, RESULT_INVALID } from "./errors.js";

/** The failure that an error stands for, of the turn or step of the handler that threw it. */
interface HandlerFault {
  readonly code: string;
  readonly message: string;
  /** Where it was thrown; empty: the handler threw it on purpose, or the place is unknown. */
  readonly trace: string;
  /** Whether another attempt may help. */
  readonly retryable: boolean;
  /** Whether the agent refuses the work. */
  readonly reject: boolean;
  /** Of a step: whether no further attempt can help. */
  readonly nonRetryable: boolean;
  /** Of a step: how long the next attempt is to wait at least; undefined: it is not said. */
  readonly retryAfterMs: number | undefined;
  /** Of a step: whether what the call changes elsewhere may have happened. */
  readonly unknown: boolean;
}

/** Codes of a payload that the tool does not take: it is the same in each attempt. */
const HOPELESS = [INVALID_ARGUMENTS, "PAYLOAD_INVALID"];

/** What a handler's error says of its turn, and whether a retry may help. */
export function faultOf(error: unknown): HandlerFault {
  const code = () => (PawlError.is(error) ? error.reason || error.kind.toUpperCase() : "");
  const known = error instanceof Error;
  const named = word(safely(code) || (known ? safely(() => error.name) : "Error"));
  const retryable = PawlError.is(error) ? error.retryable === true : true;
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
 * Whether the function was called, and did not fail by itself: its result is none, or it is at
 * work still. Its effects are unknown.
 */
function isMade({ kind, reason }: PawlError): boolean {
  return (
    (kind === "schema" && reason === RESULT_INVALID) ||
    (kind === "handler" && reason === "HANDLER_TIMEOUT")
  );
}

/** The error of a step with a result that cannot be sent: the call did happen. */
export function refusedResult(why: unknown): HandlerFault {
  const fault = faultOf(why);
  const known = PawlError.is(why) && !PawlError.is(why, "INVALID_JSON");
  const code = known ? fault.code : RESULT_INVALID;
  const message = `the result was refused: ${fault.message}`.slice(0, MAX_MESSAGE);
  return { ...fault, code, message, nonRetryable: false, retryAfterMs: undefined, unknown: true };
}

/** The error of a step after its tool was stopped in its midst. */
export function stoppedFault(why: unknown): HandlerFault {
  const fault = faultOf(why);
  return deliberate(why)
    ? fault
    : { ...fault, nonRetryable: false, retryAfterMs: undefined, unknown: true };
}

/** Whether the program is wrong, not a turn: each attempt would end with the same. */
export function isMistake(error: unknown): boolean {
  return PawlError.is(error, "BAD_REPLY", "NO_HANDLER");
}

/** Whether a completion is refused for what the program says by name or type. */
export function isWrongReply(error: unknown): boolean {
  return PawlError.is(error, ...WRONG);
}

const WRONG = [
  "UNKNOWN_EVENT",
  "UNDECLARED_ARTIFACT",
  "DUPLICATE_ARTIFACT",
  "ARTIFACT_TYPE",
  "AWAIT_WITH_EVENT",
];

/** Whether a handler failed its turn by `failTurn`. */
export function isFailTurn(error: unknown): boolean {
  return PawlError.is(error) && error.kind === "fail_turn";
}

/** Whether a handler meant to throw it: where it did so is no news. */
export function deliberate(error: unknown): boolean {
  return PawlError.is(error) && (error.kind === "fail_turn" || error.kind === "fail_step");
}

/** Any value as text. */
export function textOf(value: unknown): string {
  try {
    return String(value);
  } catch {
    return "an object without text";
  }
}

// Cut to what the contract takes: 128 bytes, 16 KiB (at most 4 bytes a character).
const MAX_CODE = 128;
const MAX_MESSAGE = 4096;
const MAX_TRACE = 2048;

function word(value: unknown): string {
  const text = textOf(value).slice(0, MAX_CODE);
  return text.replace(/[^\x20-\x7e]/g, "?") || "ERROR";
}

/** The beginning of its stack, where it was thrown. */
function traceOf(error: unknown): string {
  if (deliberate(error) || !(error instanceof Error)) {
    return "";
  }
  const stack = textOf(safely(() => error.stack) ?? "");
  // Its first lines are the message, however long that is.
  const frames = stack.search(/^\s+at /m);
  return frames < 0
    ? ""
    : `${stack.slice(0, Math.min(frames, MAX_TRACE / 4))}${cut(stack, frames)}`;
}

function cut(stack: string, from: number): string {
  return stack.slice(from, from + (MAX_TRACE * 3) / 4);
}

/** What a getter gives; undefined: it throws. */
function safely(get: () => unknown): unknown {
  try {
    return get();
  } catch {
    return undefined;
  }
}
