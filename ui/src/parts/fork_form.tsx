import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useLocation } from "wouter";
import { get, post, runPath } from "../api/client";
import { forkable } from "../api/forkable";
import { asProblem, type Problem } from "../api/problem";
import type { Artifact, Run } from "../api/types";
import { Dialog } from "./dialog";
import { Failure, Loading } from "./notices";
import { SendRow } from "./send_row";
import { textOfValue } from "./value";

interface Props {
  run: Run;
  /** Seq of the record at which the fork begins. */
  seq: number;
  onClose: () => void;
}

/** A record at which a fork can begin, with its artifacts. */
interface Start {
  /** 0: no record is possible. */
  seq: number;
  artifacts: readonly Artifact[];
}

async function startOf(run: Run, from: number, signal: AbortSignal): Promise<Start> {
  const seq = await forkable(run.runId, from, signal);
  if (seq === 0) {
    return { seq, artifacts: [] };
  }
  const query = { atSeq: seq, includeArtifacts: true };
  const { artifacts = [] } = await get<Partial<Start>>(runPath(run.runId), query, signal);
  return { seq, artifacts };
}

/**
 * Starts a fork of this run with changed values. It begins at the selected record; if the run had
 * ended by then, at the newest record before the end.
 */
export function ForkForm({ run, seq, onClose }: Props) {
  const request = useQuery({
    queryKey: ["fork", run.runId, seq],
    queryFn: ({ signal }) => startOf(run, seq, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (request.data && request.data.seq > 0) {
    return <Opened run={run} requests={seq} {...request.data} onClose={onClose} />;
  }
  return (
    <Dialog title="Fork" onClose={onClose}>
      {request.data ? <p>The run ended as it began: there is no record to fork it from.</p> : null}
      {request.error ? <Failure problem={asProblem(request.error)} /> : null}
      {request.isPending ? <Loading what="Looking for a record to fork from" /> : null}
    </Dialog>
  );
}

interface OpenedProps extends Start {
  run: Run;
  /** Seq of the selected record. */
  requests: number;
  onClose: () => void;
}

function Opened({ run, requests: request, seq, artifacts, onClose }: OpenedProps) {
  const [, go] = useLocation();
  const [pack, setPack] = useState("");
  const [variablesJson, setVariables] = useState("");
  const [changed, setChanged] = useState<Record<string, string>>({});
  const [requestId] = useState(() => crypto.randomUUID());
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const send = async () => {
    setBusy(true);
    setProblem(undefined);
    const body = {
      atSeq: seq,
      pack,
      variablesJson,
      requestId,
      artifacts: writes(artifacts, changed),
    };
    try {
      const forked = await post<{ run: Run }>(`${runPath(run.runId)}:fork`, body);
      go(`/runs/${forked.run.runId}`);
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Fork from record ${seq}`} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send();
        }}
      >
        <ForkSummary requests={request} seq={seq} />
        <label className="field">
          <span>
            Pack <span className="muted">id@version; empty: the same</span>
          </span>
          <input
            value={pack}
            placeholder={`${run.pack.id}@${run.pack.version}`}
            onChange={(e) => setPack(e.target.value)}
          />
        </label>
        <VariablesField text={variablesJson} onText={setVariables} />
        <Changes artifacts={artifacts} changed={changed} onChange={setChanged} />
        <SendRow busy={busy} problem={problem} verb="Fork" onClose={onClose} />
      </form>
    </Dialog>
  );
}

/** Shows where the fork begins, and what happens to both runs. */
function ForkSummary({ requests: request, seq }: { requests: number; seq: number }) {
  return (
    <>
      {seq < request ? (
        <p className="fork-earlier">
          The run had ended at record {request}; record {seq} is the newest one from which it can go
          on.
        </p>
      ) : null}
      <p>
        A new run goes on from there with the same visits, artifacts and conversation. This one
        stays as it is.
      </p>
    </>
  );
}

function VariablesField({ text, onText }: { text: string; onText: (text: string) => void }) {
  return (
    <label className="field">
      <span>
        Variables <span className="muted">JSON, set over those of the run</span>
      </span>
      <textarea
        rows={2}
        className="mono"
        placeholder="{}"
        value={text}
        onChange={(e) => onText(e.target.value)}
      />
    </label>
  );
}

interface ChangesProps {
  artifacts: readonly Artifact[];
  /** Changed values by name. */
  changed: Record<string, string>;
  onChange: (changed: Record<string, string>) => void;
}

function Changes({ artifacts, changed, onChange }: ChangesProps) {
  const rest = artifacts.filter(
    (a) => changed[a.head.name] === undefined && a.value?.data === undefined,
  );
  return (
    <>
      {Object.entries(changed).map(([name, value]) => (
        <label className="field" key={name}>
          Artifact {name}
          <textarea
            rows={4}
            className="mono"
            value={value}
            onChange={(e) => onChange({ ...changed, [name]: e.target.value })}
          />
        </label>
      ))}
      {rest.length > 0 ? (
        <label className="field">
          Change an artifact
          <select
            value=""
            onChange={(e) => {
              const artifact = rest.find((a) => a.head.name === e.target.value);
              onChange({ ...changed, [e.target.value]: textOfValue(artifact?.value) });
            }}
          >
            <option value="">choose one</option>
            {rest.map((a) => (
              <option key={a.head.name}>{a.head.name}</option>
            ))}
          </select>
        </label>
      ) : null}
    </>
  );
}

function writes(artifacts: readonly Artifact[], changed: Record<string, string>) {
  return Object.entries(changed).map(([name, value]) => {
    const json = artifacts.find((a) => a.head.name === name)?.value?.json !== undefined;
    return { name, value: json ? { json: value } : { text: value } };
  });
}
