import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "wouter";
import { get } from "../api/client";
import { asProblem } from "../api/problem";
import type { Approval } from "../api/types";
import type { ApprovalList } from "../parts/approval_list";
import { useMay } from "../parts/caller";
import { DecideForm } from "../parts/decide_form";
import { ago, pretty, when } from "../parts/format";
import { Empty, Failure, Loading } from "../parts/notices";
import { RenderedValue } from "../parts/rendered";
import { RunId } from "../parts/run_id";
import { useNow } from "../parts/use_now";
import { useTitle } from "../parts/use_title";
import { Text } from "../parts/value";

/** Approvals change without a record that this page follows, so it reads them again. */
const EVERY_MS = 2_000;

const keyOf = (a: Approval): string => `${a.runId} ${a.call?.step ?? ""}`;

/** Shows all open decisions: held calls, and runs that an outside event moves. */
export function ApprovalsPage() {
  useTitle("Approvals");
  const [open, setOpen] = useState<Approval>();
  const request = useQuery({
    queryKey: ["approvals"],
    queryFn: ({ signal }) => get<ApprovalList>("/v1/approvals", { pageSize: 200 }, signal),
    refetchInterval: EVERY_MS,
    staleTime: 0,
  });
  const approvals = request.data?.approvals ?? [];
  return (
    <main id="main">
      <div className="page-head">
        <h1>Approvals</h1>
        <span className="muted" role="status">
          {request.data
            ? `${approvals.length}${request.data.nextPageToken ? "+" : ""} waiting`
            : ""}
        </span>
      </div>
      {request.error ? (
        <Failure problem={asProblem(request.error)} onRetry={() => void request.refetch()} />
      ) : null}
      {request.isPending ? <Loading what="Loading the approvals" /> : null}
      {request.data && approvals.length === 0 ? (
        <Empty title="No approvals">
          This page lists held tool calls and runs that wait for an event from outside.
        </Empty>
      ) : null}
      {approvals.map((a) => (
        <Waiting key={keyOf(a)} approval={a} onDecide={() => setOpen(a)} />
      ))}
      {open ? (
        <DecideForm
          approval={open}
          waiting={approvals.some((a) => keyOf(a) === keyOf(open))}
          onClose={() => {
            setOpen(undefined);
            void request.refetch();
          }}
        />
      ) : null}
    </main>
  );
}

function Waiting({ approval: a, onDecide }: { approval: Approval; onDecide: () => void }) {
  const may = useMay();
  const now = useNow(1_000);
  const what = a.call ? `${a.call.tool} #${a.call.step}` : `an event in ${a.state}`;
  return (
    <section className="card" aria-label={`${what} of ${a.runId}`}>
      <h2>
        {what}{" "}
        <span className="muted" title={when(a.since)}>
          {a.packId}@{a.packVersion}, in {a.state}, waits since {ago(a.since, now)}
        </span>
      </h2>
      <p>
        Run <RunId id={a.runId} />
        {a.starter ? `, started by ${a.starter}` : ""}
      </p>
      {a.call ? <Text text={pretty(a.call.payloadJson)} label="Arguments" /> : <Event of={a} />}
      {a.call && may("steps:approve") ? (
        <button type="button" className="button primary" onClick={onDecide}>
          Decide
        </button>
      ) : null}
      {a.call ? null : (
        <Link href={`/runs/${a.runId}`} className="button primary">
          Decide on the page of the run
        </Link>
      )}
    </section>
  );
}

/** Shows the event of a waiting run, and the state to which each answer leads. */
function Event({ of: a }: { of: Approval }) {
  return (
    <>
      {(a.artifacts ?? []).map((artifact) => (
        <div key={artifact.head.name}>
          <h3>{artifact.head.name}</h3>
          <RenderedValue value={artifact.value} label={artifact.head.name} />
        </div>
      ))}
      {a.artifactsOmitted ? (
        <p className="muted">The artifacts are large. The page of the run shows them.</p>
      ) : null}
      <ul>
        {(a.events ?? []).map((e) => (
          <li key={e.event}>
            <b>{e.event}</b>{" "}
            <span className="muted">
              leads to {e.toState}
              {e.terminal ? ", the last state" : ""}
              {e.description ? `: ${e.description}` : ""}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
