/** The error class of this package, and how errors of a server map to it. */

import { durationMs } from "@bufbuild/protobuf/wkt";
import { Code, ConnectError } from "@connectrpc/connect";
import { brand, isBranded } from "./brand.js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";
import { type Record, RecordSchema } from "./gen/pawl/v1/record_pb.js";
import { type Plain, plain } from "./plain_message.js";

/**
 * What failed, in one word:
 * - request: the request is invalid; a repetition fails too
 * - authentication: the token is missing, unknown or revoked
 * - permission: the principal lacks the right, or another executor holds the turn
 * - not_found: the run, pack, record or namespace does not exist
 * - conflict: another caller was first
 * - state: the run's state does not permit the call
 * - limit: a limit of the operator is exceeded; see `limit`
 * - unavailable: the sidecar cannot be reached, or is draining
 * - deadline: the timeout passed; the call may still take effect
 * - cancelled: the caller's AbortSignal ended the call
 * - server: the server failed, or its answer cannot be read
 * - gap: a stream skipped a record
 * - step_refused: the sidecar refused a tool call: a policy or a limit; `reason` is its code
 * - step_denied: a person denied a tool call, or no approval came in time; `reason` is DENIED
 * - step_failed: a tool answered with an error; `reason` is its code
 * - step_cancelled: the visit or the run ended before the answer of a tool call
 * - schema: a tool's payload or result does not fit its schema
 * - handler: a handler returned an unusable value, or returned too late
 * - suspended: the turn was released until its steps are answered; the handler must stop, and is
 *   executed again (see WorkerOptions.suspendAfterMs)
 * - fail_turn, fail_step: made by `failTurn`, `failStep`
 * - sidecar: the sidecar's process could not be started
 */
export type ErrorKind =
  | "request"
  | "authentication"
  | "permission"
  | "not_found"
  | "conflict"
  | "state"
  | "limit"
  | "unavailable"
  | "deadline"
  | "cancelled"
  | "server"
  | "gap"
  | "step_refused"
  | "step_denied"
  | "step_failed"
  | "step_cancelled"
  | "schema"
  | "handler"
  | "suspended"
  | "fail_turn"
  | "fail_step"
  | "sidecar";

/** Fields of a new PawlError; all but kind and message are optional. */
export interface PawlErrorInit {
  readonly code?: string;
  readonly reason?: string;
  readonly metadata?: Readonly<{ [name: string]: string }>;
  readonly violations?: readonly Violation[];
  readonly retryAfterMs?: number;
  readonly retryable?: boolean;
  readonly reject?: boolean;
  readonly unknown?: boolean;
  readonly winner?: Conflict;
  readonly cause?: unknown;
}

/** The record by which another caller moved the run first. */
export type Conflict = Plain<Record>;

/** An invalid field of a request, and the rule that it breaks. */
export interface Violation {
  readonly field: string;
  readonly description: string;
}

/**
 * The error that this package throws. Distinguish errors by `reason`, then by `kind`.
 *
 *     try {
 *       await run.emit("Approve");
 *     } catch (error) {
 *       if (PawlError.is(error, "UNKNOWN_EVENT")) {
 *         console.log("possible are", error.allowed);
 *       }
 *     }
 */
export class PawlError extends Error {
  static {
    brand(PawlError, "PawlError");
  }

  override readonly name = "PawlError";
  /** What failed, in one word. */
  readonly kind: ErrorKind;
  /**
   * Name of the gRPC status, for example "NOT_FOUND". Empty for an error that this package detected
   * itself, for example a call that the caller cancelled.
   */
  readonly code: string;
  /** Stable error word of the server, of a tool or of a handler; empty: none. */
  readonly reason: string;
  /** Details of the server for programs. */
  readonly metadata: Readonly<{ [name: string]: string }>;
  /** Invalid fields of the request. */
  readonly violations: readonly Violation[];
  /** How many milliseconds the server asks to wait. Undefined means that it names no time. */
  readonly retryAfterMs: number | undefined;
  /**
   * Whether another attempt of a turn or a step that failed by this error may succeed. Errors of
   * `failTurn` and `failStep`, and some errors of steps and models, set it. Every other error has
   * true, which does not say that the program may repeat its own call.
   */
  readonly retryable: boolean;
  /** Of an error of `failTurn`: the agent refuses the work. */
  readonly reject: boolean;
  /**
   * Of `failStep`, and of a failed step: the outcome is unknown, so the call may have had its effect
   * in spite of the error, and a repetition may have it twice.
   */
  readonly unknown: boolean;
  /**
   * For SEQ_MISMATCH: the record that won, with its `principal` and its time `at`, and in its body
   * the event and the state, without the artifacts that it wrote. Undefined: the server did not
   * send it.
   *
   *     try {
   *       await run.emit("Approved", { expectedSeq: shown });
   *     } catch (error) {
   *       if (PawlError.is(error, "SEQ_MISMATCH")) {
   *         console.log(`too late: ${error.principal} was first with ${error.event}`);
   *       }
   *     }
   */
  readonly winner: Conflict | undefined;

  constructor(kind: ErrorKind, message: string, init: PawlErrorInit = {}) {
    super(message, init.cause === undefined ? undefined : { cause: init.cause });
    this.kind = kind;
    this.code = init.code ?? "";
    this.reason = init.reason ?? "";
    this.metadata = init.metadata ?? {};
    this.violations = init.violations ?? [];
    this.retryAfterMs = init.retryAfterMs;
    this.reject = init.reject ?? false;
    this.unknown = init.unknown ?? false;
    this.winner = init.winner;
    this.retryable = (init.retryable ?? true) && !this.reject;
  }

  /** Name of the invalid field of the request; empty if the server names none. */
  get field(): string {
    return this.metadata.field ?? "";
  }

  /** Values that the server accepts here; empty if it names none. */
  get allowed(): readonly string[] {
    return this.metadata.allowed ? this.metadata.allowed.split(", ") : [];
  }

  /** The limit that was exceeded; undefined if the server names none. */
  get limit(): number | undefined {
    return /^\d+$/.test(this.metadata.limit ?? "") ? Number(this.metadata.limit) : undefined;
  }

  /** For SEQ_MISMATCH: seq of the transition that won; 0 if the server sent none. */
  get seq(): number {
    return Number(this.metadata.seq ?? 0);
  }

  /**
   * For SEQ_MISMATCH: event of the transition that won; empty if no event caused it, or the server
   * sent none.
   */
  get event(): string {
    const body = this.winner?.body;
    return body?.case === "transition" ? body.value.event : "";
  }

  /** For SEQ_MISMATCH: principal that moved the run; empty if the server sent none. */
  get principal(): string {
    return this.winner?.principal ?? "";
  }

  /**
   * Whether a value is an error of this package, and has one of the given reasons. It also
   * recognizes errors of another copy of the package, for example of a CommonJS tool in a program
   * of ES modules.
   */
  static is(error: unknown, ...reasons: string[]): error is PawlError {
    const known = isBranded(error, "PawlError") ? (error as PawlError) : undefined;
    return known !== undefined && (reasons.length === 0 || reasons.includes(known.reason));
  }
}

/**
 * Returns an error that a handler throws to fail its turn with a code of its own. `retryable`
 * (default true): another attempt may succeed; false ends the run FAILED. `reject` (default false):
 * the agent refuses the work, and no attempt follows; the reason is "rejected".
 *
 * Thrown after a model's answer, it rejects that answer. The next attempt of the turn asks the
 * model again for that round; the request then contains the reason and the message, and the rounds
 * before it are answered from their records. The pack's attempts bound this, and the rejected
 * answer's usage stays counted. An answer whose tool calls were made (`turn.calls`) is kept,
 * because another answer would make them twice. Any other error keeps the answer, and the next
 * attempt gets it again. The error of a tool call that a handler does not catch (step_failed,
 * step_denied, step_refused) ends the run FAILED, because each attempt gets the recorded answer.
 *
 *     throw failTurn("NO_QUOTA", "tomorrow again", { retryable: false });
 */
export function failTurn(
  reason: string,
  message = reason,
  options: { readonly retryable?: boolean; readonly reject?: boolean } = {},
): PawlError {
  return new PawlError("fail_turn", message, { reason, ...options });
}

/**
 * Returns an error that a tool throws to fail its step with a code of its own. `nonRetryable`
 * (default false): no further attempt is made, even if the pack allows more. `retryAfterMs`:
 * milliseconds before the next attempt, at most the tool's longest pause. Any other error may be
 * tried again.
 *
 * `unknown` (default false): the call may have had its effect, for example if a request got no
 * answer. The pack's `on_unknown` then decides what follows, not `nonRetryable`, and the call's
 * business key stays taken. Without it the error says that the call had no effect.
 *
 *     throw failStep("NO_SUCH_ORDER", "there is no order 17", { nonRetryable: true });
 *     throw failStep("BANK_TIMEOUT", "no answer within 30 s", { unknown: true });
 */
export function failStep(
  reason: string,
  message = reason,
  options: {
    readonly nonRetryable?: boolean;
    readonly retryAfterMs?: number;
    readonly unknown?: boolean;
  } = {},
): PawlError {
  const { nonRetryable, ...details } = options;
  const retryable = !nonRetryable || details.unknown === true;
  return new PawlError("fail_step", message, { reason, retryable, ...details });
}

/**
 * Reason of a payload that the tool does not accept. The tool was not called, and the same payload
 * always fails.
 */
export const INVALID_ARGUMENTS = "INVALID_ARGUMENTS";

/** Reason of a result that does not fit the tool's declared schema. */
export const RESULT_INVALID = "RESULT_INVALID";

const KINDS: { readonly [code in Code]?: ErrorKind } = {
  [Code.InvalidArgument]: "request",
  [Code.OutOfRange]: "request",
  [Code.Unauthenticated]: "authentication",
  [Code.PermissionDenied]: "permission",
  [Code.NotFound]: "not_found",
  [Code.AlreadyExists]: "conflict",
  [Code.Aborted]: "conflict",
  [Code.FailedPrecondition]: "state",
  [Code.ResourceExhausted]: "limit",
  [Code.Unavailable]: "unavailable",
  [Code.DeadlineExceeded]: "deadline",
  [Code.Canceled]: "cancelled",
};

/** Codes of a connection that broke during a call. A server names a reason instead. */
const LOST = new Set([
  Code.Unknown,
  Code.Internal,
  Code.Aborted,
  Code.Canceled,
  Code.InvalidArgument,
  Code.Unimplemented,
]);

/** Codes that the gRPC library gives to errors of other code. */
const OWN: readonly Code[] = [Code.Unknown, Code.Internal];

/** Returns the error of a failed call. `signal` is the caller's own, if it gave one. */
export function errorOf(thrown: unknown, signal?: AbortSignal): PawlError {
  if (PawlError.is(thrown)) {
    return thrown;
  }
  const error = ConnectError.from(thrown);
  if (PawlError.is(error.cause)) {
    return error.cause;
  }
  const info = error.findDetails(ErrorInfoSchema)[0];
  const tooLarge = info ? undefined : tooLargeOf(error);
  if (tooLarge) {
    return tooLarge;
  }
  const lost = !info && LOST.has(error.code) && !signal?.aborted && isBroken(error);
  const code = lost ? Code.Unavailable : error.code;
  // An error that this process threw, for example in a token function, has a cause that is no
  // broken connection.
  const own = !info && !lost && OWN.includes(code) && error.cause instanceof Error;
  const retry = error.findDetails(RetryInfoSchema)[0]?.retryDelay;
  const winner = error.findDetails(RecordSchema)[0];
  return new PawlError(KINDS[code] ?? "server", error.rawMessage, {
    code: own ? "" : codeName(code),
    reason: info?.reason,
    metadata: info?.metadata,
    violations: error.findDetails(BadRequestSchema).flatMap((bad) => bad.fieldViolations),
    retryAfterMs: retry ? durationMs(retry) : undefined,
    winner: winner && plain(RecordSchema, winner),
    cause: thrown,
  });
}

/** How the gRPC libraries of this client and of the server report a message above a limit. */
const TOO_LARGE =
  /^message size (\d+) is larger than configured (writeMaxBytes|readMaxBytes) (\d+)|(?:received|sent) message larger than max \((\d+) vs\. (\d+)\)/i;

/**
 * Returns the error of a message that is too large for one side; undefined: it is another error.
 */
function tooLargeOf(error: ConnectError): PawlError | undefined {
  const found = TOO_LARGE.exec(error.rawMessage);
  if (!found) {
    return undefined;
  }
  const [, own, bound, ownLimit, theirs, theirLimit] = found;
  const side = bound === undefined ? "sidecar" : bound === "readMaxBytes" ? "answer" : "request";
  return messageTooLarge(Number(own ?? theirs), Number(ownLimit ?? theirLimit), error, side);
}

/** Which side refuses a large message, and what to do. */
const ACCEPTED = {
  request:
    "this client sends at most LIMIT (maxMessageBytes); keep large content beside the run with putBlob",
  answer: "this client reads at most LIMIT; request a smaller page (pageSize)",
  sidecar:
    "the sidecar accepts at most LIMIT; keep large content beside the run with putBlob, or raise serve --limits-message-bytes",
};

/** Returns the error of a message that is too large to be sent or read; sizes in bytes. */
export function messageTooLarge(
  size: number,
  limit: number,
  cause?: unknown,
  by: keyof typeof ACCEPTED = "request",
): PawlError {
  const what = by === "answer" ? "answer" : "request";
  return new PawlError(
    "limit",
    `${what}: ${size} bytes, ${ACCEPTED[by].replace("LIMIT", String(limit))}`,
    {
      code: "RESOURCE_EXHAUSTED",
      reason: "MESSAGE_TOO_LARGE",
      metadata: { limit: String(limit), got: String(size) },
      cause,
    },
  );
}

/** Whether a connection broke: the system names a code, or an answer was cut off. */
function isBroken(error: ConnectError): boolean {
  const cause = error.cause as { code?: unknown } | undefined | null;
  return typeof cause?.code === "string" || CUT_OFF.test(error.rawMessage);
}

const CUT_OFF =
  /closed|destroyed|missing (status|output message|response message)|incomplete envelope|promised \d+ bytes/;

/** "FailedPrecondition" as "FAILED_PRECONDITION", "Canceled" as "CANCELLED". */
export function codeName(code: Code): string {
  const name = code === Code.Canceled ? "Cancelled" : (Code[code] ?? "Unknown");
  return name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").toUpperCase();
}
