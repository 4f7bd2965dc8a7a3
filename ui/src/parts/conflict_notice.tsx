import { useQuery } from "@tanstack/react-query";
import { conflictsSince, isConflict } from "../api/conflict";
import type { Problem } from "../api/problem";
import type { Entry, Run } from "../api/types";
import { timeOf, when } from "./format";

/**
 * Returns whether a run was moved since the caller saw it, from the followed run or from the
 * refusal of a request.
 */
export function useConflicts(run: Run, seen: string, problem: Problem | undefined, busy: boolean) {
  const expired = problem !== undefined && isConflict(problem);
  // While an answer is being sent, that answer may move the run.
  const moved = (run.visitSeq !== seen && !busy) || expired;
  const request = useQuery({
    queryKey: ["winners", run.runId, seen, run.visitSeq, problem?.reason],
    queryFn: ({ signal }) => conflictsSince(run.runId, Number(seen), problem, signal),
    enabled: moved,
  });
  return { moved, late: expired, known: request.data !== undefined, entries: request.data ?? [] };
}

/** Shows the first decision: the event, the principal, the time, and the run's current state. */
export function ConflictNotice({ entries, run }: { entries: readonly Entry[]; run: Run }) {
  const first = entries[0];
  return (
    <div className="notice decided" role="alert">
      <p className="notice-title">The run has changed</p>
      {first ? (
        <p>
          <b>{first.body.event || first.body.reason || "The run was changed"}</b>
          {first.body.toState ? ` to ${first.body.toState}` : ""}, by{" "}
          <b>{first.principal || "another caller"}</b>, {when(first.at).slice(0, 10)}{" "}
          {timeOf(first.at)}.
        </p>
      ) : (
        <p>Another caller is changing the run now.</p>
      )}
      <p className="muted">
        It is now in <b>{run.state}</b>. Your input is kept.
      </p>
    </div>
  );
}
