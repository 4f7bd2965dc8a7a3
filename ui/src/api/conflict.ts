/** The records by which others moved a run while this caller was about to. */

import { entryOf, get, kindsOf, runPath } from "./client";
import type { Problem } from "./problem";
import type { Entry, WireRecord } from "./types";

/** Refusals that say that the run is no longer where the caller saw it. */
const CONFLICT_REASONS = new Set([
  "SEQ_MISMATCH",
  "TURN_TOKEN_REQUIRED",
  "TURN_LEASED",
  "RUN_TERMINAL",
  "EVENT_NOT_ALLOWED",
]);

export const isConflict = (problem: Problem): boolean =>
  CONFLICT_REASONS.has(problem.reason) || problem.status === 409;

/** The records that moved the run behind `seen`: the one that won, and the end if it came. */
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
