/** The one error class of this package, and how a server's words map to it. */

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
 * What went wrong, in one word:
 * - request: the request itself is wrong; repeating it cannot help
 * - authentication: no token, an unknown or a revoked one
 * - permission: the principal may not do that, or another executor holds the turn
 * - not_found: no such run, pack, record or namespace
 * - conflict: something else was there first
 * - state: the run is not in a state to do that
 * - limit: a limit of the operator was passed; see `limit`
 * - unavailable: the sidecar cannot be reached, or is draining
 * - deadline: the timeout passed; what was asked may still happen
 * - cancelled: the caller's AbortSignal ended the call
 * - server: a fault of the server, or an answer that is not understood
 * - gap: a stream left out a record
 * - step_denied, step_failed, step_cancelled: a tool call of a turn did not end well
 * - schema: a tool's payload or result does not fit its schema
 * - handler: a handler answered with something that cannot be used, or too late
 * - suspended: the turn was given back until its steps are answered; stop, it is
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
  | "step_denied"
  | "step_failed"
  | "step_cancelled"
  | "schema"
  | "handler"
  | "suspended"
  | "fail_turn"
  | "fail_step"
  | "sidecar";

/** What a PawlError is made of; all but kind and message may be left out. */
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

/** One field of a request that breaks a rule. */
export interface Violation {
  readonly field: string;
  readonly description: string;
}

/**
 * Every error that this package throws. Tell them apart by `reason`, then by `kind`.
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
  /** What went wrong, in one word. */
  readonly kind: ErrorKind;
  /**
   * Name of the gRPC status, for example "NOT_FOUND"; empty: no server said anything, as of a call
   * that the caller cancelled.
   */
  readonly code: string;
  /** Stable word of the server (or of a tool, or of a handler); empty: none. */
  readonly reason: string;
  /** What the server told for programs. */
  readonly metadata: Readonly<{ [name: string]: string }>;
  /** Fields of the request that break a rule. */
  readonly violations: readonly Violation[];
  /** How many milliseconds the server asked to wait; undefined: it did not. */
  readonly retryAfterMs: number | undefined;
  /** For a handler's own failure: another attempt may help. */
  readonly retryable: boolean;
  /** For a handler's own failure: the agent refuses the work. */
  readonly reject: boolean;
  /** For a tool's failure: what the call changes elsewhere may have happened all the same. */
  readonly unknown: boolean;
  /**
   * For SEQ_MISMATCH: the record that won, with its `principal` and `at`, and the event and
   * the state in its body, but without the artifacts that it wrote. Undefined: not told.
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

  /** Field of the request that is at fault; empty: none is named. */
  get field(): string {
    return this.metadata.field ?? "";
  }

  /** Values that would have been taken; empty: none are named. */
  get allowed(): readonly string[] {
    return this.metadata.allowed ? this.metadata.allowed.split(", ") : [];
  }

  /** Limit that was passed; undefined: none is named. */
  get limit(): number | undefined {
    return /^\d+$/.test(this.metadata.limit ?? "") ? Number(this.metadata.limit) : undefined;
  }

  /** For SEQ_MISMATCH: seq of the transition that won; 0: not told. */
  get seq(): number {
    return Number(this.metadata.seq ?? 0);
  }

  /** For SEQ_MISMATCH: event of the transition that won; empty: it was none, or is not told. */
  get event(): string {
    const body = this.winner?.body;
    return body?.case === "transition" ? body.value.event : "";
  }

  /** For SEQ_MISMATCH: the principal that moved the run; empty: unknown. */
  get principal(): string {
    return this.winner?.principal ?? "";
  }

  /**
   * Whether a value is an error of this package, and of one of these reasons if given. The error
   * may be of another copy of the package: a CommonJS tool in a program of ES modules has its own.
   */
  static is(error: unknown, ...reasons: string[]): error is PawlError {
    const known = isBranded(error, "PawlError") ? (error as PawlError) : undefined;
    return known !== undefined && (reasons.length === 0 || reasons.includes(known.reason));
  }
}

/**
 * An error for a handler to throw: fails the turn with a code of its own. `retryable`
 * (default true): another attempt may help; else the run ends FAILED. `reject` (default
 * false): the agent refuses the work, which no attempt changes; the reason is "rejected".
 *
 * Behind a model's answer it rejects that answer: the turn's next attempt asks the model anew for
 * that round, with the reason and the message in the request, and is answered from the record before
 * it. The pack's attempts bound it; what the answer consumed stays spent. An answer stays whose
 * tool calls were made (`turn.calls`), since another one would make them twice. Behind any other
 * error the answer stays, and the next attempt gets it again.
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
 * An error for a tool to throw: fails its step with a code of its own. `nonRetryable` (default
 * false): the step is not attempted again, even where the pack allows it. `retryAfterMs`: not before so
 * long, up to the tool's longest pause. Any other error may be tried again.
 *
 * `unknown` (default false): what the call changes elsewhere may have happened all the same, as
 * after a request that had no answer. What follows is the pack's word (`on_unknown`), not
 * `nonRetryable`, and the call's business key stays taken. Without it an error says that nothing
 * happened.
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
 * The reason of a tool that does not take the payload: the tool was not called, and the same payload never fits.
 */
export const INVALID_ARGUMENTS = "INVALID_ARGUMENTS";

/** The reason of a tool with a result that does not fit its declared schema. */
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

/** How a connection that breaks under a call is told; a server names a reason instead. */
const LOST = new Set([
  Code.Unknown,
  Code.Internal,
  Code.Aborted,
  Code.Canceled,
  Code.InvalidArgument,
  Code.Unimplemented,
]);

/** What the gRPC library makes of errors that are not its own. */
const OWN: readonly Code[] = [Code.Unknown, Code.Internal];

/** The error of a failed call. `signal` is the caller's own, if it gave one. */
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
  // What is thrown here, as by a function of the program, has a cause that is no break.
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

/** How the gRPC libraries refuse a message that is over a limit: this one, and that of a server. */
const TOO_LARGE =
  /^message size (\d+) is larger than configured (writeMaxBytes|readMaxBytes) (\d+)|(?:received|sent) message larger than max \((\d+) vs\. (\d+)\)/i;

/** The error of a message that one of both sides does not take; undefined: it is another one. */
function tooLargeOf(error: ConnectError): PawlError | undefined {
  const found = TOO_LARGE.exec(error.rawMessage);
  if (!found) {
    return undefined;
  }
  const [, own, bound, ownLimit, theirs, theirLimit] = found;
  const side = bound === undefined ? "sidecar" : bound === "readMaxBytes" ? "answer" : "request";
  return messageTooLarge(Number(own ?? theirs), Number(ownLimit ?? theirLimit), error, side);
}

/** What refuses a large message, and how to proceed. */
const ACCEPTED = {
  request:
    "this client sends at most LIMIT (maxMessageBytes); keep large content beside the run with putBlob",
  answer: "this client reads at most LIMIT; ask for less at once, as by a smaller pageSize",
  sidecar:
    "the sidecar takes at most LIMIT (serve --limits-message-bytes); keep large content beside the run with putBlob",
};

/** The error of a message that is not sent, or not read, because it is too large; sizes in bytes. */
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
