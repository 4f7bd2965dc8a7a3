import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Body, Entry } from "../api/types";
import { Badge } from "./badge";
import { CopyButton } from "./copy_button";
import { Fact } from "./detail_row";
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
  /** Newest record of the run. */
  last: number;
  onSeq: (seq: number) => void;
}

/** Everything that one record says. */
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
        <Fact name="At">
          {when(entry.at).slice(0, 10)} {timeOf(entry.at)}
        </Fact>
        <Fact name="By">{entry.principal}</Fact>
        {entry.cause && entry.cause !== "CAUSE_UNSPECIFIED" ? (
          <Fact name="Cause">
            {entry.cause.replace("CAUSE_", "").toLowerCase().replace("_", " ")}
          </Fact>
        ) : null}
        <Facts entry={entry} onSeq={onSeq} />
        <Fact name="Hash">
          <span className="mono" title={entry.hash}>
            {entry.hash.slice(0, 16)}…
          </span>
        </Fact>
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
        <Fact name="Answered">{body.call}, which changed nothing</Fact>
      ) : null}
      <Fact name="Kept id">{body.id}</Fact>
    </>
  );
}

function Facts({ entry, onSeq }: { entry: Entry; onSeq: (seq: number) => void }) {
  const { body, kind } = entry;
  return (
    <>
      {kind === "transition" ? <TransitionFacts body={body} /> : null}
      {(body.redirects ?? []).map((r) => (
        <Fact key={r.guard} name="Refused">
          {r.state} by {r.guard}
        </Fact>
      ))}
      {body.turnSeq ? (
        <Fact name="Turn">
          <button type="button" className="link" onClick={() => onSeq(Number(body.turnSeq))}>
            #{body.turnSeq}
          </button>
        </Fact>
      ) : null}
      {body.attempt ? <Fact name="Attempt">{body.attempt}</Fact> : null}
      {kind === "turnCompleted" && body.event ? <Fact name="Asks for">{body.event}</Fact> : null}
      {ofModel(entry) ? <ModelFacts body={body} /> : body.tool ? <ToolFacts body={body} /> : null}
      {body.remote?.taskId ? <Fact name="Task">{body.remote.taskId}</Fact> : null}
      {body.remote?.cardUrl ? <Fact name="Card">{body.remote.cardUrl}</Fact> : null}
      {body.worker ? <Fact name="Worker">{body.worker}</Fact> : null}
      {body.assigned ? (
        <Fact name="Worker">
          {body.assigned.worker}, delivery {body.assigned.delivery}
        </Fact>
      ) : null}
      {body.next ? (
        <Fact name="Next attempt">{`${body.next}${body.notBefore ? ` at ${timeOf(body.notBefore)}` : ""}`}</Fact>
      ) : null}
      {body.reason ? <Fact name="Why">{body.reason}</Fact> : null}
      {kind === "noChange" ? <NoChangeFacts body={body} /> : null}
      {body.note ? <Fact name="Note">{body.note}</Fact> : null}
      {body.denial ? (
        <Fact name="Refused">
          {body.denial.code}: {body.denial.message}
        </Fact>
      ) : null}
      {kind === "stepDecided" ? <Fact name="Verdict">{verdictWord(body.verdict)}</Fact> : null}
      {kind === "stepDecided" && body.reason ? <Fact name="Reason">{body.reason}</Fact> : null}
      {kind === "steered" ? <Fact name="Counts">{whenWord(body.when)}</Fact> : null}
      {kind === "budgetRaised" ? <Fact name="Why">{body.reason}</Fact> : null}
      {kind === "ended" ? <EndFacts body={body} /> : null}
      {kind === "origin" ? (
        <Fact name="Copied from">
          <Link href={`/runs/${body.runId}?seq=${body.seq}`}>
            {body.runId} #{body.seq}
          </Link>
        </Fact>
      ) : null}
      {body.usage ? <Fact name="Usage">{usageWords(body.usage)}</Fact> : null}
    </>
  );
}

function ToolFacts({ body }: { body: Body }) {
  const call = callOf(body);
  return (
    <>
      <Fact name="Tool">
        {body.tool}
        {body.step ? ` #${body.step}` : ""}
        {body.delegation ? ", an agent" : ""}
      </Fact>
      {call ? (
        <Fact name="Asked by">
          the model, step #{call.modelStep}, call {call.index ?? 0}
        </Fact>
      ) : null}
    </>
  );
}

function TransitionFacts({ body }: { body: Body }) {
  return (
    <>
      <Fact name="From">{body.fromState || "the start"}</Fact>
      {body.event ? <Fact name="Event">{body.event}</Fact> : null}
      <Fact name="To">{body.toState}</Fact>
      {body.intendedState && body.intendedState !== body.toState ? (
        <Fact name="Intended">{body.intendedState}</Fact>
      ) : null}
      <Fact name="Visit">
        {body.visit} of this state, {body.totalVisits} in all
      </Fact>
    </>
  );
}

function EndFacts({ body }: { body: Body }) {
  return (
    <>
      <Fact name="Status">
        <Badge status={body.status ?? ""} /> {body.reason}
      </Fact>
      {body.event ? (
        <Fact name="Lost event">
          {body.event}
          {body.intendedState ? `, to ${body.intendedState}` : ""}
        </Fact>
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
        <Section title={entry.kind === "noticeAdded" ? "The model is told" : "Said"}>
          <Text text={body.text} label="What is said" />
        </Section>
      ) : null}
      {body.question?.length ? (
        <Section title="It asks">
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
