/** A turn that a worker holds. */

import { create } from "@bufbuild/protobuf";
import type { Cancellable } from "./abort.js";
import type { Denials } from "./denials.js";
import { PawlError } from "./errors.js";
import { StepStatus } from "./gen/pawl/v1/record_pb.js";
import {
  type AnswerModelResponse,
  AnswerModelResponseSchema,
  Disposition,
  GetTurnResponseSchema,
  RequestModelResponseSchema,
  type StepOutcome,
  StepOutcomeSchema,
  StepSchema,
} from "./gen/pawl/v1/run_pb.js";
import type {
  StepAnswers,
  TurnAssignment,
  TurnLease,
  WorkReceipt,
} from "./gen/pawl/v1/worker_pb.js";
import { IdleDetector } from "./idle_detector.js";
import { LeasedWork } from "./leased_work.js";
import { askRequest, noteRequest, outcomeRequest, stepRequest } from "./model_request.js";
import type { ModelAsk, ModelReport, ModelRound } from "./model_step.js";
import { PendingSteps } from "./pending_steps.js";
import { type ArtifactData, type Plain, plain } from "./plain_message.js";
import { newId } from "./retry.js";
import type { Step, StepCall, TurnHost, TurnInfo } from "./turn.js";
import { type SentPiece, TurnOutput } from "./turn_output.js";
import { type OutputPiece, pieceOf, type TurnRef, turnTarget } from "./turn_requests.js";
import { type Artifacts, writesOf } from "./values.js";
import type { WorkInit } from "./worker_session.js";

/** Sends a request, and repeats it over new streams, until it has its receipt. */
export type Ask = (make: () => WorkInit, wanted: Cancellable) => Promise<WorkReceipt>;

/** The calls of a turn outside of its stream, and checks of the tool calls that it requested. */
export interface CallChecks {
  /** Reads the artifacts of a run. */
  readonly artifacts: (
    runId: string,
    signal: AbortSignal,
  ) => Promise<Readonly<{ [name: string]: ArtifactData }>>;
  /** Sees all outcomes, and warns of calls that a policy refused. */
  readonly refused: Denials["take"];
  /** Sees a call that waits for its answer. Throws if no program executes the tool. */
  readonly pending: (pack: string, tool: string) => void;
}

/** A turn that a worker holds. Its lease changes when the worker reconnects. */
export class LeasedTurn extends LeasedWork implements TurnHost {
  readonly kind = "turn";
  lease: TurnLease;
  readonly info: TurnInfo;
  readonly agent: string;
  /** W3C trace context of the execution; empty: none. */
  readonly traceparent: string;
  readonly labels: Readonly<Record<string, string>>;
  /** How many steps the execution has requested. */
  requests = 0;
  /** The MODEL step of the execution's last answered model call; 0: none. */
  lastAnswer = 0;
  /** True means that the handler has returned, and the answer is being sent. */
  answering = false;
  /** True means that the handler has returned a reply. */
  returned = false;
  readonly #ask: Ask;
  readonly #calls: CallChecks;
  readonly #awaited = new PendingSteps();
  readonly #open = new Map<Promise<unknown>, string>();
  readonly #idleness: IdleDetector;
  #suspending: Promise<void> | undefined;
  readonly #output = new TurnOutput((piece) => this.#send(piece));

  /** `suspendAfterMs`: see WorkerOptions; 0: never. */
  constructor(
    assignment: TurnAssignment,
    lease: TurnLease,
    ask: Ask,
    suspendAfterMs: number,
    calls: CallChecks,
  ) {
    super();
    this.#calls = calls;
    this.lease = lease;
    this.info = plain(GetTurnResponseSchema, assignment.turn ?? create(GetTurnResponseSchema));
    this.agent = assignment.agent;
    this.traceparent = assignment.traceparent;
    this.labels = assignment.labels;
    this.#ask = ask;
    const waiting = () => this.#awaited.count > 0;
    this.#idleness = new IdleDetector(suspendAfterMs, waiting, () => {
      this.#suspending = this.#suspend();
    });
  }

  /** Name of the turn in errors. */
  get title(): string {
    return `turn ${this.lease.turnSeq} of ${this.lease.runId}`;
  }

  /** Whether the turn is released until its steps are answered, or is being released. */
  async isSuspended(): Promise<boolean> {
    await this.#suspending;
    const { reason } = this;
    return PawlError.is(reason) && reason.kind === "suspended";
  }

  override revoke(why: () => unknown): void {
    super.revoke(why);
    this.#idleness.end();
  }

  /** The turn with the token of its current lease. */
  get ref(): TurnRef {
    const { runId, turnSeq, attempt, token } = this.lease;
    return { runId, turnSeq: Number(turnSeq), attempt, token };
  }

  /** Takes answers to its steps. */
  answered(answers: StepAnswers): void {
    for (const step of answers.steps) {
      this.#awaited.take(plain(StepSchema, step));
    }
    this.#idleness.changed();
  }

  /** Tools of the handler's calls that have no answer yet, in the order of the calls. */
  get openTools(): readonly string[] {
    return [...new Set(this.#open.values())];
  }

  called(tool: string, answer: Promise<unknown>): void {
    const over = () => this.#open.delete(answer);
    this.#open.set(answer, tool);
    answer.then(over, over);
  }

  async request(calls: readonly StepCall[]): Promise<readonly Plain<StepOutcome>[]> {
    this.requests += calls.length;
    const requests = calls.map(stepRequest);
    const requestId = newId();
    const { answer } = await this.#report(() => {
      const value = { ...turnTarget("", this.ref), requests, requestId };
      return { item: { case: "requestStep", value } };
    });
    const report = answer.case === "requestStep" ? answer.value.outcomes : [];
    const outcomes = report.map((outcome) => plain(StepOutcomeSchema, outcome));
    const pack = this.info.pack?.id ?? "";
    this.#calls.refused(pack, calls, outcomes);
    for (const { step } of outcomes) {
      if (step?.status === StepStatus.PENDING && !step.delegation && !step.byCaller) {
        this.#calls.pending(pack, step.tool);
      }
    }
    return outcomes;
  }

  settle(step: Step, timeoutMs: number | undefined): Promise<Step> {
    const answer = this.#awaited.answer(step, timeoutMs, this.signal);
    this.#idleness.changed();
    return answer;
  }

  async requestModel(ask: ModelAsk): Promise<ModelRound> {
    const { answer } = await this.#report(() => {
      return { item: { case: "requestModel", value: askRequest("", this.ref, ask) } };
    });
    if (answer.case !== "requestModel") {
      throw unanswered("the request for a model call");
    }
    const prompt = plain(RequestModelResponseSchema, answer.value);
    const { step } = prompt;
    this.lastAnswer = step?.status === StepStatus.OK ? step.step : 0;
    return prompt;
  }

  async answerModel(reported: ModelReport): Promise<Plain<AnswerModelResponse>> {
    const { answer } = await this.#report(() => {
      return { item: { case: "answerModel", value: outcomeRequest("", this.ref, reported) } };
    });
    if (answer.case !== "answerModel") {
      throw unanswered("the outcome of a model call");
    }
    if (answer.value.disposition === Disposition.ACCEPTED && "answer" in reported.outcome) {
      this.lastAnswer = reported.step;
    }
    return plain(AnswerModelResponseSchema, answer.value);
  }

  async updateModelCall(step: number, attempt: number, responseId: string): Promise<void> {
    const note = { step, attempt, responseId };
    await this.#report(() => {
      return { item: { case: "updateModelCall", value: noteRequest("", this.ref, note) } };
    });
  }

  artifacts(): Promise<Readonly<{ [name: string]: ArtifactData }>> {
    const { runId } = this.lease;
    return this.#idleness.during(() => this.#calls.artifacts(runId, this.signal));
  }

  async setArtifacts(artifacts: Artifacts): Promise<void> {
    const writeId = newId();
    const writes = writesOf(artifacts, this.info.artifactSlots);
    await this.#report(() => {
      const { runId, token } = this.lease;
      const value = { runId, turnToken: token, artifacts: writes, writeId };
      return { item: { case: "setArtifacts", value } };
    });
  }

  output(text: string): Promise<void> {
    return this.#output.write(text, false);
  }

  reasoning(text: string): Promise<void> {
    return this.#output.write(text, true);
  }

  retractOutput(bytes: number): Promise<void> {
    return this.#output.retract(bytes);
  }

  async writeOutput(piece: OutputPiece): Promise<void> {
    const value = { piece: pieceOf(piece), requestId: newId() };
    await this.#report(() => {
      return { item: { case: "writeOutput", value: { ...value, ...turnTarget("", this.ref) } } };
    });
  }

  async #send({ offset, ...piece }: SentPiece): Promise<void> {
    await this.#report(() => {
      const value = { token: this.lease.token, offset: BigInt(offset), ...piece };
      return { item: { case: "output", value } };
    });
  }

  #report(make: () => WorkInit): Promise<WorkReceipt> {
    return this.#idleness.during(() => this.#ask(make, this));
  }

  /** Releases the turn until its steps are answered. */
  async #suspend(): Promise<void> {
    const requestId = newId();
    const make = (): WorkInit => {
      const value = { ...turnTarget("", this.ref), requestId };
      return { item: { case: "suspendTurn", value } };
    };
    try {
      await this.#ask(make, this);
    } catch {
      // The answers will arrive, or the turn is lost, which is reported separately.
      return;
    }
    const text = `${this.title} waits for its steps and is executed again with their answers`;
    this.revoke(() => new PawlError("suspended", text, { reason: "TURN_SUSPENDED" }));
  }
}

function unanswered(what: string): PawlError {
  return new PawlError("server", `${what}: the server sent a receipt without an answer`);
}
