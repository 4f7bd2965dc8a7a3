import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { get } from "../api/client";
import { asProblem } from "../api/problem";
import type {
  ConnectedWorker,
  HeldWork,
  ReadyWork,
  Run,
  WorkCounts,
  WorkerList,
  WorkFailure,
} from "../api/types";
import { ago, number, when } from "../parts/format";
import { Empty, Failure, Loading } from "../parts/notices";
import { RunId } from "../parts/run_id";
import { useNow } from "../parts/use_now";
import { useTitle } from "../parts/use_title";

/** Work changes without a record that this page could follow, so it reads it again. */
const EVERY_MS = 2_000;

/** Most runs that are listed one by one. */
const NAMED = 50;

/** Shows the connected workers, their leases, the queues, and the work without a worker. */
export function WorkersPage() {
  useTitle("Workers");
  const now = useNow(1_000);
  const request = useQuery({
    queryKey: ["workers"],
    queryFn: ({ signal }) => get<WorkerList>("/v1/workers", {}, signal),
    refetchInterval: EVERY_MS,
    staleTime: 0,
  });
  const unserved = useQuery({
    queryKey: ["unserved"],
    queryFn: ({ signal }) =>
      get<{ runs?: Run[]; nextPageToken?: string }>(
        "/v1/runs",
        { "filter.unserved": true, pageSize: NAMED },
        signal,
      ),
    refetchInterval: EVERY_MS,
    staleTime: 0,
  });
  const { workers = [], ready = [], totalWorkers = 0 } = request.data ?? {};
  return (
    <main id="main" className="workers-page">
      <div className="page-head">
        <h1>Workers</h1>
        <span className="muted" role="status">
          {request.data ? `${number(totalWorkers)} connected` : ""}
        </span>
      </div>
      {request.error ? (
        <Failure problem={asProblem(request.error)} onRetry={() => void request.refetch()} />
      ) : null}
      {request.isPending ? <Loading what="Loading the workers" /> : null}
      {request.data ? <Connected workers={workers} now={now} /> : null}
      <div className="pair">
        <section className="card" aria-label="Ready work">
          <h2>Ready work</h2>
          <Queues ready={ready} />
        </section>
        <section className="card" aria-label="Waiting runs">
          <h2>Runs that no worker serves</h2>
          {unserved.error ? <Failure problem={asProblem(unserved.error)} /> : null}
          <Unserved
            runs={unserved.data?.runs ?? []}
            more={(unserved.data?.nextPageToken ?? "") !== ""}
            now={now}
          />
        </section>
      </div>
    </main>
  );
}

function Connected({ workers, now }: { workers: readonly ConnectedWorker[]; now: number }) {
  return (
    <section className="card" aria-label="Connected workers">
      {workers.length === 0 ? (
        <Empty title="No worker is connected">
          A worker is a program of yours that executes turns or tool calls, in Python, TypeScript or
          Go.
        </Empty>
      ) : (
        <ul className="worker-list">
          {workers.map((w) => (
            <Worker key={`${w.principal} ${w.workerId}`} worker={w} now={now} />
          ))}
        </ul>
      )}
    </section>
  );
}

function Worker({ worker: w, now }: { worker: ConnectedWorker; now: number }) {
  const held = [...(w.turns ?? []), ...(w.steps ?? [])];
  return (
    <li>
      <div className="worker-head">
        <h2 className="mono">{w.workerId}</h2>
        {w.failingMoreThanPeers ? (
          <span className="badge failed">Fails more than its peers</span>
        ) : null}
        {w.draining ? <span className="badge waiting">Draining</span> : null}
        <span className="muted">{[w.client, w.principal].filter(Boolean).join(", as ")}</span>
        <span className="muted worker-seen" title={when(w.seenAt)}>
          last request {ago(w.seenAt, now)}
        </span>
      </div>
      <dl className="facts">
        <Serves name="Packs" of={w.packs} none="every pack" />
        <Serves name="Prompts" of={w.prompts} none="none" />
        {w.agents?.length ? <Serves name="Agents" of={w.agents} none="none" /> : null}
        <Serves name="Tools" of={w.tools} none="none" />
        <div>
          <dt>Connected</dt>
          <dd>{when(w.connectedAt)}</dd>
        </div>
        <div>
          <dt>Holds</dt>
          <dd>
            {number(w.heldTurns ?? 0)} of {number(w.turnCapacity ?? 0)} turns,{" "}
            {number(w.heldSteps ?? 0)} of {number(w.stepCapacity ?? 0)} steps
          </dd>
        </div>
        <Ended name="Turns" counts={w.turnCounts} />
        <Ended name="Steps" counts={w.stepCounts} />
      </dl>
      {w.lastFailure ? <LastFailure of={w.lastFailure} now={now} /> : null}
      {held.length > 0 ? (
        <details>
          <summary>Held turns and steps</summary>
          <ul className="held">
            {held.map((work) => (
              <Leases key={`${work.runId} ${work.turnSeq} ${work.step}`} work={work} now={now} />
            ))}
          </ul>
        </details>
      ) : null}
    </li>
  );
}

/** How many turns or steps the worker received since it connected, and how many it failed or lost. */
function Ended({ name, counts }: { name: string; counts: WorkCounts | undefined }) {
  const taken = Number(counts?.taken ?? 0);
  const failed = Number(counts?.failed ?? 0);
  const lost = Number(counts?.lost ?? 0);
  if (taken === 0) {
    return null;
  }
  return (
    <div>
      <dt>{name}</dt>
      <dd>
        {number(taken)} received
        {failed > 0 ? <span className="bad">, {number(failed)} failed</span> : null}
        {lost > 0 ? <span className="bad">, {number(lost)} lost</span> : null}
      </dd>
    </div>
  );
}

function LastFailure({ of, now }: { of: WorkFailure; now: number }) {
  const what = of.tool
    ? `tool ${of.tool}`
    : of.agent
      ? `agent ${of.agent}`
      : `prompt ${of.prompt ?? ""}`;
  const error = [of.error?.code, of.error?.message].filter(Boolean).join(": ");
  return (
    <p className="worker-failure">
      Last {of.lost ? "lost" : "failed"} {ago(of.at, now)}: {what} in{" "}
      <Link href={`/runs/${of.runId}`}>
        <RunId id={of.runId} />
      </Link>
      {error ? <span className="bad">, {error}</span> : null}
    </p>
  );
}

function Serves({ name, of, none }: { name: string; of: string[] | undefined; none: string }) {
  const all = of?.includes("*");
  return (
    <div>
      <dt>{name}</dt>
      <dd>{all ? "all" : of?.length ? of.join(", ") : <span className="muted">{none}</span>}</dd>
    </div>
  );
}

function Leases({ work, now }: { work: HeldWork; now: number }) {
  return (
    <li>
      <Link href={`/runs/${work.runId}${work.turnSeq ? `?seq=${work.turnSeq}` : ""}`}>
        <RunId id={work.runId} />
      </Link>{" "}
      {work.step ? `${work.tool} #${work.step}` : `turn #${work.turnSeq}`}
      <span className="muted">
        {(work.attempt ?? 1) > 1 ? `, attempt ${work.attempt}` : ""}
        {work.since ? `, since ${ago(work.since, now)}` : ""}
      </span>
    </li>
  );
}

const nameOf = (r: ReadyWork): string =>
  r.tool ? `tool ${r.tool}` : r.agent ? `agent ${r.agent}` : `prompt ${r.prompt}`;

function Queues({ ready }: { ready: readonly ReadyWork[] }) {
  if (ready.length === 0) {
    return <p className="muted">No work waits for a connected worker.</p>;
  }
  return (
    <Table
      heads={["Pack", "Work", "Waiting", "Workers"]}
      rows={ready.map((r) => [
        `${r.pack?.id}@${r.pack?.version}`,
        nameOf(r),
        number(r.count ?? 0),
        r.workers ? (
          number(r.workers)
        ) : (
          <span className="bad" key="none">
            none serves it
          </span>
        ),
      ])}
    />
  );
}

function Table({ heads, rows }: { heads: string[]; rows: ReactNode[][] }) {
  return (
    <div className="scrolls">
      <table>
        <thead>
          <tr>
            {heads.map((head) => (
              <th key={head} scope="col">
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((cells, i) => (
            <tr key={i}>
              {cells.map((cell, n) => (
                <td key={heads[n]}>{cell}</td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Unserved({ runs, more, now }: { runs: readonly Run[]; more: boolean; now: number }) {
  if (runs.length === 0) {
    return <p className="muted">None. A connected worker serves every ready run.</p>;
  }
  return (
    <>
      <Table
        heads={["Run", "Pack", "State", "Changed"]}
        rows={runs.map((run) => [
          <Link key="run" href={`/runs/${run.runId}`}>
            <RunId id={run.runId} />
          </Link>,
          `${run.pack.id}@${run.pack.version}`,
          run.state,
          ago(run.updatedAt, now),
        ])}
      />
      {more ? <p className="muted">More follow.</p> : null}
    </>
  );
}
