/** Whoever holds one turn of a run that the caller drives. */

import { repeatable } from "./advice.js";
import { PawlError } from "./errors.js";
import type { StepResolved } from "./gen/pawl/v1/record_pb.js";
import { RecordKind, StepStatus, StepVerdict } from "./gen/pawl/v1/record_pb.js";
import type { AnswerModelResponse, StepOutcome } from "./gen/pawl/v1/run_pb.js";
import { faultOf, refusedResult } from "./handler_fault.js";
import type { ModelAsk, ModelRound, ModelTold } from "./models.js";
import { ownOrAny } from "./own.js";
import { type Json, keepSource, type Plain } from "./plain.js";
import type { Usage } from "./reply.js";
import type { OutputPiece, TurnRef } from "./request.js";
import { newId, sleep } from "./retry.js";
import type { RunTurns } from "./run_turns.js";
import { Spending, type ToolCall } from "./tool_call.js";
import type { Record } from "./transitions.js";
import { deniedBy, type Step, type StepCall, type TurnHost } from "./turn.js";
import type { AnyPack, ArgumentsOf, NameOf, PackTypes } from "./types.js";
import type { Artifacts, Slots } from "./values.js";

/** A tool that is executed here. What it throws is the error of the step. */
export type Tool<Arguments = Json> = (payload: Arguments, call: ToolCall) => Promise<Json> | Json;

/** Tools by name; "*" takes what has none of its own. */
export type Tools<P extends PackTypes = AnyPack> = {
  readonly [N in NameOf<P["tools"]>]?: Tool<ArgumentsOf<P, N>>;
};

type StepAnswer = Parameters<RunTurns["resolveStep"]>[2];

const ANSWERS = [RecordKind.STEP_RESOLVED, RecordKind.STEP_CANCELLED, RecordKind.ENDED];
const NEWS = [...ANSWERS, RecordKind.STEP_DECIDED, RecordKind.RESUMED];
const RELEASES = [StepVerdict.APPROVED, StepVerdict.EDITED];
const MOST_REFETCHES = 5;

/** Holds a turn. Its token changes when the sidecar restarts; the turn stays the same. */
export class Holder implements TurnHost {
  #fresh: Promise<void> | undefined;

  constructor(
    readonly run: RunTurns,
    public turn: TurnRef,
    readonly slots: Slots,
    readonly tools: Tools,
    readonly signal: AbortSignal | undefined,
    readonly told: {
      /** Gets what became of the calls that were asked for. */
      denied(calls: readonly StepCall[], outcomes: readonly Plain<StepOutcome>[]): void;
    },
  ) {}

  /** Makes a call of the turn; a token that a restart fenced is replaced. */
  async withToken<T>(make: (turn: TurnRef) => Promise<T>): Promise<T> {
    for (let left = MOST_REFETCHES; ; left -= 1) {
      const used = this.turn.token;
      try {
        return await make(this.turn);
      } catch (error) {
        if (!PawlError.is(error, "TURN_TOKEN_STALE") || left === 0) {
          throw error;
        }
        if (this.turn.token === used) {
          this.#fresh ??= this.#refetch(error).finally(() => {
            this.#fresh = undefined;
          });
          await this.#fresh;
        }
      }
    }
  }

  /** Writes artifacts as the holder of the turn. */
  async setArtifacts(artifacts: Artifacts): Promise<void> {
    const options = { id: newId(), slots: this.slots, signal: this.signal };
    await this.withToken((turn) =>
      this.run.setArtifacts(artifacts, { ...options, turnToken: turn.token }),
    );
  }

  /** Keeps a piece of output as the holder of the turn. */
  async writeOutput(piece: OutputPiece): Promise<void> {
    const options = { id: newId(), signal: this.signal };
    await this.withToken((turn) => this.run.writeOutput(turn, piece, options));
  }

  /** Nobody watches the output of a run that the caller drives. */
  async output(): Promise<void> {}

  /** As `output`. */
  async retractOutput(): Promise<void> {}

  /** Asks for tool calls. */
  async request(calls: readonly StepCall[]): Promise<readonly Plain<StepOutcome>[]> {
    const options = { id: newId(), signal: this.signal };
    const answer = await this.withToken((turn) => this.run.requestSteps(turn, calls, options));
    this.told.denied(calls, answer.outcomes);
    return answer.outcomes;
  }

  /** Asks for the call of a model. */
  requestModel(ask: ModelAsk): Promise<ModelRound> {
    const options = { signal: this.signal };
    return this.withToken((turn) => this.run.requestModel(turn, ask, options));
  }

  /** Tells what came of it. */
  answerModel(told: ModelTold): Promise<Plain<AnswerModelResponse>> {
    const options = { signal: this.signal };
    return this.withToken((turn) => this.run.answerModel(turn, told, options));
  }

  /** Keeps the provider's id of a response. */
  async noteModel(step: number, attempt: number, responseId: string): Promise<void> {
    const options = { signal: this.signal };
    const note = { step, attempt, responseId };
    await this.withToken((turn) => this.run.noteModel(turn, note, options));
  }

  /**
   * The step once it is answered. A tool that is local is called here, and only while the
   * sidecar says that the call may go out.
   */
  async settle(asked: Step, call: StepCall, timeoutMs: number | undefined): Promise<Step> {
    const tool = ownOrAny(this.tools, asked.tool);
    const end = timeoutMs === undefined ? undefined : performance.now() + timeoutMs;
    let step = asked;
    let made = 0;
    while (step.status === StepStatus.PENDING) {
      if (!tool) {
        return this.#await(step, end);
      }
      if (!goes(step) || step.attempt <= made) {
        step = await this.#released(step, call, made, end);
        continue;
      }
      made = step.attempt;
      const body = await this.#make(step, tool);
      if (body?.next === 0) {
        return resolved(step, body);
      }
      if (body) {
        // An approval may be over by now: the sidecar holds the call again then.
        const next = { ...step, attempt: body.next, deadline: body.deadline };
        step = step.approval ? await this.#again(step, call) : keepSource(next, step);
      }
    }
    return step;
  }

  async #refetch(stale: PawlError): Promise<void> {
    let turn: TurnRef | undefined;
    try {
      turn = (await this.run.turn({ signal: this.signal })).turn;
    } catch (error) {
      if (PawlError.is(error) && error.kind === "state") {
        // The turn is over; what happened to it is told by the repeated call.
        return;
      }
      throw error;
    }
    if (turn?.turnSeq !== this.turn.turnSeq || turn.attempt !== this.turn.attempt) {
      throw stale;
    }
    this.turn = turn;
  }

  /** Makes an attempt here; undefined: it is not ours any more. */
  async #make(step: Step, tool: Tool): Promise<Plain<StepResolved> | undefined> {
    const spending = this.#spending(step);
    const answer = await outcomeOf(tool, step, spending.call);
    return this.#resolve(step, answer, spending.usage);
  }

  #spending({ step, tool, attempt, key, idempotencyKey, turnSeq, deadline }: Step) {
    const { runId } = this.turn;
    const signal = this.signal ?? new AbortController().signal;
    return new Spending({
      runId,
      step,
      tool,
      attempt,
      key,
      idempotencyKey,
      turnSeq,
      deadline,
      signal,
    });
  }

  async #resolve(step: Step, answer: StepAnswer, usage: Usage | undefined) {
    const tell = (told: StepAnswer) =>
      this.withToken((turn) =>
        this.run.resolveStep(step.step, step.tool, told, {
          attempt: step.attempt,
          token: turn.token,
          usage,
          signal: this.signal,
        }),
      );
    const { record } = await tell(answer).catch((error: unknown) => {
      if ("error" in answer || !isRefusal(error)) {
        throw error;
      }
      // The call did happen: made again with the turn, it would happen twice.
      return tell({ error: refusedResult(error) });
    });
    if (record?.body?.case !== "stepResolved") {
      return undefined;
    }
    const { notBefore } = record.body.value;
    if (notBefore && record.at) {
      // Both times are the server's, so that clocks that differ do no harm.
      await sleep(Math.max(0, notBefore.getTime() - record.at.getTime()), this.signal);
    }
    return record.body.value;
  }

  /** Waits until another party answers the step, or it is not wanted any more. */
  async #await(step: Step, end: End): Promise<Step> {
    for await (const record of this.#records(step.turnSeq, ANSWERS, end)) {
      const answered = answerTo(step, record);
      if (answered) {
        return answered;
      }
    }
    return { ...step, status: StepStatus.CANCELLED };
  }

  /**
   * Waits until a call is answered, or may go out in an attempt above `made`: another party
   * decides about it, or says what came of the attempt before. What goes out is what the
   * sidecar gives out then: it makes the digest of an approved call again, and holds the call
   * again where the approval is over.
   */
  async #released(step: Step, call: StepCall, made: number, end: End): Promise<Step> {
    const after = Math.max(step.turnSeq, step.approval?.decidedSeq ?? 0);
    for await (const record of this.#records(after, NEWS, end)) {
      const answered = answerTo(step, record);
      if (answered) {
        return answered;
      }
      if (isNews(step, record)) {
        const now = await this.#unlessPaused(step, call);
        if (now.status !== StepStatus.PENDING || (goes(now) && now.attempt > made)) {
          return now;
        }
      }
    }
    return { ...step, status: StepStatus.CANCELLED };
  }

  #records(afterSeq: number, kinds: readonly RecordKind[], end: End) {
    const left = end === undefined ? undefined : Math.max(1, Math.ceil(end - performance.now()));
    const options = { kinds, afterSeq, timeoutMs: left, signal: this.signal };
    return this.run.transitions(options);
  }

  /** The step as it is now; nothing goes out while the run is paused. */
  async #unlessPaused(step: Step, call: StepCall): Promise<Step> {
    try {
      return await this.#again(step, call);
    } catch (error) {
      if (PawlError.is(error, "PAUSED")) {
        return step;
      }
      throw error;
    }
  }

  /** The step as it is now: the request is known, and costs nothing. */
  async #again({ key }: Step, call: StepCall): Promise<Step> {
    const [outcome] = await this.request([call.call ? call : { ...call, key }]);
    const refused = outcome && deniedBy(outcome);
    if (refused) {
      throw refused;
    }
    if (!outcome?.step) {
      throw new PawlError("server", "a step request without an outcome");
    }
    return outcome.step;
  }
}

/** When a wait is over, by performance.now(); undefined: never. */
type End = number | undefined;

async function outcomeOf(tool: Tool, { payload }: Step, call: ToolCall): Promise<StepAnswer> {
  try {
    return { result: (await tool(payload === undefined ? {} : payload, call)) ?? null };
  } catch (error) {
    return { error: faultOf(error) };
  }
}

/** Whether a result was refused for good: it is too large, no JSON, or not what its place takes. */
function isRefusal(error: unknown): boolean {
  return (
    PawlError.is(error) && !repeatable(error) && ["request", "limit", "server"].includes(error.kind)
  );
}

/**
 * Whether a pending call may go out: nothing holds it for a decision, and no other step asks
 * what came of its attempt.
 */
function goes(step: Step): boolean {
  return !step.approval?.held && step.inquiry === 0;
}

/** Whether a call may be another one, or go out, after a record that does not answer it. */
function isNews(step: Step, { body }: Record): boolean {
  if (body.case === "stepDecided") {
    return body.value.step === step.step && RELEASES.includes(body.value.verdict);
  }
  return body.case === "resumed" || (body.case === "stepResolved" && body.value.step === step.step);
}

function answerTo(step: Step, record: Record): Step | undefined {
  const { body } = record;
  if (body.case === "stepResolved" && body.value.step === step.step && body.value.next === 0) {
    return resolved(step, body.value);
  }
  const over = body.case === "stepCancelled" && body.value.step === step.step;
  return over || body.case === "ended" ? { ...step, status: StepStatus.CANCELLED } : undefined;
}

function resolved(step: Step, body: Plain<StepResolved>): Step {
  const status = body.ok ? StepStatus.OK : StepStatus.ERROR;
  const answered = { ...step, status, result: body.result, error: body.error };
  return keepSource(answered, body);
}
