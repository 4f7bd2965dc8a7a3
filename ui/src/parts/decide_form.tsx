import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { entryOf, get, kindsOf, runPath } from "../api/client";
import type { Approval, Step, WireRecord } from "../api/types";
import { DetailRow } from "./detail_row";
import { Dialog } from "./dialog";
import { pretty, timeOf, verdictWord, when } from "./format";
import { SendRow } from "./send_row";
import { useSend } from "./use_send";
import { Text } from "./value";

export type Choice = "APPROVE" | "EDIT" | "DENY";

const CHOICES: readonly (readonly [Choice, string, string])[] = [
  ["APPROVE", "Approve", "the call is made once, as shown"],
  ["EDIT", "Approve with other arguments", "the call is made once, with the arguments below"],
  ["DENY", "Deny", "the call is not made; the model receives DENIED with the reason"],
];

/** Refusals that say that the call is no longer held. */
const CONFLICT = new Set([
  "ALREADY_DECIDED",
  "NOTHING_TO_DECIDE",
  "DIGEST_MISMATCH",
  "RUN_TERMINAL",
]);

interface Props {
  approval: Approval;
  /** True: the call is still held, as far as the page knows. */
  waiting: boolean;
  /** The answer that is selected first. */
  first?: Choice;
  onClose: () => void;
}

/** Decides about one held call. Shows its payload and the consequence of each answer. */
export function DecideForm({ approval, waiting, first = "APPROVE", onClose }: Props) {
  const call = approval.call ?? { step: 0, tool: "" };
  const [choice, setChoice] = useState<Choice>(first);
  const [reason, setReason] = useState("");
  const [payload, setPayload] = useState(() => pretty(call.payloadJson));
  const [requestId] = useState(() => crypto.randomUUID());
  const { busy, problem, send } = useSend(onClose);
  const expired = !busy && (!waiting || CONFLICT.has(problem?.reason ?? ""));
  const submit = (e: FormEvent) => {
    e.preventDefault();
    void send(`${runPath(approval.runId)}/steps/${call.step}:decide`, {
      digest: call.approval?.digest,
      decision: `STEP_DECISION_${choice}`,
      reason,
      requestId,
      ...(choice === "EDIT" ? { payloadJson: payload } : {}),
    });
  };
  return (
    <Dialog title={`Decide ${call.tool} #${call.step}`} wide onClose={onClose}>
      <form onSubmit={submit}>
        {expired ? <DecidedFirst runId={approval.runId} step={call.step} /> : null}
        <StepRequestView approval={approval} call={call} />
        <Choices chosen={choice} barred={expired} onChoose={setChoice} />
        {choice === "EDIT" ? (
          <label className="field">
            Arguments of the call
            <textarea
              rows={8}
              className="mono"
              value={payload}
              readOnly={expired}
              onChange={(e) => setPayload(e.target.value)}
            />
          </label>
        ) : null}
        <label className="field">
          Reason, kept in the record
          <textarea
            rows={2}
            value={reason}
            readOnly={expired}
            required={choice === "DENY"}
            maxLength={4096}
            onChange={(e) => setReason(e.target.value)}
          />
        </label>
        <SendRow
          busy={busy}
          problem={expired ? undefined : problem}
          verb={choice === "DENY" ? "Deny the call" : "Approve the call"}
          danger={choice === "DENY"}
          barred={expired}
          onClose={onClose}
        />
      </form>
    </Dialog>
  );
}

/** Shows the call, and the consequence of not deciding. */
function StepRequestView({ approval, call }: { approval: Approval; call: Step }) {
  const then =
    approval.onTimeout === "APPROVAL_TIMEOUT_ESCALATE" ? "the run is escalated" : "it is denied";
  return (
    <section aria-label="Held call">
      <dl className="facts">
        <DetailRow name="Tool">{call.tool}</DetailRow>
        <DetailRow name="Pack">
          {approval.packId}@{approval.packVersion}, in {approval.state}
        </DetailRow>
        {approval.starter ? <DetailRow name="Started by">{approval.starter}</DetailRow> : null}
        {approval.notStarter ? (
          <DetailRow name="Who">any principal except the one that started the run</DetailRow>
        ) : null}
        {approval.conditionError ? (
          <DetailRow name="Held because">{approval.conditionError}</DetailRow>
        ) : null}
        {call.deadline ? (
          <DetailRow name="Until">
            {when(call.deadline)}, then {then}
          </DetailRow>
        ) : null}
        <DetailRow name="Digest">
          <span className="mono" title={call.approval?.digest}>
            {call.approval?.digest.slice(0, 23)}…
          </span>
        </DetailRow>
      </dl>
      {call.redacted ? (
        <p className="muted">The arguments are sensitive: you may not read them.</p>
      ) : (
        <Text text={pretty(call.payloadJson)} label="Arguments" />
      )}
    </section>
  );
}

interface ChoicesProps {
  chosen: Choice;
  barred: boolean;
  onChoose: (choice: Choice) => void;
}

function Choices({ chosen, barred, onChoose }: ChoicesProps) {
  return (
    <fieldset className="answers" disabled={barred}>
      <legend>Answer</legend>
      {CHOICES.map(([value, name, what]) => (
        <label key={value} className={value === chosen ? "answer-choice on" : "answer-choice"}>
          <input
            type="radio"
            name="answer"
            value={value}
            checked={value === chosen}
            onChange={() => onChoose(value)}
          />
          <span>
            <b>{name}</b> <span className="muted">{what}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

/** Shows the first decision: the verdict, the principal and the time. */
function DecidedFirst({ runId, step }: { runId: string; step: number }) {
  const request = useQuery({
    queryKey: ["decided", runId, step],
    queryFn: ({ signal }) =>
      get<{ records?: WireRecord[] }>(
        `${runPath(runId)}/transitions`,
        { kinds: kindsOf("stepDecided"), pageSize: 1000 },
        signal,
      ),
  });
  const first = (request.data?.records ?? []).map(entryOf).findLast((e) => e.body.step === step);
  return (
    <div className="notice decided" role="alert">
      <p className="notice-title">The run has changed</p>
      {first ? (
        <p>
          <b>{verdictWord(first.body.verdict)}</b> by <b>{first.principal || "the sidecar"}</b>,{" "}
          {when(first.at).slice(0, 10)} {timeOf(first.at)}
          {first.body.reason ? `: ${first.body.reason}` : ""}.
        </p>
      ) : (
        <p>The call is no longer held.</p>
      )}
      <p className="muted">Your input is kept.</p>
    </div>
  );
}
