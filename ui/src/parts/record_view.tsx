import type { ReactNode } from "react";
import { Link } from "wouter";
import type { Body, Entry } from "../api/types";
import { Badge } from "./badge";
import { CopyButton } from "./copy_button";
import { Messages, Text, textOfParts, textOfValue } from "./value";
import { dollars, kindWord, number, pretty, timeOf, when } from "./words";

/** Everything that one record says. */
export function RecordView({ entry, onSeq }: { entry: Entry; onSeq: (seq: number) => void }) {
  const { body } = entry;
  return (
    <article className="record-view">
      <header>
        <h3>
          #{entry.seq} {kindWord(entry.kind)}
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
        <Facts body={body} kind={entry.kind} onSeq={onSeq} />
        <Fact name="Hash">
          <span className="mono" title={entry.hash}>
            {entry.hash.slice(0, 16)}…
          </span>
        </Fact>
      </dl>
      <Bodies entry={entry} />
    </article>
  );
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  );
}

function NotedFacts({ body }: { body: Body }) {
  return (
    <>
      {body.call ? <Fact name="Answered">{body.call}, which changed nothing</Fact> : null}
      <Fact name="Kept id">{body.id}</Fact>
    </>
  );
}

function Facts({ body, kind, onSeq }: { body: Body; kind: string; onSeq: (seq: number) => void }) {
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
      {body.tool ? (
        <Fact name="Tool">
          {body.tool}
          {body.step ? ` #${body.step}` : ""}
          {body.delegation ? ", an agent" : ""}
        </Fact>
      ) : null}
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
      {body.why ? <Fact name="Why">{body.why}</Fact> : null}
      {kind === "noted" ? <NotedFacts body={body} /> : null}
      {body.note ? <Fact name="Note">{body.note}</Fact> : null}
      {body.denial ? (
        <Fact name="Refused">
          {body.denial.code}: {body.denial.message}
        </Fact>
      ) : null}
      {kind === "ended" ? <EndFacts body={body} /> : null}
      {kind === "origin" ? (
        <Fact name="Copied from">
          <Link href={`/runs/${body.runId}?seq=${body.seq}`}>
            {body.runId} #{body.seq}
          </Link>
        </Fact>
      ) : null}
      {body.usage ? <UsageFact usage={body.usage} /> : null}
    </>
  );
}

function TransitionFacts({ body }: { body: Body }) {
  return (
    <>
      <Fact name="From">{body.from || "the start"}</Fact>
      {body.event ? <Fact name="Event">{body.event}</Fact> : null}
      <Fact name="To">{body.to}</Fact>
      {body.intendedState && body.intendedState !== body.to ? (
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

function UsageFact({ usage }: { usage: NonNullable<Body["usage"]> }) {
  return (
    <Fact name="Usage">
      {number(Number(usage.inputTokens ?? 0))} in, {number(Number(usage.outputTokens ?? 0))} out
      {Number(usage.costMicroUsd ?? 0) > 0 ? `, ${dollars(Number(usage.costMicroUsd))}` : ""}
      {usage.toolCalls ? `, ${usage.toolCalls} tool calls` : ""}
    </Fact>
  );
}

function Bodies({ entry: { body } }: { entry: Entry }) {
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
