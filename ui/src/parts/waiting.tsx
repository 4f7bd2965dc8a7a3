import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { get, runPath } from "../api/client";
import type { Run, Waiting } from "../api/types";
import { isTerminal } from "./format";

/** Workers and limits change without a record that this page could follow, so it reads the run again. */
const EVERY_MS = 2_000;

/** Returns what a run waits for, as the sidecar says it; undefined: for nothing, or it is not read yet. */
export function useWaiting(run: Run): Waiting | undefined {
  const over = isTerminal(run.status);
  const request = useQuery({
    queryKey: ["waiting", run.runId],
    queryFn: ({ signal }) => get<{ run: Run }>(runPath(run.runId), {}, signal),
    refetchInterval: EVERY_MS,
    staleTime: 0,
    enabled: !over,
  });
  const read = request.data?.run;
  // The answer for an earlier record would name what the run does not wait for any more.
  return over || read === undefined || Number(read.seq) < Number(run.seq)
    ? undefined
    : read.waiting;
}

/** Reports whether a run waits because no worker has its turn or its step. */
export function isUnserved(waiting: Waiting | undefined): boolean {
  return waiting?.kind === "WAITING_KIND_NO_WORKER";
}

/** Shows the sentence about what a run waits for, and advice after it. */
export function WaitingNotice({ waiting, children }: { waiting?: Waiting; children?: ReactNode }) {
  return waiting === undefined ? null : (
    <section className="waits" aria-label="Waits">
      {waiting.sentence}
      {children}
    </section>
  );
}
