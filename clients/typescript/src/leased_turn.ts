/** A turn that a worker holds. */

import { create } from "@bufbuild/protobuf";
import type { Wanted } from "./abort.js";
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
import { Idleness } from "./idle_detector.js";
import { Held } from "./leased_work.js";
import { askRequest, noteRequest, stepRequest, toldRequest } from "./model_request.js";
import type { ModelAsk, ModelRound, ModelTold } from "./model_step.js";
import { AwaitedSteps } from "./pending_steps.js";
import { type Plain, plain } from "./plain_message.js";
import { newId } from "./retry.js";
import type { Step, StepCall, TurnHost, TurnInfo } from "./turn.js";
import { type SentPiece, TurnOutput } from "./turn_output.js";
import { type OutputPiece, pieceOf, type TurnRef, turnTarget } from "./turn_requests.js";
import { type Artifacts, writesOf } from "./values.js";
import type { WorkInit } from "./worker_session.js";

/** Sends a request, again over new streams, until it has its receipt. */
export type Ask = (make: () => WorkInit, wanted: Wanted) => Promise<WorkReceipt>;

/** A turn that is held. Its lease changes when the worker connects again. */
export class HeldTurn extends Held implements TurnHost {
  readonly kind = "turn";
  lease: TurnLease;
  readonly info: TurnInfo;
  readonly agent: string;
  /** W3C trace context of the execution; empty: none. */
  readonly traceparent: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Steps that the execution has asked for. */
  asked = 0;
  /** The MODEL step of the execution's last request to a model, once it is answered; 0: none. */
  lastAnswer = 0;
  /** Its handler has returned, and the answer is on its way. */
  answering = false;
  /** Its handler has returned a reply. */
  returned = false;
  readonly #ask: Ask;
  readonly #denials: Denials;
  readonly #awaited = new AwaitedSteps();
  readonly #idleness: Idleness;
  #suspending: Promise<void> | undefined;
  readonly #output = new TurnOutput((piece) => this.#send(piece));

  /** `suspendAfterMs`: see WorkerOptions; 0: never. */
  constructor(
    assignment: TurnAssignment,
    lease: TurnLease,
    ask: Ask,
    suspendAfterMs: number,
    denials: Denials,
  ) {
    super();
    this.#denials = denials;
    this.lease = lease;
    this.info = plain(GetTurnResponseSchema, assignment.turn ?? create(GetTurnResponseSchema));
    this.agent = assignment.agent;
    this.traceparent = assignment.traceparent;
    this.labels = assignment.labels;
    this.#ask = ask;
    const waits = () => this.#awaited.count > 0;
    this.#idleness = new Idleness(suspendAfterMs, waits, () => {
      this.#suspending = this.#suspend();
    });
  }

  /** As errors name it. */
  get title(): string {
    return `turn ${this.lease.turnSeq} of ${this.lease.runId}`;
  }

  /** Whether it was given back until its steps are answered, or just is. */
  async isSuspended(): Promise<boolean> {
    await this.#suspending;
    const { reason } = this;
    return PawlError.is(reason) && reason.kind === "suspended";
  }

  override revoke(why: () => unknown): void {
    super.revoke(why);
    this.#idleness.end();
  }

  /** The turn with the token of its lease as it is now. */
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

  async request(calls: readonly StepCall[]): Promise<readonly Plain<StepOutcome>[]> {
    this.asked += calls.length;
    const requests = calls.map(stepRequest);
    const requestId = newId();
    const { answer } = await this.#tell(() => {
      const value = { ...turnTarget("", this.ref), requests, requestId };
      return { item: { case: "requestStep", value } };
    });
    const told = answer.case === "requestStep" ? answer.value.outcomes : [];
    const outcomes = told.map((outcome) => plain(StepOutcomeSchema, outcome));
    this.#denials.take(this.info.pack?.id ?? "", calls, outcomes);
    return outcomes;
  }

  settle(step: Step, timeoutMs: number | undefined): Promise<Step> {
    const answer = this.#awaited.answer(step, timeoutMs, this.signal);
    this.#idleness.changed();
    return answer;
  }

  async requestModel(ask: ModelAsk): Promise<ModelRound> {
    const { answer } = await this.#tell(() => {
      return { item: { case: "requestModel", value: askRequest("", this.ref, ask) } };
    });
    if (answer.case !== "requestModel") {
      throw unanswered("a request to a model");
    }
    const asked = plain(RequestModelResponseSchema, answer.value);
    const { step } = asked;
    this.lastAnswer = step?.status === StepStatus.OK ? step.step : 0;
    return asked;
  }

  async answerModel(told: ModelTold): Promise<Plain<AnswerModelResponse>> {
    const { answer } = await this.#tell(() => {
      return { item: { case: "answerModel", value: toldRequest("", this.ref, told) } };
    });
    if (answer.case !== "answerModel") {
      throw unanswered("the answer of a model");
    }
    if (answer.value.disposition === Disposition.ACCEPTED && "answer" in told.outcome) {
      this.lastAnswer = told.step;
    }
    return plain(AnswerModelResponseSchema, answer.value);
  }

  async updateModelCall(step: number, attempt: number, responseId: string): Promise<void> {
    const note = { step, attempt, responseId };
    await this.#tell(() => {
      return { item: { case: "updateModelCall", value: noteRequest("", this.ref, note) } };
    });
  }

  async setArtifacts(artifacts: Artifacts): Promise<void> {
    const writeId = newId();
    const writes = writesOf(artifacts, this.info.artifactSlots);
    await this.#tell(() => {
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
    await this.#tell(() => {
      return { item: { case: "writeOutput", value: { ...value, ...turnTarget("", this.ref) } } };
    });
  }

  async #send({ offset, ...piece }: SentPiece): Promise<void> {
    await this.#tell(() => {
      const value = { token: this.lease.token, offset: BigInt(offset), ...piece };
      return { item: { case: "output", value } };
    });
  }

  #tell(make: () => WorkInit): Promise<WorkReceipt> {
    return this.#idleness.during(() => this.#ask(make, this));
  }

  /** Gives the turn back until its steps are answered. */
  async #suspend(): Promise<void> {
    const requestId = newId();
    const make = (): WorkInit => {
      const value = { ...turnTarget("", this.ref), requestId };
      return { item: { case: "suspendTurn", value } };
    };
    try {
      await this.#ask(make, this);
    } catch {
      // The answers are on their way, or the turn is lost, which is told by itself.
      return;
    }
    const text = `${this.title} waits for its steps and is executed again with their answers`;
    this.revoke(() => new PawlError("suspended", text, { reason: "TURN_SUSPENDED" }));
  }
}

function unanswered(what: string): PawlError {
  return new PawlError("server", `${what} without an answer`);
}
