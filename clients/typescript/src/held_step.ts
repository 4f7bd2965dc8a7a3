/** A tool call that a worker holds. */

import {
  type StepAssignment,
  StepAssignmentSchema,
  type StepLease,
} from "./gen/pawl/v1/worker_pb.js";
import { Held } from "./held.js";
import { type Json, plain } from "./plain.js";
import type { answerOf } from "./request.js";
import type { WorkInit } from "./session.js";

/** The tool call that a handler makes now. The payload cannot override these. */
export interface ToolCall {
  readonly runId: string;
  readonly step: number;
  readonly tool: string;
  readonly attempt: number;
  /** Unique in the visit. */
  readonly key: string;
  /**
   * "RUN/STEP", the same for every attempt of the call: hand it to whatever the tool changes
   * elsewhere, so that an attempt whose answer was lost, came too late or was an error has
   * no second effect there. Not `attempt`, which rises exactly then.
   */
  readonly idempotencyKey: string;
  readonly turnSeq: number;
  /** When its outcome counts as unknown. */
  readonly deadline: Date | undefined;
  /** Aborted when the call is not wanted any more, or its time is up. */
  readonly signal: AbortSignal;
}

/** A step that is held. Its lease changes when the worker connects again. */
export class HeldStep extends Held {
  lease: StepLease;
  readonly payload: Json;
  readonly call: ToolCall;
  /** W3C trace context of the attempt; empty: none. */
  readonly traceparent: string;

  constructor(assignment: StepAssignment, lease: StepLease) {
    super();
    this.lease = lease;
    this.traceparent = assignment.traceparent;
    const { key, idempotencyKey, turnSeq, deadline, payload } = plain(
      StepAssignmentSchema,
      assignment,
    );
    this.payload = payload === undefined ? {} : payload;
    const { runId, step, tool, attempt } = lease;
    const { handling } = this;
    this.call = {
      runId,
      step,
      tool,
      attempt,
      key,
      idempotencyKey,
      turnSeq,
      deadline,
      get signal() {
        return handling.signal;
      },
    };
  }

  /** As errors name it. */
  get title(): string {
    return `step ${this.lease.step} of ${this.lease.runId}`;
  }

  /** The request that answers it. */
  resolution(answer: ReturnType<typeof answerOf>): WorkInit {
    const { runId, step, tool, attempt, token } = this.lease;
    const value = { runId, step, tool, attempt, turnToken: token, ...answer };
    return { item: { case: "resolveStep", value } };
  }
}
