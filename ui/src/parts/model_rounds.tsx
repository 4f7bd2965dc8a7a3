import { useState } from "react";
import type { Entry, Step } from "../api/types";
import { costOf, number, ofModel, roundWord } from "./format";
import { became, StepView } from "./model_view";

interface Props {
  runId: string;
  /** Records of the turn. */
  entries: readonly Entry[];
  /** Steps of the turn: a fork has some without a record of its own. */
  known: readonly Step[];
  onSeq: (seq: number) => void;
}

/** Shows the model calls of a turn in order. */
export function ModelRounds({ runId, entries, known, onSeq }: Props) {
  const own = entries.filter(ofModel);
  const request = own.filter((e) => e.kind === "stepRequested" || e.kind === "stepRejected");
  const taken = known.filter(
    (s) => s.kind === "STEP_KIND_MODEL" && !request.some((e) => e.body.step === s.step),
  );
  if (request.length === 0 && taken.length === 0) {
    return null;
  }
  return (
    <>
      <h4>Model calls</h4>
      {taken.map((s) => (
        <Taken key={s.step} runId={runId} step={s} />
      ))}
      {own.length > 0 ? <Table own={own} requests={request} onSeq={onSeq} /> : null}
    </>
  );
}

interface TableProps {
  own: readonly Entry[];
  requests: readonly Entry[];
  onSeq: (seq: number) => void;
}

function Table({ own, requests: request, onSeq }: TableProps) {
  return (
    <table className="plain rounds">
      <thead>
        <tr>
          <th scope="col">Record</th>
          <th scope="col">Round</th>
          <th scope="col">What</th>
          <th scope="col">Tokens</th>
          <th scope="col">Cost</th>
        </tr>
      </thead>
      <tbody>
        {own.map((e) => (
          <Round key={e.seq} entry={e} requests={request} onSeq={onSeq} />
        ))}
      </tbody>
    </table>
  );
}

interface RoundProps {
  entry: Entry;
  /** Records that request a model call: an answer has no key of its own. */
  requests: readonly Entry[];
  onSeq: (seq: number) => void;
}

function Round({ entry, requests: request, onSeq }: RoundProps) {
  const { usage, step, tool, denial } = entry.body;
  const of = request.find((e) => e.body.step === step);
  const cost = Number(usage?.costMicroUsd ?? 0);
  const tokens = Number(usage?.inputTokens ?? 0) + Number(usage?.outputTokens ?? 0);
  return (
    <tr>
      <td className="narrow">
        <button type="button" className="link" onClick={() => onSeq(entry.seq)}>
          #{entry.seq}
        </button>
      </td>
      <td className="narrow">{roundWord(of?.body.key ?? entry.body.key)}</td>
      <td>
        {tool ?? of?.body.tool} {denial ? `refused: ${denial.code}` : became(entry)}
      </td>
      <td className="figure narrow">{usage ? number(tokens) : ""}</td>
      <td className="figure narrow">{cost > 0 || tokens > 0 ? costOf(tokens, cost) : ""}</td>
    </tr>
  );
}

/** A call that a fork has from its source, which made and paid for it. */
function Taken({ runId, step }: { runId: string; step: Step }) {
  const [open, setOpen] = useState(false);
  const finish = step.model?.answer?.finishReason;
  return (
    <details onToggle={(e) => setOpen(e.currentTarget.open)}>
      <summary>
        {step.tool} #{step.step}, {roundWord(step.key)}: taken over from the source
        {finish ? `, ${finish}` : ""}
      </summary>
      {open ? <StepView runId={runId} step={step.step} /> : null}
    </details>
  );
}
