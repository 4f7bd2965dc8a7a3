/** Turns records and pieces of output into events, for all readers. */

import { create } from "@bufbuild/protobuf";
import { PawlError } from "./errors.js";
import {
  type ArtifactWrite,
  ArtifactWriteSchema,
  Awaiting,
  type ModelCall,
  PartSchema,
  RecordSchema,
  RunStatus,
  StepKind,
  StepVerdict,
  type Record as WireRecord,
} from "./gen/pawl/v1/record_pb.js";
import type { OutputChunk } from "./gen/pawl/v1/run_pb.js";
import { type ArtifactData, type Plain, plain } from "./plain_message.js";
import type { EventPlace, RunEvent } from "./run_events.js";
import type { Part } from "./values.js";

/** How many characters of one turn are kept, to be shown again after a reset. */
const KEPT = 256 * 1024;

const NUMBERS = /^\d+(\.\d+){7}$/;

type Of<K extends RunEvent["kind"]> = Omit<Extract<RunEvent, { kind: K }>, keyof EventPlace>;
/** An event without its position. */
type SourceItem = { [K in RunEvent["kind"]]: Of<K> }[RunEvent["kind"]];
type Body = NonNullable<Plain<WireRecord>["body"]>;
type BodyOf<C extends string> =
  Extract<Body, { readonly case: C }> extends {
    readonly value: infer V;
  }
    ? V
    : never;

interface Piece {
  readonly reasoning: boolean;
  readonly text: string;
  /** The MODEL step that answered it; 0: none. */
  readonly step: number;
}

/** The shown output of the newest turn. */
class Shown {
  attempt = 0;
  /** Text of the rounds that are over. */
  kept: Piece[] = [];
  /** Text of the current round. */
  partial: Piece[] = [];
  /** True means that an earlier reader had shown text, of the turn or of this round. */
  some = false;
  more = false;
  /** The current MODEL step, as this execution requested it. */
  round = 0;
  /**
   * True: the text of this round is of a call that failed and is made again. It becomes invalid
   * when the next piece follows, unless the executor takes it back.
   */
  broken = false;

  constructor(
    readonly turnSeq: number,
    readonly state: string,
  ) {}

  get text(): string {
    return this.partial.map(({ reasoning, text }) => (reasoning ? "" : text)).join("");
  }

  get any(): boolean {
    return this.kept.length > 0 || this.partial.length > 0 || this.some || this.more;
  }

  show(reasoning: boolean, text: string): void {
    const last = this.partial.at(-1);
    if (last?.reasoning === reasoning) {
      this.partial[this.partial.length - 1] = { ...last, text: last.text + text };
    } else {
      this.partial.push({ reasoning, text, step: 0 });
    }
  }

  /** Keeps the text of this round. */
  keep(step: number): void {
    this.kept.push(...this.partial.map((piece) => ({ ...piece, step })));
    this.some ||= this.more;
    this.more = false;
    this.partial = [];
    while (this.kept.reduce((sum, { text }) => sum + text.length, 0) > KEPT) {
      this.kept.shift();
    }
  }

  forget(): void {
    this.kept = [];
    this.partial = [];
    this.some = false;
    this.more = false;
    this.round = 0;
    this.broken = false;
  }
}

/**
 * Turns a stream of one run into events: all records of known kinds in order, each with the run's
 * status after its commit, and pieces of output. It makes no calls. It begins after the event with
 * the `cursor`; empty: with the first event. Reason: BAD_CURSOR.
 */
export class EventSource {
  readonly #runId: string;
  #afterSeq: number;
  /** How many events of the next record were returned before. */
  #skip: number;
  #shown: Shown;
  #included: { readonly turnSeq: number; readonly delivery: number; readonly offset: number };
  /** Calls of answers, by MODEL step. */
  readonly #calls = new Map<number, readonly Plain<ModelCall>[]>();
  readonly #requests = new Map<number, Plain<{ modelStep: number; index: number }> | undefined>();
  /** Steps of the sidecar: they ask about another step, or compensate one. */
  readonly #own = new Set<number>();
  #output: readonly Part[] = [];

  constructor(runId: string, cursor = "") {
    this.#runId = runId;
    const numbers = numbersOf(cursor);
    const [afterSeq, skip, turnSeq, attempt, shown, turn, delivery, offset] = numbers;
    this.#afterSeq = afterSeq;
    this.#skip = skip;
    this.#shown = new Shown(turnSeq, "");
    this.#shown.attempt = attempt;
    this.#shown.some = shown > 0;
    this.#shown.more = shown > 1;
    this.#shown.broken = shown > 2;
    this.#included = { turnSeq: turn, delivery, offset };
  }

  get afterSeq(): number {
    return this.#afterSeq;
  }

  get included() {
    return this.#included;
  }

  /** Returns the events of the next record. */
  record(wire: WireRecord, status: RunStatus): RunEvent[] {
    const before = this.#mark();
    const record = plain(RecordSchema, wire);
    const events = [...this.#of(record, wire, status)].map((each) => this.#here(each, record));
    this.#afterSeq = record.seq;
    const skip = this.#skip;
    this.#skip = 0;
    return events
      .map((event, index) => {
        const last = index === events.length - 1;
        const cursor = last ? this.#cursor : `${record.seq - 1}.${index + 1}${before}`;
        return { ...event, seq: record.seq, cursor };
      })
      .slice(skip);
  }

  /** Returns the events of a piece of output. Throws a PawlError of kind "gap". */
  chunk(wire: OutputChunk): RunEvent[] {
    const { attempt, delivery, text, reset, reasoning } = wire;
    const [turnSeq, offset] = [Number(wire.turnSeq), Number(wire.offset)];
    const end = offset + new TextEncoder().encode(text).length;
    const same = turnSeq === this.#included.turnSeq && delivery === this.#included.delivery;
    if (same && !reset) {
      if (offset > this.#included.offset) {
        throw this.#gap(turnSeq, offset);
      }
      if (end <= this.#included.offset) {
        return [];
      }
    }
    const events: RunEvent[] = [];
    const shown = this.#enter(turnSeq, attempt);
    if ((reset || !same) && shown.any) {
      shown.forget();
      this.#included = { turnSeq, delivery, offset };
      events.push(this.#piece({ kind: "reset" }));
    }
    for (const report of this.#broken()) {
      events.push(this.#piece(report));
    }
    this.#included = { turnSeq, delivery, offset: end };
    if (text !== "") {
      shown.show(reasoning, text);
      events.push(this.#piece({ kind: reasoning ? "reasoning" : "text", text }));
    }
    return events;
  }

  #gap(turnSeq: number, offset: number): PawlError {
    const read = `but the last one read was ${this.#included.offset}`;
    const text = `output of turn ${turnSeq} continues at byte ${offset}, ${read}`;
    return new PawlError("gap", `run ${this.#runId}: ${text}`, { reason: "STREAM_GAP" });
  }

  /** Returns an event that belongs to no record. */
  #piece(reported: SourceItem): RunEvent {
    const { turnSeq, attempt } = this.#shown;
    const place = { runId: this.#runId, seq: this.#afterSeq, cursor: this.#cursor };
    return { ...reported, ...place, turnSeq, attempt } as RunEvent;
  }

  /** The position after all events so far. */
  get #cursor(): string {
    return `${this.#afterSeq}.0${this.#mark()}`;
  }

  #mark(): string {
    const { turnSeq, attempt, kept, partial, some, more, broken } = this.#shown;
    const all = kept.length > 0 || some ? 1 : 0;
    const whole = partial.length > 0 || more ? 2 : all;
    const shown = broken ? 3 : whole;
    const { turnSeq: turn, delivery, offset } = this.#included;
    return `.${turnSeq}.${attempt}.${shown}.${turn}.${delivery}.${offset}`;
  }

  /** Returns the event of the newest turn, if the event belongs to a turn. */
  #here(
    [received, turnSeq, attempt]: [SourceItem, number, number],
    record: Plain<WireRecord>,
  ): RunEvent {
    const { case: kind } = record.body;
    const said = received.kind === "message" && (kind === "inputReceived" || kind === "steered");
    const ofRun = ["input", "auth", "paused"];
    const isWaiting =
      received.kind === "wait" && received.step === 0 && ofRun.includes(received.on);
    const none = said || isWaiting || ["transition", "artifact", "end"].includes(received.kind);
    const place = none ? { turnSeq: 0, attempt: 0 } : { turnSeq, attempt };
    return { ...received, ...place, runId: this.#runId, seq: record.seq, cursor: "" } as RunEvent;
  }

  #enter(turnSeq: number, attempt: number, state = ""): Shown {
    if (this.#shown.turnSeq !== turnSeq) {
      this.#shown = new Shown(turnSeq, state);
    }
    if (attempt > 0) {
      this.#shown.attempt = attempt;
    }
    return this.#shown;
  }

  /** Iterates over the events of a record, each with its turn and attempt. */
  *#of(
    record: Plain<WireRecord>,
    wire: WireRecord,
    status: RunStatus,
  ): Generator<[SourceItem, number, number]> {
    for (const told of this.#addMessage(record, wire, status)) {
      yield [told, this.#shown.turnSeq, this.#shown.attempt];
    }
  }

  *#addMessage(
    { seq, body }: Plain<WireRecord>,
    wire: WireRecord,
    status: RunStatus,
  ): Generator<SourceItem> {
    switch (body.case) {
      case "transition":
      case "origin":
        return yield* this.#entered(seq, body, wire, status);
      case "turnOpened":
        this.#calls.clear();
        return yield* this.#began(seq, 1, body.value.state);
      case "turnReady":
        return yield* this.#began(body.value.turnSeq, body.value.attempt, "");
      case "turnCompleted":
        return yield* this.#completed(body.value, wire, status);
      case "turnFailed":
        return yield* this.#failed(body.value, status);
      case "turnAbandoned":
        return yield* this.#over(body.value, "abandoned");
      case "turnSuspended":
        yield* this.#over(body.value, "suspended");
        return yield waits({ on: "steps", steps: body.value.pending });
      case "stopped":
        return yield* this.#stopped(body.value, status);
      case "inputReceived":
        if (body.value.step === 0) {
          yield message({ role: "user", parts: body.value.parts });
        }
        return;
      case "steered":
        return yield message({ role: "user", parts: [textPart(body.value.text)] });
      case "paused":
        return yield waits({ on: "paused" });
      case "artifactsSet":
        return yield* written(wire);
      case "ended":
        return yield* this.#ended(body.value, wire);
      default:
        return yield* this.#step(body, wire);
    }
  }

  *#entered(
    seq: number,
    body: Extract<Body, { case: "transition" | "origin" }>,
    wire: WireRecord,
    status: RunStatus,
  ): Generator<SourceItem> {
    const kind = "transition";
    if (body.case === "origin") {
      yield { kind, source: "", event: "", to: body.value.state, visit: 0 };
    } else {
      const { fromState: source, event, toState: to, visit } = body.value;
      yield { kind, source, event, to, visit };
      this.#calls.clear();
    }
    yield* written(wire);
    if (status === RunStatus.WAITING) {
      yield waits({ on: "input" });
    } else if (body.case === "transition") {
      yield* this.#began(seq, 1, body.value.toState);
    }
  }

  *#began(turnSeq: number, attempt: number, state: string): Generator<SourceItem> {
    const turn = this.#enter(turnSeq, attempt, state);
    yield { kind: "turn_began", state: turn.state };
  }

  *#over(
    { turnSeq, attempt }: { readonly turnSeq: number; readonly attempt: number },
    outcome: "abandoned" | "suspended",
  ): Generator<SourceItem> {
    this.#enter(turnSeq, attempt);
    yield turnEnded({ outcome });
  }

  *#completed(
    body: BodyOf<"turnCompleted">,
    wire: WireRecord,
    status: RunStatus,
  ): Generator<SourceItem> {
    const shown = this.#enter(body.turnSeq, body.attempt);
    this.#output = body.output;
    yield* this.#broken();
    if (!shown.any) {
      yield* this.#whole(textOfParts(body.output));
    }
    yield* written(wire);
    for (const said of body.messages) {
      yield given(said);
    }
    if (
      body.messages.length === 0 &&
      body.output.length > 0 &&
      body.conversationThroughStep === 0
    ) {
      yield message({ role: "assistant", parts: body.output });
    }
    const { output, event, usage } = body;
    yield turnEnded({ outcome: "completed", output, event, usage });
    if (status === RunStatus.WAITING && event === "") {
      yield waits({ on: body.awaiting === Awaiting.AUTH ? "auth" : "input" });
    }
  }

  *#failed(body: BodyOf<"turnFailed">, status: RunStatus): Generator<SourceItem> {
    const shown = this.#enter(body.turnSeq, body.attempt);
    const { rejectedStep: rejected, usage, error, next, notBefore } = body;
    shown.round = 0;
    if (next > 0) {
      const remains = ({ step }: Piece) => step > 0 && !(rejected > 0 && step >= rejected);
      yield* this.#void(shown.kept.filter(remains));
    }
    yield turnEnded({ outcome: "failed", usage, error, next, rejectedStep: rejected });
    if (next > 0 && notBefore === undefined) {
      yield* this.#began(body.turnSeq, next, "");
    } else if (next > 0 && status === RunStatus.WAITING) {
      yield waits({ on: "timer", until: notBefore });
    }
  }

  *#stopped(body: BodyOf<"stopped">, status: RunStatus): Generator<SourceItem> {
    if (body.turnSeq > 0) {
      yield* this.#over(body, "abandoned");
    }
    if (status === RunStatus.WAITING) {
      yield waits({ on: "input" });
    }
  }

  *#ended(body: BodyOf<"ended">, wire: WireRecord): Generator<SourceItem> {
    yield* written(wire);
    const values = body.finalArtifacts.map(({ head, value }) => [head?.name ?? "", value ?? null]);
    const artifacts: { [name: string]: ArtifactData } = Object.fromEntries(values);
    const { status, reason } = body;
    yield { kind: "end", status, reason, output: this.#output, artifacts };
  }

  *#step(body: Body, wire: WireRecord): Generator<SourceItem> {
    switch (body.case) {
      case "stepRequested":
        return yield* this.#requested(body.value);
      case "stepResolved":
        return yield* this.#resolved(body.value, wire);
      case "stepCancelled":
        return yield* this.#cancelled(body.value);
      case "stepRejected":
        if (body.value.kind !== StepKind.MODEL && body.value.denial) {
          const { tool, denial } = body.value;
          yield this.#result({ step: 0, tool, ok: false, error: { ...denial, trace: "" } });
        }
        return;
      case "stepDecided":
        if (body.value.verdict === StepVerdict.EXPIRED) {
          const { step, tool, digest, deadline: until } = body.value;
          yield waits({ on: "approval", step, tool, digest, until });
        }
        return;
      case "stepDelegated": {
        const { step, tool, remote, question: parts } = body.value;
        if (remote && remote.awaiting !== Awaiting.UNSPECIFIED) {
          yield waits({
            on: remote.awaiting === Awaiting.AUTH ? "auth" : "input",
            step,
            tool,
            parts,
          });
        }
      }
    }
  }

  *#requested(body: BodyOf<"stepRequested">): Generator<SourceItem> {
    const { step, tool, call, hold } = body;
    if (body.kind === StepKind.MODEL) {
      return yield* this.#roundBegan(body);
    }
    if (body.about) {
      this.#own.add(step);
      return;
    }
    this.#requests.set(step, call);
    yield {
      kind: "tool_call",
      step,
      tool,
      payload: body.payload,
      call,
      callId: this.#callId(call),
    };
    if (hold) {
      yield waits({ on: "approval", step, tool, digest: hold.digest, until: body.deadline });
    }
  }

  *#roundBegan(body: BodyOf<"stepRequested">): Generator<SourceItem> {
    const { step, tool, attempt, model } = body;
    const turn = this.#enter(body.turnSeq, 0);
    yield* this.#broken();
    if (turn.round === step || (turn.more && attempt > 1)) {
      yield* this.#void([...turn.kept]);
    } else {
      turn.keep(0);
    }
    turn.round = step;
    for (const { content } of attempt === 1 && model ? model.messages : []) {
      if (content.case === "message") {
        yield given(content.value);
      }
    }
    yield { kind: "round_began", step, model: tool, tryNumber: attempt };
  }

  *#resolved(body: BodyOf<"stepResolved">, wire: WireRecord): Generator<SourceItem> {
    const { step, tool, ok, result, error, next } = body;
    if (body.kind === StepKind.MODEL) {
      yield* this.#roundEnded(body);
    } else if (next === 0 && !this.#isOwn(step)) {
      yield this.#result({ step, tool, ok, result, error });
    }
    yield* written(wire);
  }

  *#roundEnded(body: BodyOf<"stepResolved">): Generator<SourceItem> {
    const { step, tool, ok, usage, error, next, answer } = body;
    if (!ok && next > 0) {
      this.#shown.broken = this.#shown.partial.length > 0 || this.#shown.more;
    }
    if (ok) {
      yield* this.#broken();
      this.#shown.round = 0;
      const { parts = [], calls = [], refusal = "" } = answer ?? {};
      yield* this.#whole(textOfParts(parts));
      this.#shown.keep(step);
      this.#calls.set(step, calls);
      yield message({ role: "assistant", parts, calls, refusal, step });
    }
    const finishReason = answer?.finishReason ?? "";
    const model = answer?.model || tool;
    yield { kind: "round_ended", step, model, ok, usage, finishReason, error, next };
  }

  *#cancelled({ step, tool, reason, kind, usage }: BodyOf<"stepCancelled">): Generator<SourceItem> {
    const error = { code: "CANCELLED", message: reason, trace: "" };
    if (kind === StepKind.MODEL) {
      const none = { ok: false, finishReason: "", next: 0 };
      yield { kind: "round_ended", step, model: tool, usage, error, ...none };
    } else if (!this.#isOwn(step)) {
      yield this.#result({ step, tool, ok: false, error });
    }
  }

  /** Discards the shown text except these pieces. */
  *#void(kept: readonly Piece[]): Generator<SourceItem> {
    const shown = this.#shown;
    if (shown.partial.length === 0 && kept.length === shown.kept.length && !shown.more) {
      return;
    }
    shown.forget();
    yield { kind: "reset" };
    for (const { step, reasoning, text } of kept) {
      shown.show(reasoning, text);
      shown.keep(step);
      yield { kind: reasoning ? "reasoning" : "text", text };
    }
  }

  /** Discards the text of a call that failed and is made again, if it is still shown. */
  *#broken(): Generator<SourceItem> {
    const { broken, kept, round } = this.#shown;
    if (broken) {
      yield* this.#void([...kept]);
      this.#shown.round = round;
    }
  }

  /** Shows the part of a complete text that was not shown before. */
  *#whole(text: string): Generator<SourceItem> {
    const { text: said, more } = this.#shown;
    const rest = text.slice(said.length);
    if (!more && text.startsWith(said) && rest !== "") {
      this.#shown.show(false, rest);
      yield { kind: "text", text: rest };
    }
  }

  /** Whether a step that is over belongs to the sidecar. */
  #isOwn(step: number): boolean {
    return this.#own.delete(step);
  }

  #result(
    told: Pick<Of<"tool_result">, "step" | "tool" | "ok"> & Partial<Of<"tool_result">>,
  ): SourceItem {
    const call = this.#requests.get(told.step);
    this.#requests.delete(told.step);
    const callId = this.#callId(call);
    return { kind: "tool_result", result: undefined, error: undefined, ...told, call, callId };
  }

  #callId(call: Of<"tool_call">["call"]): string {
    return (call && this.#calls.get(call.modelStep)?.[call.index]?.id) ?? "";
  }
}

function waits(what: Pick<Of<"wait">, "on"> & Partial<Of<"wait">>): SourceItem {
  const nothing = { step: 0, tool: "", digest: "", steps: [], parts: [], until: undefined };
  return { kind: "wait", ...nothing, ...what };
}

function message(what: Pick<Of<"message">, "role" | "parts"> & Partial<Of<"message">>): SourceItem {
  return { kind: "message", calls: [], callId: "", refusal: "", step: 0, ...what };
}

function turnEnded(
  what: Pick<Of<"turn_ended">, "outcome"> & Partial<Of<"turn_ended">>,
): SourceItem {
  const nothing = { output: [], event: "", usage: undefined, error: undefined };
  return { kind: "turn_ended", ...nothing, next: 0, rejectedStep: 0, ...what };
}

/** Returns a message that an executor sent. */
function given(said: BodyOf<"turnCompleted">["messages"][number]): SourceItem {
  const { role, parts, toolCalls, toolCallId: callId, refusal } = said;
  const calls = (Array.isArray(toolCalls) ? toolCalls : []).map((call) => {
    const text = (name: string) =>
      String((call as { [name: string]: unknown } | null)?.[name] ?? "");
    return {
      id: text("id"),
      name: text("name"),
      arguments: text("arguments"),
      brokenArguments: "",
    };
  });
  return message({ role, parts, calls, callId, refusal });
}

function* written({ body }: WireRecord): Generator<SourceItem> {
  const { artifactsWritten = [] } = (body.value ?? {}) as { artifactsWritten?: ArtifactWrite[] };
  for (const write of artifactsWritten) {
    const { name, value } = plain(ArtifactWriteSchema, write);
    const mediaType = write.value?.mediaType ?? "";
    yield { kind: "artifact", name, value: value ?? null, mediaType };
  }
}

function textPart(text: string): Part {
  return plain(PartSchema, create(PartSchema, { content: { case: "text", value: text } }));
}

function textOfParts(parts: readonly Part[]): string {
  return parts.map(({ content }) => (content.case === "text" ? content.value : "")).join("");
}

type Numbers = [number, number, number, number, number, number, number, number];

function numbersOf(cursor: string): Numbers {
  if (cursor === "") {
    return [0, 0, 0, 0, 0, 0, 0, 0];
  }
  if (!NUMBERS.test(cursor)) {
    const text = `after: must be the cursor of an event, not ${JSON.stringify(cursor)}`;
    throw new PawlError("request", text, { reason: "BAD_CURSOR", metadata: { field: "after" } });
  }
  return cursor.split(".").map(Number) as Numbers;
}
