/** Finds the records by which other callers moved a run before this caller's request. */

import { entryOf, get, kindsOf, runPath } from "./client";
import type { Problem } from "./problem";
import type { Entry, WireRecord } from "./types";

/** Reasons that say that the run is no longer in the state that the caller saw. */
const CONFLICT_REASONS = new Set([
  "SEQ_MISMATCH",
  "TURN_TOKEN_REQUIRED",
  "TURN_LEASED",
  "RUN_TERMINAL",
  "EVENT_NOT_ALLOWED",
]);

export const isConflict = (problem: Problem): boolean =>
  CONFLICT_REASONS.has(problem.reason) || problem.status === 409;

/**
 * Returns the records that moved the run after `seen`: the first one, and the end if there is one.
 */
export async function conflictsSince(
  id: string,
  seen: number,
  problem: Problem | undefined,
  signal: AbortSignal,
): Promise<Entry[]> {
  const query = { kinds: kindsOf("transition", "ended"), afterSeq: seen, pageSize: 100 };
  const page = await get<{ records?: WireRecord[] }>(`${runPath(id)}/transitions`, query, signal);
  const moved = (page.records ?? []).map(entryOf);
  const winning = problem?.details.find((d) => d["@type"]?.endsWith("pawl.v1.Record"));
  return moved.length === 0 && winning ? [entryOf(winning as unknown as WireRecord)] : moved;
}
