/** Finds a record from which a run can be forked. */

import { get, runPath } from "./client";
import type { Run } from "./types";

/** Whether the run, at a record, had neither ended nor begun to compensate its effects. */
type Goes = (seq: number) => Promise<boolean>;

/**
 * Returns the seq of the newest record at or before `from` from which a fork can continue; 0: none.
 * A commit may contain several records, and the run at each of them is as it was after the commit.
 */
export const forkable = (id: string, from: number, signal: AbortSignal): Promise<number> =>
  newest(from, async (atSeq) => {
    const { run } = await get<{ run: Run }>(runPath(id), { atSeq }, signal);
    return ["RUN_STATUS_RUNNING", "RUN_STATUS_WAITING"].includes(run.status) && !run.compensating;
  });

/**
 * A run that cannot continue never can later, so this searches back in growing steps, then by
 * halves.
 */
export async function newest(from: number, goes: Goes): Promise<number> {
  let bad = from + 1;
  let good = from;
  for (let stride = 1; good >= 1 && !(await goes(good)); stride *= 2) {
    bad = good;
    good = Math.max(0, good - stride);
  }
  while (bad - good > 1) {
    const middle = Math.floor((good + bad) / 2);
    if (await goes(middle)) {
      good = middle;
    } else {
      bad = middle;
    }
  }
  return good;
}
