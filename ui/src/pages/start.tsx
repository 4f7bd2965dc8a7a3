import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link, useLocation, useSearchParams } from "wouter";
import { get, post } from "../api/client";
import { asProblem, type Problem } from "../api/problem";
import type { Pack, Run, WorkerList } from "../api/types";
import { useMay } from "../parts/caller";
import { Empty, Failure, Loading } from "../parts/notices";
import { useGraph, usePack } from "../parts/use_pack";
import { useTitle } from "../parts/use_title";
import { VariableField } from "../parts/variable_field";
import { faultsOf, givenOf, labelsOf, variablesOf } from "../parts/variables";

const refOf = (p: Pack): string => `${p.id}@${p.version}`;

/** Begins a run: which pack, from where, with what, and who is to execute it. */
export function StartPage() {
  useTitle("Start a run");
  const [params, setParams] = useSearchParams();
  const may = useMay();
  const packs = useQuery({
    queryKey: ["packs"],
    queryFn: ({ signal }) => get<{ packs?: Pack[] }>("/v1/packs", { pageSize: 1000 }, signal),
  });
  const runnable = (packs.data?.packs ?? []).filter((p) => p.entry || p.agents?.length);
  const asked = params.get("pack") ?? "";
  const chosen =
    runnable.find((p) => refOf(p) === asked || (p.id === asked && p.isDefault)) ??
    (asked === "" && runnable.length === 1 ? runnable[0] : undefined);
  return (
    <main id="main" className="start-page">
      <div className="page-head">
        <h1>Start a run</h1>
      </div>
      {packs.error ? (
        <Failure problem={asProblem(packs.error)} onRetry={() => void packs.refetch()} />
      ) : null}
      {packs.isPending ? <Loading what="Reading packs" /> : null}
      {may("runs:write") ? null : (
        <Empty title="Your token may not start runs">It needs the scope runs:write.</Empty>
      )}
      {packs.data && runnable.length === 0 ? (
        <Empty title="No pack can be run">
          <code>sidecar packs register my.pack.yaml</code>
        </Empty>
      ) : null}
      {runnable.length > 0 && may("runs:write") ? (
        <div className="card">
          <label className="field">
            Pack
            <select
              value={chosen ? refOf(chosen) : ""}
              onChange={(e) => setParams({ pack: e.target.value }, { replace: true })}
            >
              <option value="">choose one</option>
              {runnable.map((p) => (
                <option key={refOf(p)} value={refOf(p)}>
                  {refOf(p)}
                  {p.isDefault ? ", default" : ""}
                </option>
              ))}
            </select>
          </label>
          {chosen ? <StartForm key={refOf(chosen)} pack={chosen} /> : null}
        </div>
      ) : null}
    </main>
  );
}

/** Where a run begins: the workflow, a state of it, or an agent. */
type Entry = "" | `agent:${string}` | `state:${string}`;

function StartForm({ pack }: { pack: Pack }) {
  const may = useMay();
  const [, go] = useLocation();
  const [entry, setEntry] = useState<Entry>(() =>
    pack.entry ? "" : `agent:${pack.agents?.[0] ?? ""}`,
  );
  const agent = entry.startsWith("agent:") ? entry.slice(6) : "";
  const graph = useGraph(pack.digest, agent);
  const { document } = usePack(pack.digest);
  const variables = variablesOf(document, graph.data);
  const [texts, setTexts] = useState<Record<string, string>>({});
  const [input, setInput] = useState("");
  const [labelText, setLabels] = useState("");
  const [requestId, setRequestId] = useState<string>(() => crypto.randomUUID());
  const [execution, setExecution] = useState("EXECUTION_WORKERS");
  const [tried, setTried] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const { values, faults } = givenOf(variables, texts);
  const { labels, fault: labelFault } = labelsOf(labelText);
  const names = variables.map((v) => v.name);
  const refused = problem ? refusalOf(problem, names) : {};
  const faultOf = (name: string) => (tried && faults[name]) || refused[name] || undefined;
  const send = async () => {
    setTried(true);
    setProblem(undefined);
    if (Object.keys(faults).length > 0 || labelFault !== "") {
      return;
    }
    setBusy(true);
    try {
      const { run } = await post<{ run: Run }>("/v1/runs", {
        pack: refOf(pack),
        ...(agent ? { agent } : {}),
        ...(entry.startsWith("state:") ? { state: entry.slice(6) } : {}),
        variablesJson: JSON.stringify(values),
        input: input === "" ? [] : [{ text: input }],
        labels,
        requestId,
        execution,
      });
      go(`/runs/${run.runId}`);
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <form
      noValidate
      onSubmit={(e) => {
        e.preventDefault();
        void send();
      }}
    >
      <EntryField
        pack={pack}
        states={may("admin") ? (graph.data?.nodes ?? []).map((n) => n.name) : []}
        entry={entry}
        onEntry={setEntry}
        fault={refused.entry}
      />
      {variables.length > 0 ? <h2>Variables</h2> : null}
      {variables.map((v) => (
        <VariableField
          key={v.name}
          variable={v}
          text={texts[v.name] ?? ""}
          fault={faultOf(v.name)}
          onText={(text) => setTexts({ ...texts, [v.name]: text })}
        />
      ))}
      <h2>The run</h2>
      <label className="field">
        <span>
          Input <span className="muted">first message, optional</span>
        </span>
        <textarea rows={3} value={input} onChange={(e) => setInput(e.target.value)} />
      </label>
      <ExecutionField execution={execution} onExecution={setExecution} />
      <label className="field">
        <span>
          Labels <span className="muted">one key=value a line, to find it by</span>
        </span>
        <textarea
          rows={2}
          className="mono"
          value={labelText}
          placeholder="ticket=PAY-318"
          aria-invalid={labelFault !== ""}
          onChange={(e) => setLabels(e.target.value)}
        />
        <span className="field-problem">{(tried && labelFault) || refused.labels}</span>
      </label>
      <label className="field">
        <span>
          Request id{" "}
          <span className="muted">
            the same id begins no second run; your own key, if you have one
          </span>
        </span>
        <input
          className="mono"
          value={requestId}
          maxLength={128}
          onChange={(e) => setRequestId(e.target.value)}
        />
        <span className="field-problem">{refused.request_id}</span>
      </label>
      {problem && refused[""] ? (
        <p className="field-problem" role="alert">
          {refused[""]}
        </p>
      ) : null}
      <div className="dialog-foot">
        <Link href="/" className="button">
          Leave it
        </Link>
        <button type="submit" className="button primary" disabled={busy}>
          {busy ? "Starting…" : "Start"}
        </button>
      </div>
    </form>
  );
}

/** A refusal by the fields of the form. */
function refusalOf(problem: Problem, variables: readonly string[]): Record<string, string> {
  if (problem.reason === "BAD_VARIABLES") {
    return faultsOf(problem.message, variables);
  }
  const out: Record<string, string> = {};
  const violations = problem.details.flatMap((d) => d.fieldViolations ?? []);
  for (const { field = "", description = "" } of violations) {
    const top = /^[a-z_]+/.exec(field)?.[0] ?? "";
    const key = ["labels", "request_id", "entry"].includes(top) ? top : "";
    out[key] = `${key === "" && field ? `${field}: ` : ""}${description}`;
  }
  const named = { BAD_LABEL: "labels", ID_REUSED: "request_id", NO_SUCH_ENTRY: "entry" }[
    problem.reason
  ];
  return violations.length > 0 ? out : { [named ?? ""]: problem.message };
}

interface EntryProps {
  pack: Pack;
  /** States that it may begin at, for who may. */
  states: readonly string[];
  entry: Entry;
  onEntry: (entry: Entry) => void;
  fault: string | undefined;
}

function EntryField({ pack, states, entry, onEntry, fault }: EntryProps) {
  const others = pack.entry ? states.filter((s) => s !== pack.entry) : [];
  return (
    <label className="field">
      Entry
      <select value={entry} onChange={(e) => onEntry(e.target.value as Entry)}>
        {pack.entry ? <option value="">the workflow, at {pack.entry}</option> : null}
        {(pack.agents ?? []).map((name) => (
          <option key={name} value={`agent:${name}`}>
            agent {name}
          </option>
        ))}
        {others.map((name) => (
          <option key={name} value={`state:${name}`}>
            in the middle, at {name} (admin)
          </option>
        ))}
      </select>
      <span className="field-problem">{fault}</span>
    </label>
  );
}

function ExecutionField({
  execution,
  onExecution,
}: {
  execution: string;
  onExecution: (execution: string) => void;
}) {
  const workers = useQuery({
    queryKey: ["workers"],
    queryFn: ({ signal }) => get<WorkerList>("/v1/workers", {}, signal),
    retry: false,
  });
  const n = workers.data?.totalWorkers ?? 0;
  const choices: [string, string, string][] = [
    [
      "EXECUTION_WORKERS",
      "Workers",
      n > 0
        ? `Its turns go to connected workers that serve them; there ${n === 1 ? "is one" : `are ${n}`} now.`
        : "Its turns wait until a worker connects that serves them; there is none now.",
    ],
    [
      "EXECUTION_CALLER",
      "Its caller",
      "A program of yours takes each turn and answers it. This page cannot: the run waits for that program.",
    ],
  ];
  return (
    <fieldset className="answers">
      <legend>Who executes its turns</legend>
      {choices.map(([value, name, words]) => (
        <label key={value} className={value === execution ? "answer-choice on" : "answer-choice"}>
          <input
            type="radio"
            name="execution"
            value={value}
            checked={value === execution}
            onChange={() => onExecution(value)}
          />
          <span>
            <b>{name}</b> <span className="muted">{words}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}
