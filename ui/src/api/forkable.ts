/** From which record a run can be forked. */

import { get, runPath } from "./client";
import type { Run } from "./types";

/** Whether the run had neither ended nor begun to undo its effects there. */
type Goes = (seq: number) => Promise<boolean>;

/**
 * The newest record at or before `from` from which a fork goes on; 0: there is none. A commit
 * may hold several records, and the run is at each of them as it is behind the commit.
 */
export const forkable = (id: string, from: number, signal: AbortSignal): Promise<number> =>
  newest(from, async (atSeq) => {
    const { run } = await get<{ run: Run }>(runPath(id), { atSeq }, signal);
    return ["RUN_STATUS_RUNNING", "RUN_STATUS_WAITING"].includes(run.status) && !run.compensating;
  });

/** A run that does not go on never does again: strides back, then halves. */
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
