/** Executes the turns of one run, call by call. */

import {
  type AnswerModelResponse,
  AnswerModelResponseSchema,
  type CompleteTurnResponse,
  CompleteTurnResponseSchema,
  type FailTurnResponse,
  FailTurnResponseSchema,
  GetTurnResponseSchema,
  RequestModelResponseSchema,
  type RequestStepResponse,
  RequestStepResponseSchema,
  type ResolveStepResponse,
  ResolveStepResponseSchema,
  type SuspendTurnResponse,
  SuspendTurnResponseSchema,
  type UpdateModelCallResponse,
  UpdateModelCallResponseSchema,
  type WriteOutputResponse,
  WriteOutputResponseSchema,
} from "./gen/pawl/v1/run_pb.js";
import { askRequest, noteRequest, outcomeRequest, stepRequest } from "./model_request.js";
import type { ModelAsk, ModelReport, ModelRound } from "./model_step.js";
import type { Json, Plain } from "./plain_message.js";
import type { Reply, Usage } from "./reply.js";
import { type CallOptions, newId } from "./retry.js";
import { type IdOptions, RunHandle } from "./run_handle.js";
import type { StepCall, TurnInfo } from "./turn.js";
import {
  answerOf,
  completionOf,
  type Fault,
  faultRequest,
  type OutputPiece,
  pieceOf,
  type StepFault,
  type TurnRef,
  turnTarget,
  usageOf,
} from "./turn_requests.js";
import type { AnyPack, PackTypes } from "./types.js";
import type { Slots } from "./values.js";

/** The calls that execute the turns of a run; loops and handlers use them. */
export class RunTurns<P extends PackTypes = AnyPack> extends RunHandle<P> {
  /**
   * Renders the open turn and returns it with a new token, which fences the previous one. Reasons:
   * NO_OPEN_TURN, RUN_TERMINAL, TURN_LEASED.
   */
  turn(options: CallOptions = {}): Promise<TurnInfo> {
    const { runs } = this.connection;
    return this.connection.call(
      GetTurnResponseSchema,
      (rpc) => runs.getTurn(this.target, rpc),
      options,
    );
  }

  /** Completes the open turn. Reasons: TURN_STALE, TURN_TOKEN_STALE, UNKNOWN_EVENT, ... */
  complete(
    turn: TurnRef,
    reply: Reply,
    options: IdOptions & { readonly slots?: Slots } = {},
  ): Promise<Plain<CompleteTurnResponse>> {
    const request = {
      ...turnTarget(this.connection.namespace, turn),
      ...completionOf(reply, options.slots),
      requestId: options.id ?? newId(),
    };
    const { runs } = this.connection;
    return this.connection.call(
      CompleteTurnResponseSchema,
      (rpc) => runs.completeTurn(request, rpc),
      options,
    );
  }

  /**
   * Fails the open turn. `retryable` (default true): another attempt may follow; false ends the run
   * FAILED. `reject`: the agent refuses the work; not allowed with `retryable`. Reasons:
   * TURN_STALE, TURN_TOKEN_STALE, REJECT_RETRYABLE, ...
   */
  fail(
    turn: TurnRef,
    error: Fault,
    options: IdOptions & {
      readonly retryable?: boolean;
      readonly reject?: boolean;
      /**
       * The MODEL step of the turn whose answer is rejected; the next attempt asks the model again.
       */
      readonly rejectedStep?: number;
      readonly usage?: Usage;
    } = {},
  ): Promise<Plain<FailTurnResponse>> {
    const request = {
      ...turnTarget(this.connection.namespace, turn),
      error: faultRequest(error),
      retryable: options.retryable ?? !options.reject,
      reject: options.reject ?? false,
      rejectedStep: options.rejectedStep ?? 0,
      usage: usageOf(options.usage),
      requestId: options.id ?? newId(),
    };
    const { runs } = this.connection;
    return this.connection.call(
      FailTurnResponseSchema,
      (rpc) => runs.failTurn(request, rpc),
      options,
    );
  }

  /** Stores a piece of the open turn's output as a record. Reasons: TURN_STALE, ... */
  writeOutput(
    turn: TurnRef,
    piece: OutputPiece,
    options: IdOptions = {},
  ): Promise<Plain<WriteOutputResponse>> {
    const request = {
      ...turnTarget(this.connection.namespace, turn),
      piece: pieceOf(piece),
      requestId: options.id ?? newId(),
    };
    const { runs } = this.connection;
    return this.connection.call(
      WriteOutputResponseSchema,
      (rpc) => runs.writeOutput(request, rpc),
      options,
    );
  }

  /** Releases the turn until its pending steps are answered. */
  suspend(turn: TurnRef, options: IdOptions = {}): Promise<Plain<SuspendTurnResponse>> {
    const request = {
      ...turnTarget(this.connection.namespace, turn),
      requestId: options.id ?? newId(),
    };
    const { runs } = this.connection;
    return this.connection.call(
      SuspendTurnResponseSchema,
      (rpc) => runs.suspendTurn(request, rpc),
      options,
    );
  }

  /**
   * Requests tool calls of the open turn, in order. The outcome of a denied call has a denial; it
   * is no error.
   */
  requestSteps(
    turn: TurnRef,
    calls: readonly StepCall[],
    options: IdOptions = {},
  ): Promise<Plain<RequestStepResponse>> {
    const request = {
      ...turnTarget(this.connection.namespace, turn),
      requests: calls.map(stepRequest),
      requestId: options.id ?? newId(),
    };
    const { runs } = this.connection;
    return this.connection.call(
      RequestStepResponseSchema,
      (rpc) => runs.requestStep(request, rpc),
      options,
    );
  }

  /**
   * Requests a model call, which the caller makes itself. Returns the step of the round, with its
   * answer if it was answered before. Reasons: TURN_STALE, MAX_PENDING_STEPS, MODEL_UNPRICED, ...
   */
  requestModel(turn: TurnRef, ask: ModelAsk, options: CallOptions = {}): Promise<ModelRound> {
    const request = askRequest(this.connection.namespace, turn, ask);
    const { runs } = this.connection;
    return this.connection.call(
      RequestModelResponseSchema,
      (rpc) => runs.requestModel(request, rpc),
      options,
    );
  }

  /**
   * Reports the outcome and the consumption of a model call. Reasons: ANSWER_CONFLICT,
   * ANSWER_TOO_LARGE, TURN_TOKEN_STALE, ...
   */
  answerModel(
    turn: TurnRef,
    report: ModelReport,
    options: CallOptions = {},
  ): Promise<Plain<AnswerModelResponse>> {
    const request = outcomeRequest(this.connection.namespace, turn, report);
    const { runs } = this.connection;
    return this.connection.call(
      AnswerModelResponseSchema,
      (rpc) => runs.answerModel(request, rpc),
      options,
    );
  }

  /** Stores the provider's id of a response that is under way. Reasons: those of `answerModel`. */
  updateModelCall(
    turn: TurnRef,
    note: { readonly step: number; readonly attempt: number; readonly responseId: string },
    options: CallOptions = {},
  ): Promise<Plain<UpdateModelCallResponse>> {
    const request = noteRequest(this.connection.namespace, turn, note);
    const { runs } = this.connection;
    return this.connection.call(
      UpdateModelCallResponseSchema,
      (rpc) => runs.updateModelCall(request, rpc),
      options,
    );
  }

  /**
   * Answers a step with a result or an error. `attempt` is the answered one (`Step.attempt`, from
   * 1), which identifies a repetition. `token` is that of the turn that requested the step. `usage`
   * is what the attempt consumed; default: the pack's highest cost of the tool.
   */
  resolveStep(
    step: number,
    tool: string,
    answer: { readonly result: Json } | { readonly error: StepFault },
    options: CallOptions & {
      readonly attempt: number;
      readonly token?: string;
      readonly usage?: Usage | undefined;
    },
  ): Promise<Plain<ResolveStepResponse>> {
    const request = {
      ...this.target,
      step,
      tool,
      attempt: options.attempt,
      turnToken: options.token ?? "",
      usage: usageOf(options.usage),
      ...answerOf(answer),
    };
    const { runs } = this.connection;
    return this.connection.call(
      ResolveStepResponseSchema,
      (rpc) => runs.resolveStep(request, rpc),
      options,
    );
  }
}
