import { useQuery } from "@tanstack/react-query";
import { get } from "../api/client";
import type { Run, WorkerList } from "../api/types";
import { number, statusOf } from "./format";

/** Workers change without a record that this page could follow, so it reads them again. */
const EVERY_MS = 2_000;

/**
 * Returns what a run waits for if no connected worker serves its open turn; empty: it does not
 * wait.
 */
export function useMissingWorker(run: Run): string {
  const request = useQuery({
    queryKey: ["unserved", run.runId],
    queryFn: ({ signal }) => unserved(run, signal),
    refetchInterval: EVERY_MS,
    staleTime: 0,
    enabled:
      statusOf(run.status) === "RUNNING" && run.execution !== "EXECUTION_CALLER" && !run.paused,
  });
  return request.data === undefined || statusOf(run.status) !== "RUNNING" || run.paused
    ? ""
    : words(run, request.data);
}

/** Returns the number of connected workers if none serves the run's turn; -1: one does. */
async function unserved(run: Run, signal: AbortSignal): Promise<number> {
  const query = { "filter.unserved": true, "filter.runIdPrefix": run.runId, pageSize: 1 };
  const [list, workers] = await Promise.all([
    get<{ runs?: Run[] }>("/v1/runs", query, signal),
    get<WorkerList>("/v1/workers", {}, signal),
  ]);
  return list.runs?.length ? (workers.totalWorkers ?? 0) : -1;
}

function words(run: Run, connected: number): string {
  if (connected < 0) {
    return "";
  }
  const source =
    connected === 0 ? "none is connected" : `${number(connected)} connected, none does`;
  return `Waiting for a worker that serves ${run.pack.id}@${run.pack.version}/${run.state} (${source})`;
}
