import { useQuery } from "@tanstack/react-query";
import { conflictsSince, isConflict } from "../api/conflict";
import type { Problem } from "../api/problem";
import type { Entry, Run } from "../api/types";
import { timeOf, when } from "./format";

/**
 * Whether a run was moved since it was seen: known from the run as it is followed, or from
 * the refusal of what was sent.
 */
export function useConflicts(run: Run, seen: string, problem: Problem | undefined, busy: boolean) {
  const expired = problem !== undefined && isConflict(problem);
  // While an answer is under way the run may move because of it.
  const moved = (run.visitSeq !== seen && !busy) || expired;
  const request = useQuery({
    queryKey: ["winners", run.runId, seen, run.visitSeq, problem?.reason],
    queryFn: ({ signal }) => conflictsSince(run.runId, Number(seen), problem, signal),
    enabled: moved,
  });
  return { moved, late: expired, known: request.data !== undefined, entries: request.data ?? [] };
}

/** Shows the first decision: what, by which principal, when, and where the run is now. */
export function ConflictNotice({ entries, run }: { entries: readonly Entry[]; run: Run }) {
  const first = entries[0];
  return (
    <div className="notice decided" role="alert">
      <p className="notice-title">Somebody else was first</p>
      {first ? (
        <p>
          <b>{first.body.event || first.body.reason || "The run was moved"}</b>
          {first.body.toState ? ` to ${first.body.toState}` : ""}, by{" "}
          <b>{first.principal || "somebody"}</b>, {when(first.at).slice(0, 10)} {timeOf(first.at)}.
        </p>
      ) : (
        <p>The run is moved by somebody else at this moment.</p>
      )}
      <p className="muted">
        It is now in <b>{run.state}</b>. What you typed is kept.
      </p>
    </div>
  );
}
