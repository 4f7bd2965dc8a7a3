/** A tool call that a worker holds. */

import {
  type StepAssignment,
  StepAssignmentSchema,
  type StepLease,
} from "./gen/pawl/v1/worker_pb.js";
import { LeasedWork } from "./leased_work.js";
import { type Json, plain } from "./plain_message.js";
import { Spending, type ToolCall } from "./tool_call.js";
import { type answerOf, usageOf } from "./turn_requests.js";
import type { WorkInit } from "./worker_session.js";

/** A step that a worker holds. Its lease changes when the worker reconnects. */
export class LeasedStep extends LeasedWork {
  readonly kind = "step";
  lease: StepLease;
  readonly payload: Json;
  readonly #spending: Spending;
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
    this.#spending = new Spending({
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
    });
  }

  /**
   * True: the tool was asked to stop, so a later error of it does not prove that the call had no
   * effect.
   */
  stopped = false;

  get call(): ToolCall {
    return this.#spending.call;
  }

  /** Name of the step in errors. */
  get title(): string {
    return `step ${this.lease.step} (${this.lease.tool}) of ${this.lease.runId}`;
  }

  /** Asks the tool to stop; the outcome of the call is still needed. */
  stop(why: unknown): void {
    this.stopped = true;
    this.handling.ask(() => why);
  }

  /** Returns the request that answers the step, with the consumption that its handler reported. */
  resolution(answer: ReturnType<typeof answerOf>): WorkInit {
    const { runId, step, tool, attempt, token } = this.lease;
    const usage = usageOf(this.#spending.usage);
    const value = { runId, step, tool, attempt, turnToken: token, usage, ...answer };
    return { item: { case: "resolveStep", value } };
  }
}
