/**
 * What to do with an error, by the table of docs/reference/errors.md, "What to do with an error". A
 * test compares the two; the Python client has the same table.
 */

import type { PawlError } from "./errors.js";

/**
 * - repeat: make the same call with the same id, a little later
 * - reconnect: make it over a new stream
 * - give up: the same call would fail again
 */
export type Advice = "repeat" | "reconnect" | "give up";

/**
 * A row: the code, its reasons, and what to do. "any": with every reason and without one; "none":
 * without a reason, as the gRPC library and proxies report a broken stream; "waits": with every
 * reason, if the server says how long to wait.
 */
export type AdviceRow = readonly [
  code: string,
  reasons: readonly string[] | "any" | "none" | "waits",
  advice: Advice,
];

/** The rows; the first one that matches counts. */
export const ADVICE: readonly AdviceRow[] = [
  ["ABORTED", ["WORKER_REPLACED", "CONSUMER_REPLACED"], "give up"],
  ["ABORTED", ["PACK_CONTENDED", "UPLOAD_CONTENDED", "SUBSCRIPTION_CONTENDED"], "repeat"],
  ["PERMISSION_DENIED", ["TURN_TOKEN_STALE"], "give up"],
  ["UNAUTHENTICATED", ["TOKEN_EXPIRED"], "repeat"],
  ["UNIMPLEMENTED", ["OPERATION_UNKNOWN"], "repeat"],
  ["UNAVAILABLE", "any", "reconnect"],
  ["DEADLINE_EXCEEDED", "any", "repeat"],
  ["CANCELLED", "any", "reconnect"],
  ["UNKNOWN", "none", "reconnect"],
  ["INTERNAL", "none", "reconnect"],
  ["RESOURCE_EXHAUSTED", "waits", "repeat"],
  ["any", "any", "give up"],
];

/**
 * Returns what to do with an error that a server or the gRPC library reported. An error of this
 * package, for example the caller's own cancellation, has no code: "give up".
 */
export function adviceOf(error: PawlError): Advice {
  const row = ADVICE.find(([code, reasons]) => {
    return (code === "any" || code === error.code) && fits(error, reasons);
  });
  return row?.[2] ?? "give up";
}

function fits({ reason, retryAfterMs }: PawlError, reasons: AdviceRow[1]): boolean {
  switch (reasons) {
    case "any":
      return true;
    case "none":
      return reason === "";
    case "waits":
      return retryAfterMs !== undefined;
    default:
      return reasons.includes(reason);
  }
}

/**
 * Whether a repetition of the same request with the same id may succeed a little later.
 * `renewsToken`: the repetition may have another token.
 */
export function repeatable(error: PawlError, renewsToken = false): boolean {
  return adviceOf(error) !== "give up" && (error.kind !== "authentication" || renewsToken);
}
