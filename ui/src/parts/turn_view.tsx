import { useQuery } from "@tanstack/react-query";
import { entryOf, get, kindsOf, runPath } from "../api/client";
import { asProblem } from "../api/problem";
import type { Entry, Turn, WireRecord } from "../api/types";
import { callOf, number, ofModel, pretty, timeOf } from "./format";
import { ModelRounds } from "./model_rounds";
import { Empty, Failure, Loading } from "./notices";
import { Messages, Text } from "./value";

const KINDS = kindsOf(
  "turnAssigned",
  "turnCompleted",
  "turnFailed",
  "turnAbandoned",
  "turnSuspended",
  "turnReady",
  "stepRequested",
  "stepResolved",
  "stepOutcomeUnknown",
  "stepRejected",
  "stepCancelled",
  "modelUpdated",
  "transition",
  "turnOpened",
  "ended",
);

/** Returns the turn of a record; 0: none. An answer to a tool belongs to the last turn. */
export function turnOf(
  entry: Entry | undefined,
  record: (seq: number) => Entry | undefined,
): number {
  if (entry?.body.turnSeq) {
    return Number(entry.body.turnSeq);
  }
  for (let at = entry; at; at = record(at.seq - 1)) {
    // A fork continues a turn of its source, so its first record begins that turn.
    if (at.kind === "transition" || at.kind === "turnOpened" || at.kind === "origin") {
      return at.seq;
    }
  }
  return 0;
}

interface Props {
  runId: string;
  turn: number;
  /** Seq of the newest record of the run: the data is read again when it grows. */
  last: number;
  onSeq: (seq: number) => void;
}

/** Shows a turn as its executor received it, and its outcome. */
export function TurnView({ runId, turn, last, onSeq }: Props) {
  const shown = useQuery({
    queryKey: ["turn", runId, turn],
    queryFn: ({ signal }) => get<{ turn: Turn }>(`${runPath(runId)}/turns/${turn}`, {}, signal),
    enabled: turn > 0,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const history = useQuery({
    queryKey: ["turn-records", runId, turn, last],
    queryFn: ({ signal }) => read(runId, turn, signal),
    enabled: turn > 0,
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (turn === 0) {
    return (
      <Empty title="This record belongs to no turn">
        Choose a transition, or a record of a turn.
      </Empty>
    );
  }
  if (shown.error) {
    return <Failure problem={asProblem(shown.error)} />;
  }
  if (!shown.data) {
    return <Loading what="Rendering the prompt" />;
  }
  const { turn: view } = shown.data;
  return (
    <div className="turn-view">
      <h3>
        Turn #{turn} of {view.turn.state}, visit {view.turn.visit}
      </h3>
      <h4>
        Prompt as rendered <span className="muted">{view.prompt}</span>
      </h4>
      <Text text={view.systemPrompt ?? ""} label="Prompt as rendered" />
      {view.messages?.length ? (
        <>
          <h4>Messages</h4>
          <Messages messages={view.messages} />
        </>
      ) : null}
      <Attempts entries={history.data ?? []} onSeq={onSeq} />
      <ModelRounds
        runId={runId}
        entries={history.data ?? []}
        known={view.steps ?? []}
        onSeq={onSeq}
      />
      <Calls entries={history.data ?? []} onSeq={onSeq} />
      <Offered turn={view} />
    </div>
  );
}

/** Most records of one request, and of all requests: a turn may have many more. */
const PAGE = 400;
const MOST = 4_000;

/** Reads the records of a turn, up to the record that opens the next one. */
async function read(runId: string, turn: number, signal: AbortSignal): Promise<Entry[]> {
  const all: Entry[] = [];
  for (let afterSeq = turn; all.length < MOST; afterSeq = all.at(-1)?.seq ?? afterSeq) {
    const page = await get<{ records?: WireRecord[]; nextPageToken?: string }>(
      `${runPath(runId)}/transitions`,
      { kinds: KINDS, afterSeq, pageSize: PAGE },
      signal,
    );
    const entries = (page.records ?? []).map(entryOf);
    const next = entries.findIndex(
      (e) => e.kind === "transition" || e.kind === "turnOpened" || e.kind === "ended",
    );
    all.push(...(next < 0 ? entries : entries.slice(0, next)));
    if (next >= 0 || !page.nextPageToken) {
      break;
    }
  }
  return all;
}

function Attempts({ entries, onSeq }: { entries: Entry[]; onSeq: (seq: number) => void }) {
  const rows = entries.filter((e) => e.kind.startsWith("turn"));
  if (rows.length === 0) {
    return null;
  }
  return (
    <>
      <h4>Attempts</h4>
      <table className="plain">
        <thead>
          <tr>
            <th scope="col">Record</th>
            <th scope="col">Attempt</th>
            <th scope="col">What</th>
            <th scope="col">Tokens</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((e) => (
            <tr key={e.seq}>
              <td>
                <button type="button" className="link" onClick={() => onSeq(e.seq)}>
                  #{e.seq}
                </button>{" "}
                <span className="muted">{timeOf(e.at)}</span>
              </td>
              <td>{e.body.attempt}</td>
              <td>
                {e.kind.slice(4).toLowerCase()}
                {e.body.error ? `: ${e.body.error.code} ${e.body.error.message ?? ""}` : ""}
                {e.body.event ? ` with ${e.body.event}` : ""}
                {e.body.assigned ? ` to ${e.body.assigned.worker}` : ""}
              </td>
              <td>
                {e.body.usage
                  ? number(
                      Number(e.body.usage.inputTokens ?? 0) +
                        Number(e.body.usage.outputTokens ?? 0),
                    )
                  : ""}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

const ANSWERS: readonly string[] = ["stepResolved", "stepOutcomeUnknown", "stepCancelled"];

function Calls({ entries, onSeq }: { entries: Entry[]; onSeq: (seq: number) => void }) {
  const request = entries.filter(
    (e) => (e.kind === "stepRequested" || e.kind === "stepRejected") && !ofModel(e),
  );
  if (request.length === 0) {
    return null;
  }
  const answers = entries.filter((e) => ANSWERS.includes(e.kind));
  return (
    <>
      <h4>Tool calls</h4>
      <ul className="calls">
        {request.map((e) => (
          <Call
            key={e.seq}
            requests={e}
            answers={answers.filter(
              (a) => e.body.step !== undefined && a.body.step === e.body.step,
            )}
            onSeq={onSeq}
          />
        ))}
      </ul>
    </>
  );
}

/** Describes in short how an attempt ended. */
function answerWord({ kind, body }: Entry): string {
  switch (kind) {
    case "stepCancelled":
      return `cancelled, ${body.reason}`;
    case "stepOutcomeUnknown":
      return `may have happened, step ${body.by} asks`;
    default:
      return body.ok ? "ok" : body.unknown ? "error, may have happened" : "error";
  }
}

function Call({
  requests: request,
  answers,
  onSeq,
}: {
  requests: Entry;
  answers: Entry[];
  onSeq: (seq: number) => void;
}) {
  const { body } = request;
  const call = callOf(body);
  return (
    <li>
      <p className="call-head">
        <b>{body.tool}</b>{" "}
        <button type="button" className="link" onClick={() => onSeq(request.seq)}>
          #{request.seq}
        </button>{" "}
        <span className="muted">
          {body.denial ? `refused: ${body.denial.code}` : `step ${body.step}`}
          {body.delegation ? ", an agent" : ""}
          {call ? `, call ${call.index ?? 0} of the model's step ${call.modelStep}` : ""}
        </span>
      </p>
      {body.denial?.message ? <p className="field-problem">{body.denial.message}</p> : null}
      {body.payloadJson ? (
        <Text text={pretty(body.payloadJson)} label={`Arguments of ${body.tool}`} />
      ) : null}
      {answers.map((a) => (
        <div key={a.seq} className="answer">
          <p className="muted">
            attempt {a.body.attempt ?? 1}: {answerWord(a)}
          </p>
          {a.body.error ? (
            <p className="field-problem">
              <b>{a.body.error.code}</b> {a.body.error.message}
            </p>
          ) : null}
          {a.body.resultJson ? (
            <Text text={pretty(a.body.resultJson)} label={`Result of ${a.body.tool}`} />
          ) : null}
        </div>
      ))}
    </li>
  );
}

function Offered({ turn }: { turn: Turn }) {
  return (
    <>
      <h4>Offered</h4>
      <dl className="facts">
        <div>
          <dt>Events</dt>
          <dd>
            {turn.allowedEvents?.join(", ") ||
              (turn.terminal ? "none, completing it ends the run" : "only from outside")}
          </dd>
        </div>
        <div>
          <dt>Tools</dt>
          <dd>
            {turn.tools?.map((t) => (t.agent ? `${t.name} (agent)` : t.name)).join(", ") || "none"}
          </dd>
        </div>
        <div>
          <dt>Artifacts</dt>
          <dd>{turn.artifactSlots?.map((s) => s.name).join(", ") || "none"}</dd>
        </div>
      </dl>
      {turn.settingsJson && turn.settingsJson !== "{}" ? (
        <details>
          <summary>Settings</summary>
          <Text text={pretty(turn.settingsJson)} label="Settings" />
        </details>
      ) : null}
    </>
  );
}
