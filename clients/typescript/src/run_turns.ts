/** One run that this process may drive. */

import { Driver, type Handlers, type RunResult } from "./drive.js";
import {
  type CompleteTurnResponse,
  CompleteTurnResponseSchema,
  type DiffRunsResponse,
  type FailTurnResponse,
  FailTurnResponseSchema,
  GetTurnResponseSchema,
  type RequestStepResponse,
  RequestStepResponseSchema,
  type ResolveStepResponse,
  ResolveStepResponseSchema,
  type SuspendTurnResponse,
  SuspendTurnResponseSchema,
  type VerifyRunResponse,
  type WriteOutputResponse,
  WriteOutputResponseSchema,
} from "./gen/pawl/v1/run_pb.js";
import type { Tools } from "./holder.js";
import type { Json, Plain } from "./plain.js";
import type { Reply, Usage } from "./reply.js";
import {
  answerOf,
  completionOf,
  type Fault,
  faultRequest,
  type OutputPiece,
  pieceOf,
  type TurnRef,
  turnTarget,
  usageOf,
} from "./request.js";
import { type CallOptions, newId } from "./retry.js";
import { type IdOptions, RunHandle } from "./run_handle.js";
import {
  type DiffOptions,
  diffRuns,
  exportRun,
  type ForkOptions,
  forkRun,
  verifyRun,
} from "./travel.js";
import type { StepCall, TurnInfo } from "./turn.js";
import { type Slots, toJsonText } from "./values.js";

/**
 * A run by its id, with the calls of whoever executes its turns.
 *
 *     const run = await client.open("my-pack");
 *     const { turn, allowedEvents } = await run.turn();
 *     if (turn) {
 *       await run.complete(turn, { event: allowedEvents[0] });
 *     }
 */
export class Run extends RunHandle {
  /**
   * Executes its turns until it ends or waits for something from outside. As
   * `PawlClient.run`, for a run that was started before, perhaps by another process.
   */
  drive(
    handler: Handlers,
    options: { readonly tools?: Tools; readonly signal?: AbortSignal } = {},
  ): Promise<RunResult> {
    return new Driver(this, handler, { ...options, log: this.connection.log }).drive();
  }

  /**
   * A copy of it, as it was at a record or is: a new run with its visits per state,
   * artifacts and messages, and totals at zero. Reasons: FORK_TERMINAL,
   * RECORD_NOT_FOUND, FORK_STATE_MISSING, FORK_ARTIFACT_MISMATCH, BAD_VARIABLES, ...
   */
  async fork(options: ForkOptions = {}): Promise<Run> {
    return new Run(this.connection, await forkRun(this.connection, this.target, options));
  }

  /** What differs between two of its points, or from another run. */
  diff(options: DiffOptions = {}): Promise<Plain<DiffRunsResponse>> {
    return diffRuns(this.connection, this.target, options);
  }

  /** Proves its journal; `badSeq` names the first bad record, 0 if there is none. */
  verify(options: CallOptions = {}): Promise<Plain<VerifyRunResponse>> {
    return verifyRun(this.connection, this.target, options);
  }

  /** The portable file of the run, for `PawlClient.importRun`. */
  exportFile(options: CallOptions = {}): Promise<Uint8Array> {
    return exportRun(this.connection, this.target, options);
  }

  /**
   * The open turn, rendered now, with a new token that fences the one before. Reasons:
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

  /** Ends the open turn. Reasons: TURN_STALE, TURN_TOKEN_STALE, UNKNOWN_EVENT, ... */
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
   * Reports a failed execution; the run ends FAILED unless it is retryable (default).
   * `reject`: the agent refuses the work; not with `retryable`. Reasons: TURN_STALE,
   * TURN_TOKEN_STALE, REJECT_RETRYABLE, ...
   */
  fail(
    turn: TurnRef,
    error: Fault,
    options: IdOptions & {
      readonly retryable?: boolean;
      readonly reject?: boolean;
      readonly usage?: Usage;
    } = {},
  ): Promise<Plain<FailTurnResponse>> {
    const request = {
      ...turnTarget(this.connection.namespace, turn),
      error: faultRequest(error),
      retryable: options.retryable ?? !options.reject,
      reject: options.reject ?? false,
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

  /** Keeps a piece of the output of the open turn, as a record. Reasons: TURN_STALE, ... */
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
   * Asks for tool calls of the open turn, in order. A refused call is an outcome with a
   * denial, no error.
   */
  requestSteps(
    turn: TurnRef,
    calls: readonly StepCall[],
    options: IdOptions = {},
  ): Promise<Plain<RequestStepResponse>> {
    const request = {
      ...turnTarget(this.connection.namespace, turn),
      requests: calls.map((call) => ({
        key: call.key ?? "",
        tool: call.tool,
        payloadJson: toJsonText(call.payload ?? {}, "payload"),
        reframe: call.reframe ?? false,
      })),
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
   * Answers a step with a result or an error. `token` is that of the turn that asked;
   * `attempt` 0 (default) is the current one.
   */
  resolveStep(
    step: number,
    tool: string,
    answer: { readonly result: Json } | { readonly error: Fault },
    options: CallOptions & { readonly attempt?: number; readonly token?: string } = {},
  ): Promise<Plain<ResolveStepResponse>> {
    const request = {
      ...this.target,
      step,
      tool,
      attempt: options.attempt ?? 0,
      turnToken: options.token ?? "",
      answer: answerOf(answer),
    };
    const { runs } = this.connection;
    return this.connection.call(
      ResolveStepResponseSchema,
      (rpc) => runs.resolveStep(request, rpc),
      options,
    );
  }
}
