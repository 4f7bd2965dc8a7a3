import { useQuery } from "@tanstack/react-query";
import { get, runPath } from "../api/client";
import type { LimitWait, Run } from "../api/types";
import { span } from "./format";

/** A call that waits for a limit has no record yet, so the page reads the waits again. */
const EVERY_MS = 2_000;

/** Shows the calls of a run that wait for the operator's limits, and the limits. */
export function RateLimitWaits({ run, over }: { run: Run; over: boolean }) {
  const request = useQuery({
    queryKey: ["waits", run.runId],
    queryFn: ({ signal }) => get<{ run: Run }>(runPath(run.runId), {}, signal),
    refetchInterval: EVERY_MS,
    staleTime: 0,
    enabled: !over,
  });
  const waiting = over ? [] : (request.data?.run.waitingFor ?? []);
  if (waiting.length === 0) {
    return null;
  }
  return (
    <section className="waits" aria-label="Waits for limits">
      <ul>
        {waiting.map((w) => (
          <li key={`${w.model ?? ""} ${w.step ?? ""}`}>{waitWords(w)}</li>
        ))}
      </ul>
    </section>
  );
}

function waitWords(w: LimitWait): string {
  const what = w.model ? `A call of ${w.model}` : `${w.tool} #${w.step}`;
  const limits = (w.limits ?? []).map((l) => `${l.limit} (${l.key})`).join(", ");
  const ahead = w.ahead ? `, ${w.ahead} before it` : "";
  return `${what} waits for the operator's limit ${limits} since ${span(Number.parseFloat(w.waited ?? "0") * 1000)}${ahead}`;
}
