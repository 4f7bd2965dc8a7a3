import { type ReactNode, useState } from "react";
import { runPath } from "../api/client";
import type { Document } from "../api/document";
import type { Graph, Run } from "../api/types";
import { PendingApprovals } from "./approval_list";
import { useMay } from "./caller";
import { Dialog } from "./dialog";
import { EmitForm } from "./emit_form";
import { ForkForm } from "./fork_form";
import { isTerminal } from "./format";
import { nextStates } from "./next_state";
import { SendRow } from "./send_row";
import { Snippets } from "./snippets";
import { SteerForm } from "./steer_form";
import { useSend } from "./use_send";

type Open = Steer | "fork" | "copy" | undefined;

interface Props {
  run: Run;
  seq: number;
  graph: Graph | undefined;
  document: Document;
  /** Reads the run again after another part of the page saw that it has moved. */
  onStale: () => void;
}

/** Shows the actions that the caller may take on the run now; others are hidden. */
export function Actions({ run, seq, graph, document, onStale }: Props) {
  const may = useMay();
  const [open, setOpen] = useState<Open>();
  const close = () => setOpen(undefined);
  // An imported run is read only.
  const over = isTerminal(run.status) || run.imported === true;
  const writes = may("runs:write") && !over;
  const events = useEvents(run, graph);
  return (
    <div className="actions">
      <EventButtons run={run} graph={graph} document={document} onStale={onStale} />
      {may("steps:approve") && !over ? <PendingApprovals run={run} /> : null}
      {writes ? <SteeringButtons paused={run.paused === true} onOpen={setOpen} /> : null}
      {may("runs:write") ? (
        <button type="button" className="button" onClick={() => setOpen("fork")}>
          Fork from here
        </button>
      ) : null}
      <button type="button" className="button" onClick={() => setOpen("copy")}>
        Copy as…
      </button>
      <Steering run={run} open={open} onClose={close} />
      {open === "fork" ? <ForkForm run={run} seq={seq} onClose={close} /> : null}
      {open === "copy" ? <Snippets run={run} seq={seq} event={events[0]} onClose={close} /> : null}
    </div>
  );
}

/** Returns the events that the caller may emit from outside now. */
function useEvents(run: Run, graph: Graph | undefined): readonly string[] {
  const may = useMay();
  const node = graph?.nodes?.find((n) => n.name === run.state);
  const outside =
    node?.orchestration === "ORCHESTRATION_EXTERNAL" ||
    node?.orchestration === "ORCHESTRATION_HYBRID";
  const over = isTerminal(run.status) || run.imported === true;
  return outside && may("events:external") && !over && !run.paused ? (run.allowedEvents ?? []) : [];
}

interface EventProps extends Omit<Props, "seq"> {
  /** Stands before the buttons, if there are any. */
  lead?: ReactNode;
}

/** Shows a button for every event that the caller may emit from outside now. */
export function EventButtons({ run, graph, document, lead, onStale }: EventProps) {
  const [event, setEvent] = useState<string>();
  const events = useEvents(run, graph);
  return (
    <>
      {events.length > 0 ? lead : null}
      {events.map((name) => (
        <button
          type="button"
          key={name}
          className="button primary"
          title={nextStates(graph, run, name).words}
          onClick={() => setEvent(name)}
        >
          {name}
        </button>
      ))}
      {event === undefined ? null : (
        <EmitForm
          run={run}
          event={event}
          answers={events}
          graph={graph}
          document={document}
          onStale={onStale}
          onClose={() => setEvent(undefined)}
        />
      )}
    </>
  );
}

type Steer = "input" | "say" | "stop" | "pause" | "resume" | "cancel";

function SteeringButtons({ paused, onOpen }: { paused: boolean; onOpen: (kind: Steer) => void }) {
  return (
    <>
      <button type="button" className="button" onClick={() => onOpen("input")}>
        Send input
      </button>
      <button type="button" className="button" onClick={() => onOpen("say")}>
        Add a message
      </button>
      <button type="button" className="button" onClick={() => onOpen("stop")}>
        Stop
      </button>
      <button type="button" className="button" onClick={() => onOpen(paused ? "resume" : "pause")}>
        {paused ? "Resume" : "Pause"}
      </button>
      <button type="button" className="button danger" onClick={() => onOpen("cancel")}>
        Cancel run
      </button>
    </>
  );
}

interface SteeringProps {
  run: Run;
  open: string | undefined;
  onClose: () => void;
}

/** Shows the form of a steering message to an active run. */
function Steering({ run, open, onClose }: SteeringProps) {
  return (
    <>
      {open === "input" ? <InputForm run={run} onClose={onClose} /> : null}
      {open === "say" ? <SteerForm run={run} onClose={onClose} /> : null}
      {open === "stop" ? (
        <NoteForm run={run} verb="stop" title="Stop the open turn" onClose={onClose}>
          The open turn and its calls end, and their messages join the conversation. The run then
          waits for an input or a message.
        </NoteForm>
      ) : null}
      {open === "pause" ? (
        <NoteForm run={run} verb="pause" title="Pause this run" onClose={onClose}>
          No turn or step starts, and events are refused, until you resume the run. Wall time
          continues.
        </NoteForm>
      ) : null}
      {open === "resume" ? (
        <NoteForm run={run} verb="resume" title="Resume this run" onClose={onClose}>
          Turns and steps start again.
        </NoteForm>
      ) : null}
      {open === "cancel" ? (
        <NoteForm run={run} verb="cancel" title="Cancel this run" danger onClose={onClose}>
          The run and the runs that it delegated to end permanently. Artifacts stay.
        </NoteForm>
      ) : null}
    </>
  );
}

interface NoteProps {
  run: Run;
  verb: "stop" | "pause" | "resume" | "cancel";
  title: string;
  danger?: boolean;
  onClose: () => void;
  children: ReactNode;
}

function NoteForm({ run, verb, title, danger, onClose, children }: NoteProps) {
  const [note, setNote] = useState("");
  const [requestId] = useState(() => crypto.randomUUID());
  const { busy, problem, send } = useSend(onClose);
  return (
    <Dialog title={title} onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send(`${runPath(run.runId)}:${verb}`, { note, requestId });
        }}
      >
        <p>{children}</p>
        <label className="field">
          Note, kept in the record
          <input value={note} maxLength={1024} onChange={(e) => setNote(e.target.value)} />
        </label>
        <SendRow busy={busy} problem={problem} verb={title} danger={danger} onClose={onClose} />
      </form>
    </Dialog>
  );
}

function InputForm({ run, onClose }: { run: Run; onClose: () => void }) {
  const [text, setText] = useState("");
  const [messageId] = useState(() => crypto.randomUUID());
  const { busy, problem, send } = useSend(onClose);
  return (
    <Dialog title="Send input" onClose={onClose}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          void send(`${runPath(run.runId)}/inputs`, { parts: [{ text }], messageId });
        }}
      >
        <label className="field">
          Message for the next turn of this visit
          <textarea rows={5} value={text} onChange={(e) => setText(e.target.value)} required />
        </label>
        <SendRow busy={busy} problem={problem} verb="Send" onClose={onClose} />
      </form>
    </Dialog>
  );
}
