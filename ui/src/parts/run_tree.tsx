import { useQuery } from "@tanstack/react-query";
import { Link } from "wouter";
import { entryOf, get, kindsOf, runPath } from "../api/client";
import { asProblem } from "../api/problem";
import type { Entry, Run, WireRecord } from "../api/types";
import { Badge } from "./badge";
import { Failure, Loading } from "./notices";

/** Greatest depth of runs; the sidecar refuses deeper ones. */
const DEPTH = 8;

/** Shows the run with its ancestors and descendants. */
export function RunTree({ run }: { run: Run }) {
  const above = useQuery({
    queryKey: ["ancestors", run.runId],
    queryFn: ({ signal }) => ancestors(run, signal),
  });
  if (above.error) {
    return <Failure problem={asProblem(above.error)} onRetry={() => void above.refetch()} />;
  }
  if (!above.data) {
    return <Loading what="Loading related runs" />;
  }
  return (
    <ul className="tree" aria-label="Runs that belong together">
      <Branch
        run={above.data[0] ?? run}
        here={run.runId}
        open={new Set([...above.data.map((r) => r.runId), run.runId])}
        depth={0}
      />
    </ul>
  );
}

async function ancestors(run: Run, signal: AbortSignal): Promise<Run[]> {
  const path: Run[] = [];
  let parent = run.parent?.runId;
  while (parent && path.length < DEPTH) {
    const got = await get<{ run: Run }>(runPath(parent), {}, signal);
    path.unshift(got.run);
    parent = got.run.parent?.runId;
  }
  return path;
}

interface BranchProps {
  run: Run;
  here: string;
  /** Runs whose children are shown. */
  open: Set<string>;
  depth: number;
}

function Branch({ run, here, open, depth }: BranchProps) {
  return (
    <li>
      <p className={run.runId === here ? "node here" : "node"}>
        {run.runId === here ? (
          <span className="mono" aria-current="true">
            {run.runId}
          </span>
        ) : (
          <Link className="mono" href={`/runs/${run.runId}`}>
            {run.runId}
          </Link>
        )}{" "}
        <span className="muted">
          {run.agent || run.pack.id}, {run.state}
        </span>{" "}
        <Badge status={run.status} paused={run.paused} />
      </p>
      {depth < DEPTH && (open.has(run.runId) || depth > 0) ? (
        <Children run={run} here={here} open={open} depth={depth} />
      ) : null}
    </li>
  );
}

function Children({ run, here, open, depth }: BranchProps) {
  const request = useQuery({
    queryKey: ["children", run.runId, run.seq],
    queryFn: ({ signal }) => below(run.runId, signal),
    placeholderData: (before) => before,
  });
  if (request.error) {
    return <Failure problem={asProblem(request.error)} />;
  }
  if (!request.data) {
    return <Loading what="Loading the delegations" />;
  }
  const { runs, calls, answers, news } = request.data;
  const remote = calls.filter((c) => !runs.some((r) => r.parent?.step === c.body.step));
  if (runs.length + remote.length === 0) {
    return depth === 0 && run.runId === here ? (
      <p className="muted leaf">The run has no delegations.</p>
    ) : null;
  }
  return (
    <ul>
      {runs.map((child) => (
        <Branch key={child.runId} run={child} here={here} open={open} depth={depth + 1} />
      ))}
      {remote.map((call) => (
        <Task
          key={call.seq}
          call={call}
          answer={answers.find((a) => a.body.step === call.body.step)}
          news={news.findLast((n) => n.body.step === call.body.step)}
        />
      ))}
    </ul>
  );
}

interface TaskProps {
  call: Entry;
  answer: Entry | undefined;
  /** The last notice about the task. */
  news: Entry | undefined;
}

/** Shows a delegation to a run of another sidecar. */
function Task({ call, answer, news }: TaskProps) {
  const { taskId, cardUrl } = news?.body.remote ?? {};
  const state =
    answer === undefined
      ? "pending"
      : answer.body.ok
        ? "answered"
        : `error: ${answer.body.error?.code ?? "unknown"}`;
  return (
    <li>
      <p className="node">
        <span className="remote">task of {call.body.tool}</span>{" "}
        <Link href={`/runs/${call.runId}?seq=${call.seq}`}>step {call.body.step}</Link>{" "}
        <span className="muted">
          its run is not in this sidecar, {state}
          {answer === undefined && news?.body.question?.length ? ", it asks something" : ""}
        </span>
        {/* Text of another system: shown, but not a link. */}
        {taskId ? <span className="mono muted">task {taskId}</span> : null}
        {cardUrl ? <span className="mono muted">at {cardUrl}</span> : null}
      </p>
    </li>
  );
}

interface Below {
  runs: Run[];
  calls: Entry[];
  answers: Entry[];
  news: Entry[];
}

async function below(runId: string, signal: AbortSignal): Promise<Below> {
  const listed = get<{ runs?: Run[] }>(
    "/v1/runs",
    { "filter.parentRunId": runId, order: "RUN_ORDER_OLDEST_FIRST", pageSize: 200 },
    signal,
  );
  const steps = await get<{ records?: WireRecord[] }>(
    `${runPath(runId)}/transitions`,
    { kinds: kindsOf("stepRequested", "stepResolved", "stepDelegated"), pageSize: 1000 },
    signal,
  );
  const entries = (steps.records ?? []).map(entryOf);
  return {
    runs: (await listed).runs ?? [],
    calls: entries.filter((e) => e.kind === "stepRequested" && e.body.delegation),
    answers: entries.filter((e) => e.kind === "stepResolved"),
    news: entries.filter((e) => e.kind === "stepDelegated"),
  };
}
