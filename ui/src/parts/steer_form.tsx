import { useState } from "react";
import { runPath } from "../api/client";
import type { Run } from "../api/types";
import { Dialog } from "./dialog";
import { SendRow } from "./send_row";
import { useSend } from "./use_send";

const WHEN = [
  [
    "STEER_WHEN_NEXT_MODEL_CALL",
    "Next model call",
    "the turn continues, and its next model call includes the message",
  ],
  ["STEER_WHEN_NOW", "Now", "the open turn ends, and the next turn starts with the message"],
  [
    "STEER_WHEN_NEXT_TURN",
    "Next turn",
    "the open turn ends first, and the next turn includes the message",
  ],
] as const;

/** Sends a steering message to a running run. Its next turn or model request includes the message. */
export function SteerForm({ run, onClose }: { run: Run; onClose: () => void }) {
  const [text, setText] = useState("");
  const [when, setWhen] = useState<string>(WHEN[0][0]);
  const [requestId] = useState(() => crypto.randomUUID());
  const { busy, problem, send } = useSend(onClose);
  return (
    <Dialog title="Add a message to this run" onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send(`${runPath(run.runId)}:steer`, { text, when, requestId });
        }}
      >
        <label className="field">
          Message for the model
          <textarea rows={4} value={text} onChange={(e) => setText(e.target.value)} required />
        </label>
        <fieldset className="answers">
          <legend>When</legend>
          {WHEN.map(([value, name, what]) => (
            <label key={value} className={value === when ? "answer-choice on" : "answer-choice"}>
              <input
                type="radio"
                name="when"
                value={value}
                checked={value === when}
                onChange={() => setWhen(value)}
              />
              <span>
                <b>{name}</b> <span className="muted">{what}</span>
              </span>
            </label>
          ))}
        </fieldset>
        <SendRow busy={busy} problem={problem} verb="Add message" onClose={onClose} />
      </form>
    </Dialog>
  );
}
