/** The turns and steps that a worker holds. */

import { create } from "@bufbuild/protobuf";
import { PawlError } from "./errors.js";
import { StepStatus } from "./gen/pawl/v1/record_pb.js";
import { GetTurnResponseSchema, StepOutcomeSchema, StepSchema } from "./gen/pawl/v1/run_pb.js";
import {
  RevokeCause,
  type StepAnswers,
  type StepAssignment,
  StepAssignmentSchema,
  type StepLease,
  type TurnAssignment,
  type TurnLease,
  type WorkReceipt,
} from "./gen/pawl/v1/worker_pb.js";
import { type Json, plain } from "./plain.js";
import { type answerOf, type TurnRef, turnTarget } from "./request.js";
import { newId } from "./retry.js";
import type { WorkInit } from "./session.js";
import { deniedBy, type Step, type StepCall, type TurnHost, type TurnInfo } from "./turn.js";
import { TurnOutput } from "./turn_output.js";
import { type Artifacts, toJsonText, writesOf } from "./values.js";

/** The tool call that a handler makes now. The payload cannot override these. */
export interface ToolCall {
  /** With `step` and `attempt`: an idempotency key for what the tool does elsewhere. */
  readonly runId: string;
  readonly step: number;
  readonly tool: string;
  readonly attempt: number;
  /** Unique in the visit. */
  readonly key: string;
  readonly turnSeq: number;
  /** When its outcome counts as unknown. */
  readonly deadline: Date | undefined;
  /** Aborted when the call is not wanted any more. */
  readonly signal: AbortSignal;
}

/** Sends a request, again over new streams, until it has its receipt. */
export type Ask = (make: () => WorkInit, signal: AbortSignal) => Promise<WorkReceipt>;

/** A piece of work that is held. `signal` is aborted when it is the worker's no more. */
class Held {
  readonly #controller = new AbortController();

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get revoked(): boolean {
    return this.signal.aborted;
  }

  /** Stops the work. */
  revoke(why: PawlError): void {
    this.#controller.abort(why);
  }
}

/** A step that is held. */
export class HeldStep extends Held {
  lease: StepLease;
  readonly payload: Json;
  readonly call: ToolCall;

  constructor(assignment: StepAssignment, lease: StepLease) {
    super();
    this.lease = lease;
    const { key, turnSeq, deadline, payload } = plain(StepAssignmentSchema, assignment);
    this.payload = payload ?? {};
    const { runId, step, tool, attempt } = lease;
    this.call = { runId, step, tool, attempt, key, turnSeq, deadline, signal: this.signal };
  }

  /** The request that answers it. */
  resolution(answer: ReturnType<typeof answerOf>): WorkInit {
    const { runId, step, tool, attempt, token } = this.lease;
    const value = { runId, step, tool, attempt, turnToken: token, answer };
    return { item: { case: "resolveStep", value } };
  }
}

/** A turn that is held. Its lease changes when the worker connects again. */
export class HeldTurn extends Held implements TurnHost {
  lease: TurnLease;
  readonly info: TurnInfo;
  readonly agent: string;
  readonly labels: Readonly<Record<string, string>>;
  /** Steps that the execution has asked for. */
  asked = 0;
  readonly #ask: Ask;
  readonly #answers = new Map<number, Step>();
  readonly #waiting = new Map<number, (step: Step) => void>();
  readonly #output: TurnOutput;

  constructor(assignment: TurnAssignment, lease: TurnLease, ask: Ask) {
    super();
    this.lease = lease;
    this.info = plain(GetTurnResponseSchema, assignment.turn ?? create(GetTurnResponseSchema));
    this.agent = assignment.agent;
    this.labels = assignment.labels;
    this.#ask = ask;
    this.#output = new TurnOutput(async ({ offset, text }) => {
      await ask(() => {
        const value = { token: this.lease.token, offset: BigInt(offset), text };
        return { item: { case: "output", value } };
      }, this.signal);
    });
  }

  /** The turn with the token of its lease as it is now. */
  get ref(): TurnRef {
    const { runId, turnSeq, attempt, token } = this.lease;
    return { runId, turnSeq: Number(turnSeq), attempt, token };
  }

  /** Takes answers to its steps. */
  answered(answers: StepAnswers): void {
    for (const message of answers.steps) {
      const step = plain(StepSchema, message);
      this.#answers.set(step.step, step);
      this.#waiting.get(step.step)?.(step);
    }
  }

  async step(call: StepCall & { key: string }, timeoutMs: number | undefined): Promise<Step> {
    this.asked += 1;
    const request = {
      key: call.key,
      tool: call.tool,
      payloadJson: toJsonText(call.payload ?? {}, "payload"),
      reframe: call.reframe ?? false,
    };
    const requestId = newId();
    const receipt = await this.#ask(() => {
      const value = { ...turnTarget("", this.ref), requests: [request], requestId };
      return { item: { case: "requestStep", value } };
    }, this.signal);
    const answer = receipt.answer.case === "requestStep" ? receipt.answer.value : undefined;
    const outcome = answer?.outcomes[0] && plain(StepOutcomeSchema, answer.outcomes[0]);
    const refused = outcome && deniedBy(outcome);
    if (refused || !outcome?.step) {
      throw refused ?? new PawlError("server", "a step request without an outcome");
    }
    const { step } = outcome;
    return step.status === StepStatus.PENDING ? this.#answer(step, timeoutMs) : step;
  }

  async setArtifacts(artifacts: Artifacts): Promise<void> {
    const writeId = newId();
    const writes = writesOf(artifacts, this.info.artifactSlots);
    await this.#ask(() => {
      const { runId, token } = this.lease;
      const value = { runId, turnToken: token, artifacts: writes, writeId };
      return { item: { case: "setArtifacts", value } };
    }, this.signal);
  }

  output(text: string): Promise<void> {
    return this.#output.write(text);
  }

  /** Waits for the answer of a step. */
  #answer(step: Step, timeoutMs: number | undefined): Promise<Step> {
    const known = this.#answers.get(step.step);
    if (known) {
      return Promise.resolve(known);
    }
    return new Promise((resolve, reject) => {
      const done = () => {
        clearTimeout(timer);
        this.#waiting.delete(step.step);
        this.signal.removeEventListener("abort", stop);
      };
      const stop = () => {
        done();
        reject(this.signal.reason);
      };
      const late = () => {
        done();
        const text = `step ${step.step} (${step.tool}): no answer within ${timeoutMs} ms`;
        reject(new PawlError("deadline", text));
      };
      const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs);
      this.signal.addEventListener("abort", stop, { once: true });
      this.#waiting.set(step.step, (answered) => {
        done();
        resolve(answered);
      });
    });
  }
}

/** The error of work that is the worker's no more. */
export function stale(what: string, cause = RevokeCause.UNSPECIFIED): PawlError {
  const word = RevokeCause[cause] ?? "UNSPECIFIED";
  return new PawlError("state", `${what} is not this worker's any more (${word})`, {
    reason: "TURN_STALE",
    metadata: { cause: word },
  });
}
