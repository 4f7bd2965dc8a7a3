import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Link } from "wouter";
import { causeOf } from "../api/cause";
import type { Connection } from "../api/follow";
import type { Run } from "../api/types";
import { Badge } from "./badge";
import { LinkState } from "./connection_state";
import { CopyButton } from "./copy_button";
import { isTerminal, statusOf, when } from "./format";
import { RenderedParts } from "./rendered";
import { RunId } from "./run_id";
import { textOfParts } from "./value";

/** Describes the executor of the turns, by the run's execution. */
const EXECUTORS: Record<string, string> = {
  EXECUTION_WORKERS: "executed by workers",
  EXECUTION_SIDECAR: "executed by the sidecar",
};

interface Props {
  run: Run;
  link: Connection;
  /** True: no worker has the open turn or step. */
  unserved: boolean;
  children: ReactNode;
}

/** Shows a run's identity, its input and output, and the possible actions. */
export function RunHead({ run, link, unserved, children }: Props) {
  const labels = Object.entries(run.labels ?? {});
  return (
    <header className="run-head">
      <div className="run-title">
        <h1 className="mono">{run.runId}</h1>
        <CopyButton text={run.runId} what="id" />
        <Badge status={run.status} paused={run.paused} unserved={unserved} />
        {run.reason && run.reason !== "completed" ? (
          <span className="reason">{run.reason}</span>
        ) : null}
        <LinkState link={link} waitsFor={unserved} />
      </div>
      <p className="meta muted">
        <Link href={`/packs/${encodeURIComponent(run.pack.digest)}`}>
          {run.pack.id}@{run.pack.version}
        </Link>
        {run.agent ? <span>agent {run.agent}</span> : null}
        <span>{EXECUTORS[run.execution ?? ""] ?? "executed by its caller"}</span>
        <span>started {when(run.createdAt)}</span>
        {run.imported ? <span>imported, read only</span> : null}
        {run.task?.contextId ? (
          <span>
            context <span className="mono">{run.task.contextId}</span>
          </span>
        ) : null}
        {run.parent ? (
          <span>
            for{" "}
            <Link href={`/runs/${run.parent.runId}`}>
              <RunId id={run.parent.runId} />
            </Link>
          </span>
        ) : null}
        {labels.map(([key, value]) => (
          <Link
            key={key}
            className="label"
            href={`/?label=${encodeURIComponent(`${key}=${value}`)}`}
            title="All runs with this label"
          >
            {key}={value}
          </Link>
        ))}
      </p>
      <InAndOut run={run} />
      {children}
    </header>
  );
}

/** Number of characters that are shown of a closed text. */
const GIST = 180;

/** Shows the first input and the last output, one line of each until they are opened. */
function InAndOut({ run }: { run: Run }) {
  const over = isTerminal(run.status);
  const request = useQuery({
    // Inputs and outputs change with a turn; once per visit is often enough.
    queryKey: ["in-and-out", run.runId, over ? run.seq : run.visitSeq],
    queryFn: ({ signal }) => causeOf(run, signal),
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (!request.data) {
    return <div className="in-and-out" />;
  }
  const { input, output, variables: given } = request.data;
  const first = textOfParts(input?.body.parts);
  return (
    <div className="in-and-out">
      <Side name="Input" gist={first || (given === "{}" ? "" : given)}>
        <RenderedParts parts={input?.body.parts} label="Input" />
        {given === "{}" ? null : <RenderedParts parts={[{ json: given }]} label="Variables" />}
      </Side>
      <Side
        name={statusOf(run.status) === "COMPLETED" ? "Final output" : "Last output"}
        gist={textOfParts(output?.body.output)}
      >
        <RenderedParts parts={output?.body.output} label="Output" />
      </Side>
    </div>
  );
}

function Side({ name, gist, children }: { name: string; gist: string; children: ReactNode }) {
  if (gist === "") {
    return (
      <p className="side muted">
        <b>{name}</b> none
      </p>
    );
  }
  return (
    <details className="side">
      <summary>
        <b>{name}</b> <span className="gist">{gist.slice(0, GIST)}</span>
      </summary>
      <div className="side-body">{children}</div>
    </details>
  );
}
