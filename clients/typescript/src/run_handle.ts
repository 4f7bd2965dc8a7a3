/** A run, and the calls that change it from outside. */

import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import { brand } from "./brand.js";
import type { Json } from "./exact_json.js";
import {
  type DecideStepResponse,
  DecideStepResponseSchema,
  type RaiseBudgetResponse,
  RaiseBudgetResponseSchema,
  type SteerRunResponse,
  SteerRunResponseSchema,
  StepDecision,
  type StopRunResponse,
  StopRunResponseSchema,
} from "./gen/pawl/v1/control_pb.js";
import { SteerWhen } from "./gen/pawl/v1/record_pb.js";
import {
  type CancelRunResponse,
  CancelRunResponseSchema,
  type EmitEventResponse,
  EmitEventResponseSchema,
  type PauseRunResponse,
  PauseRunResponseSchema,
  type ResumeRunResponse,
  ResumeRunResponseSchema,
  type SendInputResponse,
  SendInputResponseSchema,
  type SetArtifactsResponse,
  SetArtifactsResponseSchema,
} from "./gen/pawl/v1/run_pb.js";
import { toJsonText } from "./json_text.js";
import type { Plain } from "./plain_message.js";
import { type CallOptions, newId } from "./retry.js";
import { RunReader } from "./run_reader.js";
import { type RunResult, readResult } from "./run_result.js";
import type { AnyPack, PackTypes, Writes } from "./types.js";
import { type Artifacts, type Content, partsOf, type Slots, writesOf } from "./values.js";

/**
 * Options of a call with an idempotency id. Default: a new id for each call, which its repetitions
 * keep.
 */
export interface IdOptions extends CallOptions {
  readonly id?: string;
}

/** Options of a call that moves the run or writes artifacts. */
export interface WriteOptions extends IdOptions {
  /**
   * Seq of the last transition that the caller has seen (`RunInfo.visitSeq`). Default: not checked.
   */
  readonly expectedSeq?: number;
  /** The turn's token, if the caller holds the turn. */
  readonly turnToken?: string;
  /** Declared media types of the artifacts. Default: text, bytes or JSON by the value. */
  readonly slots?: Slots;
}

/** Options of a decision about a held call. */
export interface DecideOptions extends IdOptions {
  /** The payload that replaces the call's; only with EDIT. */
  readonly payload?: Json;
  /** Kept in the record. The model receives the reason of a denial. Default: none. */
  readonly reason?: string;
  /** An approved call that is not sent by then is held again. Default: no bound. */
  readonly expires?: Date;
}

/**
 * A run by its id. It holds no state of its own: each method makes a call.
 *
 *     const run = client.attach("01J9Z3NDEKTSV4RRFFQ69G5FAV");
 *     await run.emit("Approve", { id: "click-17", expectedSeq: (await run.info()).visitSeq });
 *     for await (const record of run.transitions()) {
 *       console.log(record.seq, record.body.case);
 *     }
 */
export class RunHandle<P extends PackTypes = AnyPack> extends RunReader<P> {
  static {
    brand(RunHandle, "RunHandle");
  }

  /**
   * Returns the run's status, reason, output and artifacts, as they are now. It is the result that
   * `PawlClient.run` returns: use it after `wait`, for a run that workers executed, and for a run
   * that an earlier call with the same `requestId` started. Reason: RUN_NOT_FOUND.
   */
  result(options: CallOptions = {}): Promise<RunResult<P>> {
    return readResult(this, options);
  }

  /**
   * Emits an event of the current state; the graph resolves the successor. Reasons:
   * UNKNOWN_EVENT (see `allowed`), TURN_TOKEN_REQUIRED, SEQ_MISMATCH, RUN_TERMINAL,
   * PAUSED, UNDECLARED_ARTIFACT, ARTIFACT_TYPE, ARTIFACT_TOO_LARGE.
   */
  emit(
    event: P["events"],
    options: WriteOptions & { readonly artifacts?: Writes<P["artifacts"]> } = {},
  ): Promise<Plain<EmitEventResponse>> {
    const request = {
      ...this.target,
      event,
      artifacts: writesOf(options.artifacts as Artifacts | undefined, options.slots),
      eventId: options.id ?? newId(),
      expectedSeq: BigInt(options.expectedSeq ?? 0),
      turnToken: options.turnToken ?? "",
    };
    const { runs } = this.connection;
    return this.connection.call(
      EmitEventResponseSchema,
      (rpc) => runs.emitEvent(request, rpc),
      options,
    );
  }

  /**
   * Sends parts to the next turn of the visit, and opens that turn if none is open. With `step` the
   * agent of a pending delegation that asks a question receives them. Reasons: RUN_TERMINAL,
   * INPUT_QUEUE_FULL, STEP_NOT_ASKING.
   */
  sendInput(
    content: Content,
    options: WriteOptions & { readonly step?: number } = {},
  ): Promise<Plain<SendInputResponse>> {
    const request = {
      ...this.target,
      parts: partsOf(content),
      messageId: options.id ?? newId(),
      expectedSeq: BigInt(options.expectedSeq ?? 0),
      step: options.step ?? 0,
    };
    const { runs } = this.connection;
    return this.connection.call(
      SendInputResponseSchema,
      (rpc) => runs.sendInput(request, rpc),
      options,
    );
  }

  /** Writes artifacts without a transition. Authority and reasons are those of `emit`. */
  setArtifacts(
    artifacts: Writes<P["artifacts"]>,
    options: WriteOptions = {},
  ): Promise<Plain<SetArtifactsResponse>> {
    const request = {
      ...this.target,
      artifacts: writesOf(artifacts as Artifacts, options.slots),
      writeId: options.id ?? newId(),
      expectedSeq: BigInt(options.expectedSeq ?? 0),
      turnToken: options.turnToken ?? "",
    };
    const { runs } = this.connection;
    return this.connection.call(
      SetArtifactsResponseSchema,
      (rpc) => runs.setArtifacts(request, rpc),
      options,
    );
  }

  /** Pauses the run until `resume`. Reason: RUN_TERMINAL. */
  pause(note = "", options: IdOptions = {}): Promise<Plain<PauseRunResponse>> {
    const request = { ...this.target, note, requestId: options.id ?? newId() };
    const { runs } = this.connection;
    return this.connection.call(
      PauseRunResponseSchema,
      (rpc) => runs.pauseRun(request, rpc),
      options,
    );
  }

  /**
   * Raises the run's budgets, for a reason that is recorded. Scope budgets:write.
   *
   *     const raised = await run.raiseBudget("the customer agreed", { maxCostMicroUsd: 2e6 });
   *     console.log(raised.remaining?.costMicroUsd, "are left");
   *
   * Reasons: RUN_TERMINAL, BUDGET_NOT_RAISED, BUDGET_UNLIMITED, BUDGET_LEASED.
   */
  raiseBudget(
    reason: string,
    limits: { readonly maxCostMicroUsd?: number; readonly maxTokens?: number },
    options: IdOptions = {},
  ): Promise<Plain<RaiseBudgetResponse>> {
    const request = {
      ...this.target,
      reason,
      maxCostMicroUsd: BigInt(limits.maxCostMicroUsd ?? 0),
      maxTokens: BigInt(limits.maxTokens ?? 0),
      requestId: options.id ?? newId(),
    };
    const { control } = this.connection;
    return this.connection.call(
      RaiseBudgetResponseSchema,
      (rpc) => control.raiseBudget(request, rpc),
      options,
    );
  }

  /**
   * Decides about a held call, once. `digest` is that of the call that the approver has seen
   * (`PawlClient.listApprovals`, `Step.approval`). Scope steps:approve. Reasons: ALREADY_DECIDED
   * (the message has the principal, the decision and the time), DIGEST_MISMATCH, NOTHING_TO_DECIDE,
   * EDIT_REFUSED, EXPIRES_IN_PAST, APPROVER_IS_STARTER, RUN_TERMINAL.
   */
  decideStep(
    step: number,
    digest: string,
    decision: StepDecision,
    options: DecideOptions = {},
  ): Promise<Plain<DecideStepResponse>> {
    const request = {
      ...this.target,
      step,
      digest,
      decision,
      payloadJson:
        decision === StepDecision.EDIT ? toJsonText(options.payload ?? null, "payload") : "",
      reason: options.reason ?? "",
      requestId: options.id ?? newId(),
      ...(options.expires ? { expires: timestampFromDate(options.expires) } : {}),
    };
    const { control } = this.connection;
    return this.connection.call(
      DecideStepResponseSchema,
      (rpc) => control.decideStep(request, rpc),
      options,
    );
  }

  /**
   * Steers the run with a message, which the next request to a model contains. `NOW` abandons the
   * open turn and begins the next turn with the message; `NEXT_TURN` keeps the message for that
   * turn. Reasons: RUN_TERMINAL, INPUT_QUEUE_FULL, MESSAGES_TOO_LARGE.
   */
  steer(
    text: string,
    options: IdOptions & { readonly when?: SteerWhen } = {},
  ): Promise<Plain<SteerRunResponse>> {
    const when = options.when ?? SteerWhen.NEXT_MODEL_CALL;
    const request = { ...this.target, text, when, requestId: options.id ?? newId() };
    const { control } = this.connection;
    return this.connection.call(
      SteerRunResponseSchema,
      (rpc) => control.steerRun(request, rpc),
      options,
    );
  }

  /**
   * Abandons the open turn and makes the run wait; an input or `steer` continues it. Reason:
   * RUN_TERMINAL.
   */
  stop(note = "", options: IdOptions = {}): Promise<Plain<StopRunResponse>> {
    const request = { ...this.target, note, requestId: options.id ?? newId() };
    const { control } = this.connection;
    return this.connection.call(
      StopRunResponseSchema,
      (rpc) => control.stopRun(request, rpc),
      options,
    );
  }

  /** Resumes a paused run. Reason: RUN_TERMINAL. */
  resume(note = "", options: IdOptions = {}): Promise<Plain<ResumeRunResponse>> {
    const request = { ...this.target, note, requestId: options.id ?? newId() };
    const { runs } = this.connection;
    return this.connection.call(
      ResumeRunResponseSchema,
      (rpc) => runs.resumeRun(request, rpc),
      options,
    );
  }

  /** Ends the run with the status CANCELLED. Reason: RUN_TERMINAL. */
  cancel(note = "", options: IdOptions = {}): Promise<Plain<CancelRunResponse>> {
    const request = { ...this.target, note, requestId: options.id ?? newId() };
    const { runs } = this.connection;
    return this.connection.call(
      CancelRunResponseSchema,
      (rpc) => runs.cancelRun(request, rpc),
      options,
    );
  }
}
