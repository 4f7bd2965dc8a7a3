import { useQuery } from "@tanstack/react-query";
import { type ModelRecords, modelRecords, requestOf } from "../api/model_step";
import { asProblem } from "../api/problem";
import type { Entry, ModelAnswer, ModelAsked } from "../api/types";
import { pretty, timeOf, usageWords } from "./format";
import { Failure, Loading } from "./notices";
import { Messages, Text, textOfParts } from "./value";

interface Props {
  /** The selected record, which belongs to the step. */
  entry: Entry;
  step: number;
  /** Seq of the newest record of the run: the data is read again when it grows. */
  last: number;
  onSeq: (seq: number) => void;
}

/** Shows a model call: its answer, its attempts, and the exact request. */
export function ModelView({ entry, step, last, onSeq }: Props) {
  const id = entry.runId;
  const shown = useQuery({
    // A later attempt may send another request, so each record reads its own.
    queryKey: ["model-step", id, step, entry.seq],
    queryFn: ({ signal }) => requestOf(id, step, signal),
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
  });
  const request = shown.data;
  const records = useQuery({
    queryKey: ["model-records", id, step, last],
    queryFn: ({ signal }) => modelRecords(id, request as ModelAsked, signal),
    enabled: request !== undefined,
    placeholderData: (before) => before,
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (shown.error) {
    return <Failure problem={asProblem(shown.error)} />;
  }
  if (!request) {
    return <Loading what="Loading the model request" />;
  }
  return (
    <div className="model-view">
      {entry.body.answer ? (
        <Answer answer={entry.body.answer} records={records.data} onSeq={onSeq} />
      ) : null}
      <Attempts own={records.data?.own ?? []} seq={entry.seq} onSeq={onSeq} />
      <ModelRequestView requests={request} hash={entry.body.model?.hash} />
    </div>
  );
}

/** Shows a model call without a record in this run: a fork has it from its source. */
export function StepView({ runId, step }: { runId: string; step: number }) {
  const shown = useQuery({
    queryKey: ["model-step", runId, step, 0],
    queryFn: ({ signal }) => requestOf(runId, step, signal),
    staleTime: Number.POSITIVE_INFINITY,
  });
  if (shown.error) {
    return <Failure problem={asProblem(shown.error)} />;
  }
  if (!shown.data) {
    return <Loading what="Loading the model request" />;
  }
  const { answer } = shown.data.step.model ?? {};
  return (
    <div className="model-view">
      {answer ? <Answer answer={answer} /> : null}
      <ModelRequestView requests={shown.data} />
    </div>
  );
}

interface AnswerProps {
  answer: ModelAnswer;
  /** Unset: the outcome of its calls is unknown. */
  records?: ModelRecords | undefined;
  onSeq?: (seq: number) => void;
}

/** Shows the model's answer, and the steps of its tool calls. */
function Answer({ answer, records, onSeq }: AnswerProps) {
  return (
    <section className="body-section">
      <h4>Answer</h4>
      {answer.parts?.length ? <Text text={textOfParts(answer.parts)} label="Answer" /> : null}
      {answer.refusal ? <p className="field-problem">Refused: {answer.refusal}</p> : null}
      {answer.calls?.length ? (
        <ol className="calls" start={0} aria-label="Tool calls of the answer">
          {answer.calls.map((call, i) => (
            <li key={i}>
              <p className="call-head">
                <b>{call.name || "a tool without a name"}</b>{" "}
                {records && onSeq ? <Call at={records.calls.get(i)} onSeq={onSeq} /> : null}
              </p>
              <Text text={pretty(call.arguments)} label={`Arguments of call ${i}`} />
            </li>
          ))}
        </ol>
      ) : null}
      {answer.providerJson ? (
        <details>
          <summary>Provider data</summary>
          <Text text={pretty(answer.providerJson)} label="Provider data" />
        </details>
      ) : null}
    </section>
  );
}

function Call({ at, onSeq }: { at: Entry | undefined; onSeq: (seq: number) => void }) {
  return at ? (
    <button type="button" className="link" onClick={() => onSeq(at.seq)}>
      step #{at.body.step}
    </button>
  ) : (
    <span className="muted">no step for this call</span>
  );
}

interface AttemptsProps {
  own: readonly Entry[];
  /** Seq of the selected record. */
  seq: number;
  onSeq: (seq: number) => void;
}

/** Shows each request, answer and failure of the step, with its pause. */
function Attempts({ own, seq, onSeq }: AttemptsProps) {
  if (own.length === 0) {
    return null;
  }
  return (
    <section className="body-section">
      <h4>Attempts</h4>
      <table className="plain rounds">
        <thead>
          <tr>
            <th scope="col">Record</th>
            <th scope="col">Attempt</th>
            <th scope="col">What</th>
            <th scope="col">Usage</th>
          </tr>
        </thead>
        <tbody>
          {own.map((e) => (
            <tr key={e.seq} className={e.seq === seq ? "here" : undefined}>
              <td className="narrow">
                <button type="button" className="link" onClick={() => onSeq(e.seq)}>
                  #{e.seq}
                </button>
                <time className="muted" dateTime={e.at}>
                  {timeOf(e.at)}
                </time>
              </td>
              <td>{e.body.attempt ?? ""}</td>
              <td>{became(e)}</td>
              <td>{e.body.usage ? usageWords(e.body.usage) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

/** Describes the attempt of a step by one of its records. */
export function became({ kind, body, at }: Entry): string {
  if (kind === "stepRequested") {
    return body.requestChanged ? "requested; the request changed" : "requested";
  }
  if (kind === "stepCancelled") {
    return `cancelled: ${body.reason ?? ""}`;
  }
  if (kind === "modelUpdated") {
    return body.requestChanged
      ? "request changed; the recorded answer counts"
      : body.usage
        ? "late answer; only its usage counts"
        : `being made as ${body.responseId ?? ""}`;
  }
  if (body.ok) {
    return `answered${body.answer?.finishReason ? `, ${body.answer.finishReason}` : ""}`;
  }
  const pause = body.notBefore ? Math.max(0, Date.parse(body.notBefore) - Date.parse(at)) : 0;
  const next = body.next ? `; attempt ${body.next} after ${pause / 1000} s` : "";
  const failed = body.unknown ? "lost" : "failed";
  return `${failed}: ${body.error?.code ?? ""} ${body.error?.message ?? ""}${next}`;
}

/** Shows the request with its references resolved. */
function ModelRequestView({
  requests: request,
  hash,
}: {
  requests: ModelAsked;
  hash?: string | undefined;
}) {
  const other = hash !== undefined && hash !== request.step.model?.request?.hash;
  return (
    <section className="body-section">
      <h4>Model request</h4>
      {other ? (
        <p className="muted">
          A later attempt sent a different request. This is the later request.
        </p>
      ) : null}
      {request.redacted ? <p className="muted">Sensitive values are not shown to you.</p> : null}
      {request.system ? (
        <>
          <h5>System</h5>
          <Text text={request.system} label="System prompt of the request" />
        </>
      ) : null}
      {request.messages?.length ? <Messages messages={request.messages} exact /> : null}
      {request.toolsJson ? (
        <details>
          <summary>Tools</summary>
          <Text text={request.toolsJson} label="Tools of the request" />
        </details>
      ) : null}
      {request.parametersJson ? (
        <details>
          <summary>Parameters</summary>
          <Text text={request.parametersJson} label="Parameters of the request" />
        </details>
      ) : null}
    </section>
  );
}
