import { useState } from "react";
import { runPath } from "../api/client";
import type { Document } from "../api/document";
import type { Run } from "../api/types";
import { SendRow, useSend } from "./actions";
import { Dialog } from "./dialog";

interface Props {
  run: Run;
  event: string;
  document: Document;
  onClose: () => void;
}

interface Slot {
  name: string;
  type: string;
  description: string;
}

/** Emits an event from outside, with the artifacts that the state declares. */
export function EmitForm({ run, event, document, onClose }: Props) {
  const [values, setValues] = useState<Record<string, string>>({});
  // What was seen when the question was asked: another's move in between is told.
  const [eventId] = useState(() => crypto.randomUUID());
  const [expectedSeq] = useState(run.visitSeq ?? "0");
  const { busy, problem, send } = useSend(onClose);
  const slots = slotsOf(document, run.state ?? "");
  const artifacts = slots
    .filter((slot) => (values[slot.name] ?? "") !== "")
    .map(({ name, type }) => ({ name, value: { [isJson(type) ? "json" : "text"]: values[name] } }));
  return (
    <Dialog title={`Emit ${event}`} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send(`${runPath(run.runId)}/events`, { event, artifacts, eventId, expectedSeq });
        }}
      >
        <p>
          The run is in <b>{run.state}</b> and waits for a decision from outside. The pack decides
          which state follows.
        </p>
        {slots.map(({ name, type, description }) => (
          <label className="field" key={name}>
            <span>
              {name} <span className="muted">{type}</span>
            </span>
            {description ? <span className="muted">{description}</span> : null}
            <textarea
              rows={2}
              value={values[name] ?? ""}
              onChange={(e) => setValues({ ...values, [name]: e.target.value })}
            />
          </label>
        ))}
        <SendRow busy={busy} problem={problem} verb={`Emit ${event}`} onClose={onClose} />
      </form>
    </Dialog>
  );
}

const isJson = (type: string): boolean => type === "application/json" || type.endsWith("+json");

/** What the state declares in a form that people can type. */
function slotsOf(document: Document, state: string): Slot[] {
  return Object.entries(document.workflow?.states?.[state]?.artifacts ?? {})
    .map(([name, a]) => ({ name, type: a.type ?? "text/plain", description: a.description ?? "" }))
    .filter(({ type }) => isJson(type) || type.startsWith("text/"));
}
