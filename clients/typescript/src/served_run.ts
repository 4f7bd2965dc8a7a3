/** A run that this process serves. */

import { AbortState, type Cancellable } from "./abort.js";
import { PawlError } from "./errors.js";
import type { HandlersOf } from "./exact_types.js";
import { PartSchema } from "./gen/pawl/v1/record_pb.js";
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
 * One handler for all turns, or one for each prompt; "*" takes those that have none. A model of the
 * AI SDK stands for `modelHandler` of it.
 */
export type Handlers<P extends PackTypes = AnyPack> = HandlersOf<P>;

/** What executes a run, and what came of it in this process. */
export class ServedRun implements Cancellable {
  readonly handlers = new HandlerTable();
  /** What went wrong in its turns, in order. */
  readonly errors: unknown[] = [];
  /** Resolves when the run has no work left to execute; rejects with why it is given up. */
  readonly over: Promise<void>;
  /** The sidecar lets this process serve it. */
  taken = false;
  /** When it was asked for, by performance.now. */
  readonly since = performance.now();
  readonly #ending = new AbortState();
  readonly #log: Log;
  #resolve: () => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #givenUp = false;
  #newest = 0n;
  #output: readonly Part[] | undefined;

  /** Throws a TypeError where a handler or a tool is no function, or a handler takes more than a Turn. */
  constructor(
    readonly runId: string,
    handler: Handlers,
    tools: Tools,
    log: Log,
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

  /** Output of the newest turn, if it was completed here. */
  get output(): readonly Part[] | undefined {
    return this.#output;
  }

  /** As a registration or a request names it. */
  get request() {
    return { runId: this.runId, tools: this.handlers.names().tools };
  }

  /** It has no work left to execute. */
  finish(): void {
    this.#ending.end(
      () => new PawlError("state", `run ${this.runId}: this process no longer serves it`),
    );
    this.#resolve();
  }

  /** It is given up. The first error counts. */
  fail(error: unknown): void {
    this.#givenUp = true;
    this.#ending.end(() => error);
    this.#reject(error);
  }

  began({ lease }: LeasedTurn): void {
    // It may come before the receipt of the request to serve the run.
    this.taken = true;
    this.#newest = lease.turnSeq;
    this.#output = undefined;
  }

  completed({ lease }: LeasedTurn, reply: Reply): void {
    // The next turn may come before the receipt of the last one's completion.
    if (lease.turnSeq === this.#newest) {
      this.#output = partsOf(reply.output).map((part) => plain(PartSchema, part));
    }
  }

  /** Notes what went wrong, with where it was thrown. Never throws. */
  onError(error: unknown, held: LeasedTurn | LeasedStep): void {
    if (held.kind === "turn") {
      // The receipt of the answer was lost with its stream: the result says what became of it.
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

/** The functions of a map by name; other people's JavaScript gives what it likes. */
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
