import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { Link, useLocation } from "wouter";
import { get, post } from "../api/client";
import type { Variable } from "../api/document";
import { asProblem, type Problem } from "../api/problem";
import type { Pack, Run, WorkerList } from "../api/types";
import { useMay } from "./caller";
import { useGraph, usePack } from "./use_pack";
import { VariableField } from "./variable_field";
import { faultsOf, givenOf, labelsOf, variablesOf } from "./variables";

/** Returns the id and the version of a pack as one reference. */
export const refOf = (p: Pick<Pack, "id" | "version">): string => `${p.id}@${p.version}`;

/** Where a run begins: the workflow, a state of it, or an agent. */
type Entry = "" | `agent:${string}` | `state:${string}`;

/** The form that starts a run. */
export function StartForm({ pack }: { pack: Pack }) {
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
  const [conversation, setConversation] = useState(false);
  const [tried, setTried] = useState(false);
  const { busy, problem, setProblem, begin } = useBegin();
  const { values, faults } = givenOf(variables, texts);
  const { labels, fault: labelFault } = labelsOf(labelText);
  const refused = problem ? refusalOf(problem, variables) : {};
  const send = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (Object.keys(faults).length > 0 || labelFault !== "") {
      setProblem(undefined);
      return;
    }
    const parts = input === "" ? [] : [{ text: input }];
    const given = { variablesJson: JSON.stringify(values), input: parts, labels };
    void begin({
      pack: refOf(pack),
      ...placeOf(entry),
      ...given,
      requestId,
      execution,
      conversation,
    });
  };
  return (
    <form noValidate onSubmit={send}>
      <EntryField
        pack={pack}
        states={(graph.data?.nodes ?? []).map((n) => n.name)}
        entry={entry}
        onEntry={setEntry}
        fault={refused.entry}
      />
      <VariableFields
        variables={variables}
        texts={texts}
        faults={{ ...refused, ...(tried ? faults : {}) }}
        onTexts={setTexts}
      />
      <h2>The run</h2>
      <InputField input={input} onInput={setInput} />
      <ExecutionField execution={execution} onExecution={setExecution} />
      <ConversationField conversation={conversation} onConversation={setConversation} />
      <LabelsField
        text={labelText}
        fault={(tried && labelFault) || refused.labels}
        bad={labelFault !== ""}
        onText={setLabels}
      />
      <RequestIdField id={requestId} fault={refused.request_id} onId={setRequestId} />
      <Foot refused={problem && refused[""]} busy={busy} />
    </form>
  );
}

/** Returns the entry of a run in the form of a request. */
function placeOf(entry: Entry) {
  const [kind, name] = [entry.slice(0, 6), entry.slice(6)];
  return kind === "agent:" ? { agent: name } : kind === "state:" ? { state: name } : {};
}

/** Starts a run and opens its page; the form shows the errors. */
function useBegin() {
  const [, go] = useLocation();
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem>();
  const begin = async (request: object) => {
    setProblem(undefined);
    setBusy(true);
    try {
      const { run } = await post<{ run: Run }>("/v1/runs", request);
      go(`/runs/${run.runId}`);
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return { busy, problem, setProblem, begin };
}

interface VariablesProps {
  variables: ReturnType<typeof variablesOf>;
  texts: Record<string, string>;
  faults: Record<string, string>;
  onTexts: (texts: Record<string, string>) => void;
}

/** The fields of a run's variables. */
export function VariableFields({ variables, texts, faults, onTexts }: VariablesProps) {
  return (
    <>
      {variables.length > 0 ? <h2>Variables</h2> : null}
      {variables.map((v) => (
        <VariableField
          key={v.name}
          variable={v}
          text={texts[v.name] ?? ""}
          fault={faults[v.name] || undefined}
          onText={(text) => onTexts({ ...texts, [v.name]: text })}
        />
      ))}
    </>
  );
}

function InputField({ input, onInput }: { input: string; onInput: (input: string) => void }) {
  return (
    <label className="field">
      <span>
        Input <span className="muted">first message, optional</span>
      </span>
      <textarea rows={3} value={input} onChange={(e) => onInput(e.target.value)} />
    </label>
  );
}

interface ConversationProps {
  conversation: boolean;
  onConversation: (conversation: boolean) => void;
}

function ConversationField({ conversation, onConversation }: ConversationProps) {
  return (
    <label className={conversation ? "answer-choice on" : "answer-choice"}>
      <input
        type="checkbox"
        checked={conversation}
        onChange={(e) => onConversation(e.target.checked)}
      />
      <span>
        <b>Conversation</b>{" "}
        <span className="muted">
          After a transition it waits for your message, except in states with control: agent.
        </span>
      </span>
    </label>
  );
}

function Foot({ refused, busy }: { refused: string | undefined; busy: boolean }) {
  return (
    <>
      {refused ? (
        <p className="field-problem" role="alert">
          {refused}
        </p>
      ) : null}
      <div className="dialog-foot">
        <Link href="/" className="button">
          Back
        </Link>
        <button type="submit" className="button primary" disabled={busy}>
          {busy ? "Starting…" : "Start"}
        </button>
      </div>
    </>
  );
}

interface LabelsProps {
  text: string;
  fault: string | undefined;
  bad: boolean;
  onText: (text: string) => void;
}

function LabelsField({ text, fault, bad, onText }: LabelsProps) {
  return (
    <label className="field">
      <span>
        Labels <span className="muted">one key=value a line, to find it by</span>
      </span>
      <textarea
        rows={2}
        className="mono"
        value={text}
        placeholder="ticket=PAY-318"
        aria-invalid={bad}
        onChange={(e) => onText(e.target.value)}
      />
      <span className="field-problem">{fault}</span>
    </label>
  );
}

interface RequestIdProps {
  id: string;
  fault: string | undefined;
  onId: (id: string) => void;
}

function RequestIdField({ id, fault, onId }: RequestIdProps) {
  return (
    <label className="field">
      <span>
        Request id{" "}
        <span className="muted">
          the same id begins no second run; your own key, if you have one
        </span>
      </span>
      <input className="mono" value={id} maxLength={128} onChange={(e) => onId(e.target.value)} />
      <span className="field-problem">{fault}</span>
    </label>
  );
}

/** Returns the violations of a refusal by the fields of the form. */
function refusalOf(problem: Problem, variables: readonly Variable[]): Record<string, string> {
  if (problem.reason === "BAD_VARIABLES") {
    const names = variables.map((v) => v.name);
    return faultsOf(problem.message, names);
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
  /** States at which an admin may start the run. */
  states: readonly string[];
  entry: Entry;
  onEntry: (entry: Entry) => void;
  fault: string | undefined;
}

function EntryField({ pack, states, entry, onEntry, fault }: EntryProps) {
  const may = useMay();
  const others = pack.entry && may("admin") ? states.filter((s) => s !== pack.entry) : [];
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

interface ExecutionProps {
  execution: string;
  onExecution: (execution: string) => void;
}

/** The sidecar's own principal: its worker is connected if it calls models. */
export const OWN = "sidecar";

/** Returns the possible executors of a run's turns, with their current meaning. */
function useExecutions(): [string, string, string][] {
  const workers = useQuery({
    queryKey: ["workers"],
    queryFn: ({ signal }) => get<WorkerList>("/v1/workers", {}, signal),
    retry: false,
  });
  const own = (workers.data?.workers ?? []).some((w) => w.principal === OWN);
  const n = (workers.data?.totalWorkers ?? 0) - (own ? 1 : 0);
  const sidecar: [string, string, string] = [
    "EXECUTION_SIDECAR",
    "The sidecar",
    "It asks the models that its operator configured; calls of tools go to connected workers.",
  ];
  return [
    [
      "EXECUTION_WORKERS",
      "Workers",
      n > 0
        ? `Its turns go to connected workers that serve them; there ${n === 1 ? "is one" : `are ${n}`} now.`
        : "Its turns wait until a worker connects that serves them; there is none now.",
    ],
    ...(own ? [sidecar] : []),
    [
      "EXECUTION_CALLER",
      "Its caller",
      "Your program executes each turn. This page cannot: the run waits for your program.",
    ],
  ];
}

function ExecutionField({ execution, onExecution }: ExecutionProps) {
  const choices = useExecutions();
  return (
    <fieldset className="answers">
      <legend>Executor of the turns</legend>
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
