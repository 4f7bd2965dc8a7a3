/** Who moved a run while somebody else was about to. */

import { entryOf, get, kindsOf, runPath } from "./client";
import type { Problem } from "./problem";
import type { Entry, WireRecord } from "./types";

/** Refusals that say that the run is no longer where the caller saw it. */
const LATE = new Set([
  "SEQ_MISMATCH",
  "TURN_TOKEN_REQUIRED",
  "TURN_LEASED",
  "RUN_TERMINAL",
  "EVENT_NOT_ALLOWED",
]);

export const isLate = (problem: Problem): boolean =>
  LATE.has(problem.reason) || problem.status === 409;

/** The records that moved the run behind `seen`: the one that won, and the end if it came. */
export async function winnersSince(
  id: string,
  seen: number,
  problem: Problem | undefined,
  signal: AbortSignal,
): Promise<Entry[]> {
  const query = { kinds: kindsOf("transition", "ended"), afterSeq: seen, pageSize: 100 };
  const page = await get<{ records?: WireRecord[] }>(`${runPath(id)}/transitions`, query, signal);
  const moved = (page.records ?? []).map(entryOf);
  const told = problem?.details.find((d) => d["@type"]?.endsWith("pawl.v1.Record"));
  return moved.length === 0 && told ? [entryOf(told as unknown as WireRecord)] : moved;
}
