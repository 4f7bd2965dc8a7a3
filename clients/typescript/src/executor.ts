/** Executes the leased work of a worker and reports its outcome. */

import { INVALID_ARGUMENTS, PawlError, RESULT_INVALID } from "./errors.js";
import {
  faultOf,
  isFailTurn,
  isMistake,
  isWrongReply,
  refusedResult,
  stoppedFault,
} from "./handler_fault.js";
import type { HandlerTable } from "./handlers.js";
import type { LeasedStep } from "./leased_step.js";
import type { Ask, LeasedTurn } from "./leased_turn.js";
import { type Reply, replyOf } from "./reply.js";
import { newId } from "./retry.js";
import { traced } from "./tracing.js";
import { Turn } from "./turn.js";
import { answerOf, completionOf, faultRequest, turnTarget } from "./turn_requests.js";
import type { WorkerSettings } from "./worker_options.js";
import type { WorkInit } from "./worker_session.js";

/** The worker of an executor. */
export interface ExecutorHost {
  /** True means that each ended turn returns one credit, so that the sidecar sends the next one. */
  readonly credits: boolean;
  readonly ask: Ask;
  /** Permits the sidecar to send more work. */
  credit(turns: number, steps: number): void;
  /** The work has ended. */
  forget(held: LeasedTurn | LeasedStep): void;
  /** Work failed in its handler, or its answer was refused. */
  onError(error: unknown, held: LeasedTurn | LeasedStep): void;
  /** The execution of a turn begins. */
  began?(held: LeasedTurn): void;
  /** The program probably has a mistake, of which the log warns. */
  warn(text: string): void;
  /** A turn was completed. */
  completed?(held: LeasedTurn, reply: Reply): void;
  /** The program has a mistake, which is not reported to the sidecar. Default: the turn fails. */
  mistaken?(error: unknown): void;
  /**
   * A tool's result is no JSON or of a wrong type, or a tool does not accept a payload of the
   * handler. The step or the turn fails next.
   */
  wrongCall?(error: unknown): void;
  /** Returns the mistake behind an error of a turn. Undefined means that there is none. */
  mistakeOf?(error: unknown): unknown;
  /** A turn waits for a tool without a handler here. Throws if no worker executes it either. */
  notExecuted?(pack: string, tool: string): void;
}

/** Time limits of handlers. */
export type HandlerLimits = Pick<WorkerSettings, "handlerTimeoutMs" | "suspendAfterMs">;

type Answer = Parameters<typeof answerOf>[0];

const ONE_TURN: WorkInit = { credits: { turns: 1, steps: 0 } };

/** Errors that say that the worker has lost the work, and cannot fail it. */
const LOST = ["RUN_TERMINAL", "TURN_STALE", "TURN_TOKEN_STALE", "TURN_LEASED"];

/** Executes turns and steps with the handlers of a table. */
export class Executor {
  readonly #handlers: HandlerTable;
  readonly #host: ExecutorHost;
  readonly limits: HandlerLimits;

  constructor(handlers: HandlerTable, host: ExecutorHost, limits: HandlerLimits) {
    this.#handlers = handlers;
    this.#host = host;
    this.limits = limits;
  }

  /** Sees a tool call that waits for its answer. */
  pending(pack: string, tool: string): void {
    if (!this.#handlers.executes(tool)) {
      this.#host.notExecuted?.(pack, tool);
    }
  }

  /** Work failed. */
  onError(error: unknown, held: LeasedTurn | LeasedStep): void {
    this.#host.onError(error, held);
  }

  /** Executes a turn and reports its outcome. */
  async turn(held: LeasedTurn): Promise<void> {
    let credited = false;
    try {
      credited = await this.#execute(held);
    } catch (error) {
      await this.#failed(held, error);
    } finally {
      // The worker has room for another turn after each outcome.
      this.#host.forget(held);
      if (!credited) {
        this.#host.credit(1, 0);
      }
    }
  }

  /**
   * Executes a turn and completes it; true: the completion carried the credit for the next turn.
   */
  async #execute(held: LeasedTurn): Promise<boolean> {
    this.#host.began?.(held);
    const turn = new Turn(held, held.info, held.handling, held);
    const work = () => traced(held.traceparent, async () => this.#handlers.ofTurn(held)(turn));
    const answer = await held.execute(this.limits.handlerTimeoutMs, work);
    this.#warnOfOpen(held);
    const reply = replyOf(answer);
    held.returned = true;
    const value = { ...completionOf(reply, held.info.artifactSlots), requestId: newId() };
    held.answering = true;
    await this.#host.ask(() => {
      const request = { ...value, ...turnTarget("", held.ref) };
      // The credit is part of the completion: one round trip to the next turn.
      return {
        ...(this.#host.credits ? ONE_TURN : {}),
        item: { case: "completeTurn", value: request },
      };
    }, held);
    this.#host.completed?.(held, reply);
    return this.#host.credits;
  }

  /** Warns of a handler that returned before its tool calls. */
  #warnOfOpen(held: LeasedTurn): void {
    const { openTools } = held;
    if (openTools.length > 0) {
      const tools = openTools.join(", ");
      this.#host.warn(
        `${held.title}: the handler ended while its call of ${tools} was open: is an await missing?`,
      );
    }
  }

  async #failed(held: LeasedTurn, error: unknown): Promise<void> {
    if (await held.isSuspended()) {
      return;
    }
    const mistake = isMistake(error) || (held.returned && isWrongReply(error));
    if (mistake && this.#host.mistaken) {
      this.#host.mistaken(this.#named(error, held));
      return;
    }
    const wrongResult = this.#host.mistakeOf?.(error);
    if (wrongResult !== undefined) {
      this.#host.mistaken?.(wrongResult);
      return;
    }
    if (PawlError.is(error, INVALID_ARGUMENTS) && error.kind === "step_failed") {
      // The tool's function does not accept the payload of this handler.
      this.#host.wrongCall?.(this.#named(error, held));
    }
    this.#host.onError(error, held);
    await this.#failTurn(held, error);
  }

  /** Returns the error of a mistake, with the handler's name in its message. */
  #named(error: unknown, held: LeasedTurn): unknown {
    const { prompt } = held.info;
    const name = this.#handlers.nameOf(held);
    if (error instanceof Error && name !== undefined) {
      error.message = `handler ${name} of prompt ${prompt}: ${error.message}`;
    }
    return error;
  }

  async #failTurn(held: LeasedTurn, error: unknown): Promise<void> {
    if (held.revoked) {
      return;
    }
    const { retryable, reject, ...fault } = faultOf(error);
    const rejectedStep = retryable && isFailTurn(error) ? held.lastAnswer : 0;
    const value = {
      error: faultRequest(fault),
      retryable,
      reject,
      rejectedStep,
      requestId: newId(),
    };
    const make = (): WorkInit => {
      return { item: { case: "failTurn", value: { ...value, ...turnTarget("", held.ref) } } };
    };
    await this.#host.ask(make, held).catch((refused: unknown) => {
      // If the turn is over already, the handler's error may be the reason.
      if (!PawlError.is(refused, ...LOST)) {
        this.#host.onError(refused, held);
      }
    });
  }

  /** Makes a tool call and answers its step. */
  async step(held: LeasedStep): Promise<void> {
    try {
      await this.#resolve(held, await this.#outcome(held));
    } finally {
      this.#host.forget(held);
      this.#host.credit(0, 1);
    }
  }

  /** Returns the result of a tool call, or its error as data. */
  async #outcome(held: LeasedStep): Promise<Answer> {
    try {
      return { result: await this.#handlers.call(held, this.limits.handlerTimeoutMs) };
    } catch (error) {
      held.signal.throwIfAborted();
      this.#host.onError(error, held);
      if (PawlError.is(error, RESULT_INVALID)) {
        this.#host.wrongCall?.(error);
      }
      return { error: held.stopped ? stoppedFault(error) : faultOf(error) };
    }
  }

  async #resolve(held: LeasedStep, answer: Answer): Promise<void> {
    try {
      await this.#host.ask(() => held.resolution(answerOf(answer)), held);
    } catch (error) {
      if (held.revoked || "error" in answer) {
        throw error;
      }
      // The result is no JSON, or the sidecar refused it, for example as too large. The call was
      // made.
      this.#host.onError(error, held);
      const refused = answerOf({ error: refusedResult(error) });
      if (PawlError.is(error, "INVALID_JSON")) {
        this.#host.wrongCall?.(noJson(held, error));
      }
      await this.#host.ask(() => held.resolution(refused), held);
    }
  }
}

function noJson(held: LeasedStep, cause: PawlError): PawlError {
  const text = `result of ${held.call.tool}: ${cause.message}`;
  return new PawlError("schema", text, { reason: RESULT_INVALID, cause });
}
