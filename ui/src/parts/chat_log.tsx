import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { Link } from "wouter";
import { get, runPath } from "../api/client";
import type { Call, Item } from "../api/conversation";
import type { Approval, Part, Run } from "../api/types";
import type { ApprovalList } from "./approval_list";
import { useMay } from "./caller";
import { type Choice, DecideForm } from "./decide_form";
import { isTerminal, pretty, verdictWord } from "./format";
import { RenderedParts, RenderedValue } from "./rendered";
import { useSend } from "./use_send";
import { Text } from "./value";

interface Props {
  run: Run;
  /** What was said before the run, in the source of a fork. */
  before: readonly Item[];
  items: readonly Item[];
  /** Text of the open turn that is in no record yet. */
  live: string;
}

/** Shows the conversation of a run. Screen readers announce each message when it is complete. */
export function ChatLog({ run, before, items, live }: Props) {
  const held = useHeld(run);
  return (
    <div className="chat-log" role="log" aria-label="Conversation" aria-live="polite">
      {[...before, ...items].map((item) =>
        item.kind === "call" ? (
          <CallCard
            key={keyOf(item)}
            run={run}
            call={item}
            approval={item.outcome ? undefined : held.get(item.step)}
          />
        ) : item.kind === "note" ? (
          <p key={keyOf(item)} className={item.bad ? "chat-note bad" : "chat-note"}>
            {item.text}
          </p>
        ) : (
          <Bubble key={keyOf(item)} who={item.kind} parts={item.parts}>
            {item.kind === "user" && item.queued ? "waits for the next turn" : ""}
          </Bubble>
        ),
      )}
      {live ? <Bubble who="agent" parts={[{ text: live }]} busy /> : null}
    </div>
  );
}

const keyOf = ({ runId, seq }: Item): string => `${runId}/${seq}`;

interface BubbleProps {
  who: "user" | "agent";
  parts: readonly Part[];
  /** True: the text is still being written. */
  busy?: boolean;
  children?: string;
}

function Bubble({ who, parts, busy = false, children = "" }: BubbleProps) {
  return (
    <div className={`bubble ${who}${busy ? " live" : ""}`} aria-busy={busy}>
      <span className="hidden">{who === "user" ? "You: " : "Agent: "}</span>
      <RenderedParts parts={parts} label="Message" />
      {children ? <p className="muted">{children}</p> : null}
    </div>
  );
}

/** Returns the held calls of a run by step. */
function useHeld(run: Run): ReadonlyMap<number, Approval> {
  const waits = !isTerminal(run.status) && run.steps?.some((s) => s.approval?.held) === true;
  const { data } = useQuery({
    queryKey: ["approvals", run.runId, run.seq],
    queryFn: ({ signal }) => get<ApprovalList>("/v1/approvals", { runId: run.runId }, signal),
    placeholderData: (before) => before,
    enabled: waits,
  });
  const held = waits ? (data?.approvals ?? []) : [];
  return new Map(held.flatMap((a) => (a.call ? [[a.call.step, a]] : [])));
}

interface CallProps {
  run: Run;
  call: Call;
  /** The open decision about the call; undefined: it is not held. */
  approval: Approval | undefined;
}

function CallCard({ run, call, approval }: CallProps) {
  const { tool, step, agent, decided, outcome, payloadJson, question } = call;
  const waits = approval !== undefined && !decided;
  const card = useRef<HTMLElement>(null);
  return (
    <section
      ref={card}
      tabIndex={-1}
      className={`chat-call${waits ? " asks" : ""}`}
      aria-label={`${agent ? "Agent" : "Tool call"} ${tool} #${step}`}
    >
      <p className="chat-call-head">
        <Link href={`/runs/${call.runId}?seq=${call.seq}`} className="mono">
          {tool}
        </Link>
        <span className={outcome && !outcome.ok ? "bad" : "muted"}>
          {stageOf(call, waits, run)}
        </span>
      </p>
      <RenderedValue value={{ json: payloadJson || "{}" }} label={`Arguments of ${tool}`} />
      {question ? <RenderedParts parts={question} label={`Question of ${tool}`} /> : null}
      {waits ? (
        <Decision run={run} approval={approval} onDone={() => card.current?.focus()} />
      ) : null}
      {outcome?.error ? (
        <p className="bad">
          <span className="mono">{outcome.error.code}</span> {outcome.error.message}
        </p>
      ) : null}
      {outcome?.ok ? (
        <details>
          <summary>Result</summary>
          <Text text={pretty(outcome.json)} label={`Result of ${tool}`} />
        </details>
      ) : null}
    </section>
  );
}

/** Describes how far a call is. */
function stageOf({ decided, outcome, question, agent }: Call, waits: boolean, run: Run): string {
  const verdict = decided
    ? `${verdictWord(decided.verdict)}${decided.reason ? ` (${decided.reason})` : ""}, `
    : "";
  if (outcome) {
    return `${verdict}${outcome.ok ? "done" : outcome.error?.code === "DENIED" ? "not made" : "failed"}`;
  }
  if (waits) {
    return "needs your decision";
  }
  if (isTerminal(run.status)) {
    return `${verdict}not made`;
  }
  return `${verdict}${question ? "asks you" : agent ? "is called" : "waits for its result"}`;
}

interface DecisionProps {
  run: Run;
  approval: Approval;
  /** Called when the decision is made: the focused button goes away. */
  onDone: () => void;
}

/** The buttons that decide about a held call. */
function Decision({ run, approval, onDone }: DecisionProps) {
  const may = useMay();
  const [open, setOpen] = useState<Choice>();
  const [requestId] = useState(() => crypto.randomUUID());
  const { busy, problem, send } = useSend(onDone);
  const call = approval.call ?? { step: 0, tool: "", approval: undefined };
  if (!may("steps:approve")) {
    return <p className="muted">Your token cannot decide: the scope steps:approve is missing.</p>;
  }
  const approve = () =>
    send(`${runPath(run.runId)}/steps/${call.step}:decide`, {
      digest: call.approval?.digest,
      decision: "STEP_DECISION_APPROVE",
      requestId,
    });
  return (
    <>
      <div className="actions">
        <button
          type="button"
          className="button primary"
          disabled={busy}
          onClick={() => void approve()}
        >
          Approve
        </button>
        <button type="button" className="button danger" onClick={() => setOpen("DENY")}>
          Deny…
        </button>
        <button type="button" className="button" onClick={() => setOpen("EDIT")}>
          Change…
        </button>
      </div>
      {problem ? (
        <p className="field-problem" role="alert">
          {problem.message}
        </p>
      ) : null}
      {open ? (
        <DecideForm
          approval={approval}
          waiting
          first={open}
          onClose={() => {
            setOpen(undefined);
            onDone();
          }}
        />
      ) : null}
    </>
  );
}
