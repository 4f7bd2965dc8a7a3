/** A run that this process serves. */

import { AbortState, type Cancellable } from "./abort.js";
import { PawlError, RESULT_INVALID } from "./errors.js";
import type { HandlersOf } from "./exact_types.js";
import { PartSchema, RunStatus } from "./gen/pawl/v1/record_pb.js";
import { HandlerTable } from "./handlers.js";
import { isModel } from "./language_model.js";
import type { LeasedStep } from "./leased_step.js";
import type { LeasedTurn } from "./leased_turn.js";
import { type Log, warnOf } from "./log.js";
import { modelHandler } from "./model_handler.js";
import { type Json, plain } from "./plain_message.js";
import type { Reply } from "./reply.js";
import type { ToolCall } from "./tool_call.js";
import type { Tools } from "./tools.js";
import type { Handler } from "./turn.js";
import type { AnyPack, PackTypes } from "./types.js";
import { type Part, partsOf } from "./values.js";

/**
 * One handler for all turns, or one for each prompt; "*" executes the other prompts. A model of the
 * AI SDK stands for its `modelHandler`.
 */
export type Handlers<P extends PackTypes = AnyPack> = HandlersOf<P>;

/** The handlers of a run, and the outcome of its execution in this process. */
export class ServedRun implements Cancellable {
  readonly handlers = new HandlerTable();
  /** Errors of its turns, in order. */
  readonly errors: unknown[] = [];
  /** Resolves when the run has no work left; rejects with the reason if it is abandoned. */
  readonly over: Promise<void>;
  /** True means that the sidecar lets this process serve the run. */
  taken = false;
  /** When the run was requested, by performance.now. */
  readonly since = performance.now();
  readonly #ending = new AbortState();
  readonly #log: Log;
  #resolve: () => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #givenUp = false;
  #newest = 0n;
  #wrongCall: unknown;
  #output: readonly Part[] | undefined;

  /**
   * Throws a TypeError if a handler or a tool is no function, or a handler requires more than a
   * Turn.
   */
  constructor(
    readonly runId: string,
    handler: Handlers,
    tools: Tools,
    log: Log,
    readonly workerTools: readonly string[] = [],
  ) {
    this.#log = log;
    const all = isModel(handler) ? modelHandler(handler, { log }) : handler;
    const handlers = typeof all === "function" ? { "*": all } : all;
    for (const [name, one] of functions("handler of prompt", handlers)) {
      this.handlers.prompt(name, one as Handler);
    }
    for (const [name, one] of functions("tool", tools)) {
      this.handlers.tool(name, one as (payload: Json, call: ToolCall) => Json, {});
    }
    this.over = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  get reason(): unknown {
    return this.#ending.reason;
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Output of the newest turn, if this process completed it. */
  get output(): readonly Part[] | undefined {
    return this.#output;
  }

  /** The run as a registration or a request names it. */
  get request() {
    return { runId: this.runId, tools: this.handlers.names().tools };
  }

  /** Throws a PawlError (NO_HANDLER) for a tool that neither this process nor a worker executes. */
  checkExecuted(tool: string): void {
    if (this.workerTools.includes(tool) || this.workerTools.includes("*")) {
      return;
    }
    const functions = this.handlers.names().tools.join(", ") || "none";
    throw new PawlError(
      "handler",
      `tool ${tool} has no function here; functions: ${functions}. Pass one in tools, ` +
        "or name the tool in workerTools if a worker executes it",
      { reason: "NO_HANDLER" },
    );
  }

  /** Notes the error of a tool's wrong result or arguments. It is thrown if the run fails by it. */
  wrongCall(error: unknown): void {
    this.#wrongCall = error;
  }

  /** Throws the error of a wrong call by which the run failed. */
  checkCalls(status: RunStatus): void {
    const failed = status === RunStatus.ESCALATED || status === RunStatus.FAILED;
    if (failed && this.#wrongCall !== undefined) {
      throw this.#wrongCall;
    }
  }

  /** Returns the error to throw for an error of a turn that is a mistake; else undefined. */
  mistakeOf(error: unknown): unknown {
    const wrong = PawlError.is(error, RESULT_INVALID) && error.kind === "step_failed";
    return wrong ? this.#wrongCall : undefined;
  }

  /** The run has no work left. */
  finish(): void {
    this.#ending.end(
      () => new PawlError("state", `run ${this.runId}: this process no longer serves it`),
    );
    this.#resolve();
  }

  /** The run is abandoned. The first error counts. */
  fail(error: unknown): void {
    this.#givenUp = true;
    this.#ending.end(() => error);
    this.#reject(error);
  }

  began({ lease }: LeasedTurn): void {
    // It may arrive before the receipt of the request to serve the run.
    this.taken = true;
    this.#newest = lease.turnSeq;
    this.#output = undefined;
  }

  completed({ lease }: LeasedTurn, reply: Reply): void {
    // The next turn may arrive before the receipt of the last completion.
    if (lease.turnSeq === this.#newest) {
      this.#output = partsOf(reply.output).map((part) => plain(PartSchema, part));
    }
  }

  /** Records an error, with the place where it was thrown. Never throws. */
  onError(error: unknown, held: LeasedTurn | LeasedStep): void {
    if (held.kind === "turn") {
      // The receipt of the answer was lost with its stream; the run's result shows the outcome.
      if (this.#givenUp || (held.answering && held.unkept)) {
        return;
      }
      this.errors.push(error);
    } else if (held.revoked) {
      return;
    }
    warnOf(this.#log, `${held.title} failed:`, error);
  }
}

/** Returns the entries of a map by name; programs in JavaScript can pass any value. */
function functions(what: string, map: object): [name: string, value: unknown][] {
  if (typeof map !== "object" || map === null) {
    throw new TypeError(`${what}: must be a function or an object of functions, not ${typeof map}`);
  }
  const given = Object.entries(map).filter(([, value]) => value !== undefined);
  for (const [name, value] of given) {
    if (typeof value !== "function") {
      throw new TypeError(`${what} ${name}: must be a function, not ${typeof value}`);
    }
  }
  return given;
}
