import { useEffect, useState } from "react";
import { runPath } from "../api/client";
import type { Document } from "../api/document";
import type { Graph, Run } from "../api/types";
import { CauseView } from "./cause_view";
import { ConflictNotice, useConflicts } from "./conflict_notice";
import { Dialog } from "./dialog";
import { nextStates } from "./next_state";
import { SendRow } from "./send_row";
import { useSend } from "./use_send";

interface Props {
  run: Run;
  /** The answer that is selected first. */
  event: string;
  /** All events that the state accepts now; empty: it accepts none any longer. */
  answers: readonly string[];
  graph: Graph | undefined;
  document: Document;
  onStale: () => void;
  onClose: () => void;
}

interface Slot {
  name: string;
  type: string;
  description: string;
}

interface Seen {
  /** Id of the request: a repetition has no second effect, and another decision has another id. */
  eventId: string;
  /** The visit in which the caller saw the question, to detect a move by another caller. */
  seq: string;
  state: string;
}

const look = (run: Run): Seen => ({
  eventId: crypto.randomUUID(),
  seq: run.visitSeq ?? "0",
  state: run.state ?? "",
});

/** Emits an event from outside. Shows the basis of the decision, and where each event leads. */
export function EmitForm({ run, event: first, answers, graph, document, onStale, onClose }: Props) {
  const [event, setEvent] = useState(first);
  const [values, setValues] = useState<Record<string, string>>({});
  const [seen, setSeen] = useState(() => look(run));
  const { busy, problem, send, forget } = useSend(onClose);
  const winners = useConflicts(run, seen.seq, problem, busy);
  useEffect(() => {
    if (winners.late) {
      onStale();
    }
  }, [winners.late, onStale]);
  const slots = slotsOf(document, seen.state);
  // A second decision is about the run as it is shown now.
  const retry = () => {
    forget();
    setSeen(look(run));
    setEvent(answers.includes(event) ? event : (answers[0] ?? event));
  };
  // The event was refused although the run has not moved: another caller holds the turn.
  const held = winners.known && winners.entries.length === 0;
  const shown = run.visitSeq !== seen.seq || held;
  return (
    <Dialog title={`Decide in ${seen.state}`} wide onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send(`${runPath(run.runId)}/events`, {
            event,
            artifacts: writesOf(slots, values),
            eventId: seen.eventId,
            expectedSeq: seen.seq,
          });
        }}
      >
        {winners.moved ? <ConflictNotice entries={winners.entries} run={run} /> : null}
        {winners.moved ? null : <CauseView run={run} />}
        <Answers
          answers={winners.moved ? [event] : answers}
          chosen={event}
          barred={winners.moved}
          wordsOf={(answer) => nextStates(graph, run, answer).words}
          onChoose={setEvent}
        />
        <SlotFields slots={slots} values={values} readOnly={winners.moved} onValues={setValues} />
        {winners.moved && shown && answers.length > 0 ? (
          <RepeatNotice state={run.state} onAgain={retry} />
        ) : null}
        <SendRow
          busy={busy}
          problem={winners.moved ? undefined : problem}
          verb={`Emit ${event}`}
          barred={winners.moved || !answers.includes(event)}
          onClose={onClose}
        />
      </form>
    </Dialog>
  );
}

/** Returns the typed values in the form of a request. */
const writesOf = (slots: readonly Slot[], values: Record<string, string>) =>
  slots
    .filter((slot) => (values[slot.name] ?? "") !== "")
    .map(({ name, type }) => ({ name, value: { [isJson(type) ? "json" : "text"]: values[name] } }));

function RepeatNotice({
  state,
  onAgain: onRepeat,
}: {
  state: string | undefined;
  onAgain: () => void;
}) {
  return (
    <p>
      <button type="button" className="button" onClick={onRepeat}>
        Decide in {state} instead
      </button>
    </p>
  );
}

interface AnswersProps {
  answers: readonly string[];
  chosen: string;
  /** True: another caller was first. */
  barred: boolean;
  /** Returns where an answer leads. */
  wordsOf: (answer: string) => string;
  onChoose: (answer: string) => void;
}

function Answers({ answers, chosen, barred, wordsOf, onChoose }: AnswersProps) {
  return (
    <fieldset className="answers" disabled={barred}>
      <legend>Answer</legend>
      {answers.map((answer) => (
        <label key={answer} className={answer === chosen ? "answer-choice on" : "answer-choice"}>
          <input
            type="radio"
            name="answer"
            value={answer}
            checked={answer === chosen}
            onChange={() => onChoose(answer)}
          />
          <span>
            <b>{answer}</b>
            <span className="muted">{barred ? "" : ` ${wordsOf(answer)}`}</span>
          </span>
        </label>
      ))}
    </fieldset>
  );
}

interface SlotsProps {
  slots: readonly Slot[];
  values: Record<string, string>;
  readOnly: boolean;
  onValues: (values: Record<string, string>) => void;
}

function SlotFields({ slots, values, readOnly, onValues }: SlotsProps) {
  return slots.map((slot) => (
    <SlotField
      key={slot.name}
      slot={slot}
      value={values[slot.name] ?? ""}
      readOnly={readOnly}
      onValue={(value) => onValues({ ...values, [slot.name]: value })}
    />
  ));
}

interface SlotProps {
  slot: Slot;
  value: string;
  readOnly: boolean;
  onValue: (value: string) => void;
}

function SlotField({ slot, value, readOnly, onValue }: SlotProps) {
  return (
    <label className="field">
      <span>
        {slot.name} <span className="muted">{slot.type}</span>
      </span>
      {slot.description ? <span className="muted">{slot.description}</span> : null}
      <textarea
        rows={2}
        value={value}
        readOnly={readOnly}
        onChange={(e) => onValue(e.target.value)}
      />
    </label>
  );
}

const isJson = (type: string): boolean => type === "application/json" || type.endsWith("+json");

/** Returns the artifacts of the state that people can type. */
function slotsOf(document: Document, state: string): Slot[] {
  return Object.entries(document.workflow?.states?.[state]?.artifacts ?? {})
    .map(([name, a]) => ({ name, type: a.type ?? "text/plain", description: a.description ?? "" }))
    .filter(({ type }) => isJson(type) || type.startsWith("text/"));
}
