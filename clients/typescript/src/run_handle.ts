/** One run, and moving it from outside. */

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

/** A call with an idempotency id: made afresh where none is given, kept over repetitions. */
export interface IdOptions extends CallOptions {
  readonly id?: string;
}

/** A call that moves or writes. */
export interface WriteOptions extends IdOptions {
  /** Seq of the last transition that the caller has seen (`RunInfo.visitSeq`). */
  readonly expectedSeq?: number;
  /** Where the caller acts as the holder of the turn. */
  readonly turnToken?: string;
  /** Declared media types of the artifacts. Default: text, bytes or JSON by the value. */
  readonly slots?: Slots;
}

/** What a decision about a held call may say besides. */
export interface DecideOptions extends IdOptions {
  /** What goes out instead; with EDIT. */
  readonly payload?: Json;
  /** Kept in the record; a denial's is told to the model. */
  readonly reason?: string;
  /** What is approved goes out by then, or is held again. */
  readonly expires?: Date;
}

/**
 * A run by its id. It holds no state of its own: each method is a call.
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
   * What came out of it: status, reason, output and artifacts, as it is now. The same that
   * `PawlClient.run` gives, also after `wait`, for a run that workers executed, and for one
   * that an earlier call with its `requestId` started. Reason: RUN_NOT_FOUND.
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
   * Gives parts to the next turn of the visit; opens it if none is open. With `step` they
   * go to the agent of a pending delegation that asks. Reasons: RUN_TERMINAL,
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

  /** Writes artifacts without a transition. Authority as for `emit`. */
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

  /** Pauses the run. Reason: RUN_TERMINAL. */
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
   * Lets the run consume more in all than it may, for a reason that is recorded. Scope
   * budgets:write.
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
   * Decides about a held call, once. `digest` is that of the call that was looked at
   * (`PawlClient.listApprovals`, `Step.approval`). Takes the scope steps:approve. Reasons:
   * ALREADY_DECIDED (the message has the principal, the decision and the time), DIGEST_MISMATCH,
   * NOTHING_TO_DECIDE, EDIT_REFUSED, EXPIRES_IN_PAST, APPROVER_IS_STARTER, RUN_TERMINAL.
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
   * Steers the run with a message: the next request to a model contains it. `NOW` puts away what
   * is under way, and the next turn begins with it; `NEXT_TURN` keeps it for that. Reasons:
   * RUN_TERMINAL, INPUT_QUEUE_FULL, MESSAGES_TOO_LARGE.
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
   * Puts away what is under way, and the run waits: an input or `steer` goes on. Reason:
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

  /** Ends a pause. Reason: RUN_TERMINAL. */
  resume(note = "", options: IdOptions = {}): Promise<Plain<ResumeRunResponse>> {
    const request = { ...this.target, note, requestId: options.id ?? newId() };
    const { runs } = this.connection;
    return this.connection.call(
      ResumeRunResponseSchema,
      (rpc) => runs.resumeRun(request, rpc),
      options,
    );
  }

  /** Ends the run CANCELLED. Reason: RUN_TERMINAL. */
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
