import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Body, Entry } from "../api/types";
import { Badge } from "./badge";
import { CopyButton } from "./copy_button";
import { DetailRow } from "./detail_row";
import {
  callOf,
  kindWord,
  ofModel,
  pretty,
  timeOf,
  usageWords,
  verdictWord,
  when,
  whenWord,
} from "./format";
import { ModelFacts } from "./model_facts";
import { ModelView } from "./model_view";
import { Messages, Text, textOfParts, textOfValue } from "./value";

interface Props {
  entry: Entry;
  /** Seq of the newest record of the run. */
  last: number;
  onSeq: (seq: number) => void;
}

/** Shows all properties of one record. */
export function RecordView({ entry, last, onSeq }: Props) {
  const { body } = entry;
  return (
    <article className="record-view">
      <header>
        <h3>
          #{entry.seq} {kindWord(entry)}
        </h3>
        <CopyButton
          text={`${location.origin}/ui/runs/${entry.runId}?seq=${entry.seq}`}
          what="link"
        />
      </header>
      <dl className="facts">
        <DetailRow name="At">
          {when(entry.at).slice(0, 10)} {timeOf(entry.at)}
        </DetailRow>
        <DetailRow name="By">{entry.principal}</DetailRow>
        {entry.cause && entry.cause !== "CAUSE_UNSPECIFIED" ? (
          <DetailRow name="Cause">
            {entry.cause.replace("CAUSE_", "").toLowerCase().replace("_", " ")}
          </DetailRow>
        ) : null}
        <Facts entry={entry} onSeq={onSeq} />
        <DetailRow name="Hash">
          <span className="mono" title={entry.hash}>
            {entry.hash.slice(0, 16)}…
          </span>
        </DetailRow>
      </dl>
      <Bodies entry={entry} />
      {ofModel(entry) && body.step ? (
        <ModelView key={body.step} entry={entry} step={body.step} last={last} onSeq={onSeq} />
      ) : null}
    </article>
  );
}

function NoChangeFacts({ body }: { body: Body }) {
  return (
    <>
      {typeof body.call === "string" ? (
        <DetailRow name="Answered">{body.call}, which changed nothing</DetailRow>
      ) : null}
      <DetailRow name="Kept id">{body.id}</DetailRow>
    </>
  );
}

function Facts({ entry, onSeq }: { entry: Entry; onSeq: (seq: number) => void }) {
  const { body, kind } = entry;
  return (
    <>
      {kind === "transition" ? <TransitionFacts body={body} /> : null}
      {(body.redirects ?? []).map((r) => (
        <DetailRow key={r.guard} name="Refused">
          {r.state} by {r.guard}
        </DetailRow>
      ))}
      {body.turnSeq ? (
        <DetailRow name="Turn">
          <button type="button" className="link" onClick={() => onSeq(Number(body.turnSeq))}>
            #{body.turnSeq}
          </button>
        </DetailRow>
      ) : null}
      {body.attempt ? <DetailRow name="Attempt">{body.attempt}</DetailRow> : null}
      {kind === "turnCompleted" && body.event ? (
        <DetailRow name="Asks for">{body.event}</DetailRow>
      ) : null}
      {ofModel(entry) ? <ModelFacts body={body} /> : body.tool ? <ToolFacts body={body} /> : null}
      {body.remote?.taskId ? <DetailRow name="Task">{body.remote.taskId}</DetailRow> : null}
      {body.remote?.cardUrl ? <DetailRow name="Card">{body.remote.cardUrl}</DetailRow> : null}
      {body.worker ? <DetailRow name="Worker">{body.worker}</DetailRow> : null}
      {body.assigned ? (
        <DetailRow name="Worker">
          {body.assigned.worker}, delivery {body.assigned.delivery}
        </DetailRow>
      ) : null}
      {body.next ? (
        <DetailRow name="Next attempt">{`${body.next}${body.notBefore ? ` at ${timeOf(body.notBefore)}` : ""}`}</DetailRow>
      ) : null}
      {body.reason ? <DetailRow name="Why">{body.reason}</DetailRow> : null}
      {kind === "noChange" ? <NoChangeFacts body={body} /> : null}
      {body.note ? <DetailRow name="Note">{body.note}</DetailRow> : null}
      {body.denial ? (
        <DetailRow name="Refused">
          {body.denial.code}: {body.denial.message}
        </DetailRow>
      ) : null}
      {kind === "stepDecided" ? (
        <DetailRow name="Verdict">{verdictWord(body.verdict)}</DetailRow>
      ) : null}
      {kind === "stepDecided" && body.reason ? (
        <DetailRow name="Reason">{body.reason}</DetailRow>
      ) : null}
      {kind === "steered" ? <DetailRow name="Counts">{whenWord(body.when)}</DetailRow> : null}
      {kind === "budgetRaised" ? <DetailRow name="Why">{body.reason}</DetailRow> : null}
      {kind === "ended" ? <EndFacts body={body} /> : null}
      {kind === "origin" ? (
        <DetailRow name="Copied from">
          <Link href={`/runs/${body.runId}?seq=${body.seq}`}>
            {body.runId} #{body.seq}
          </Link>
        </DetailRow>
      ) : null}
      {body.usage ? <DetailRow name="Usage">{usageWords(body.usage)}</DetailRow> : null}
    </>
  );
}

function ToolFacts({ body }: { body: Body }) {
  const call = callOf(body);
  return (
    <>
      <DetailRow name="Tool">
        {body.tool}
        {body.step ? ` #${body.step}` : ""}
        {body.delegation ? ", an agent" : ""}
      </DetailRow>
      {call ? (
        <DetailRow name="Asked by">
          the model, step #{call.modelStep}, call {call.index ?? 0}
        </DetailRow>
      ) : null}
    </>
  );
}

function TransitionFacts({ body }: { body: Body }) {
  return (
    <>
      <DetailRow name="From">{body.fromState || "the start"}</DetailRow>
      {body.event ? <DetailRow name="Event">{body.event}</DetailRow> : null}
      <DetailRow name="To">{body.toState}</DetailRow>
      {body.intendedState && body.intendedState !== body.toState ? (
        <DetailRow name="Intended">{body.intendedState}</DetailRow>
      ) : null}
      <DetailRow name="Visit">
        {body.visit} of this state, {body.totalVisits} in all
      </DetailRow>
    </>
  );
}

function EndFacts({ body }: { body: Body }) {
  return (
    <>
      <DetailRow name="Status">
        <Badge status={body.status ?? ""} /> {body.reason}
      </DetailRow>
      {body.event ? (
        <DetailRow name="Lost event">
          {body.event}
          {body.intendedState ? `, to ${body.intendedState}` : ""}
        </DetailRow>
      ) : null}
    </>
  );
}

function Bodies({ entry }: { entry: Entry }) {
  const { body } = entry;
  return (
    <>
      {body.error ? (
        <Section title="Error">
          <p className="field-problem">
            <b>{body.error.code}</b> {body.error.message}
          </p>
          {body.error.trace ? <Text text={body.error.trace} label="Traceback" /> : null}
        </Section>
      ) : null}
      {body.parts ? (
        <Section title="Input">
          <Text text={textOfParts(body.parts)} label="Input" />
        </Section>
      ) : null}
      {body.text ? (
        <Section title={entry.kind === "noticeAdded" ? "Notice to the model" : "Message"}>
          <Text text={body.text} label="Message text" />
        </Section>
      ) : null}
      {body.question?.length ? (
        <Section title="Question">
          <Text text={textOfParts(body.question)} label="Question" />
        </Section>
      ) : null}
      {body.piece?.parts ? (
        <Section title="Piece of output">
          <Text text={textOfParts(body.piece.parts)} label="Piece of output" />
        </Section>
      ) : null}
      {body.payloadJson ? (
        <Section title="Arguments">
          <Text text={pretty(body.payloadJson)} label="Arguments" />
        </Section>
      ) : null}
      {body.resultJson ? (
        <Section title="Result">
          <Text text={pretty(body.resultJson)} label="Result" />
        </Section>
      ) : null}
      {body.output?.length ? (
        <Section title="Output">
          <Text text={textOfParts(body.output)} label="Output" />
        </Section>
      ) : null}
      {body.messages?.length ? (
        <Section title="Messages">
          <Messages messages={body.messages} />
        </Section>
      ) : null}
      {(body.artifactsWritten ?? []).map((w) => (
        <Section key={w.name} title={`Writes ${w.name}`}>
          <Text text={textOfValue(w.value)} label={w.name} />
        </Section>
      ))}
    </>
  );
}

function Section({ title, children }: { title: string; children: ReactNode }) {
  return (
    <section className="body-section">
      <h4>{title}</h4>
      {children}
    </section>
  );
}
