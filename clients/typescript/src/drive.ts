/** Driving a run: fetch the turn, call the handler, complete or fail the turn. */

import { repeatable } from "./advice.js";
import type { Denials } from "./denials.js";
import { Ending } from "./ending.js";
import { failTurn, PawlError } from "./errors.js";
import type { HandlersOf } from "./exact.js";
import { PartSchema, RunStatus } from "./gen/pawl/v1/record_pb.js";
import { faultOf } from "./handler_fault.js";
import { Holder, type Tools } from "./holder.js";
import type { Log } from "./log.js";
import { ownOrAny } from "./own.js";
import { plain } from "./plain.js";
import { type Reply, replyOf } from "./reply.js";
import { newId, sleep } from "./retry.js";
import { type RunResult, readResult } from "./run_result.js";
import type { RunTurns } from "./run_turns.js";
import { type Handler, Turn, type TurnInfo } from "./turn.js";
import type { AnyPack, PackTypes } from "./types.js";
import { type Part, partsOf } from "./values.js";

/** One handler for all turns, or one for each prompt; "*" takes those that have none. */
export type Handlers<P extends PackTypes = AnyPack> = HandlersOf<P>;

/** What the loop does next. */
type Next = "on" | "stop";

/** Drives one run until it ends or waits for something from outside. */
export class Driver {
  readonly #run: RunTurns;
  readonly #handler: Handlers;
  readonly #tools: Tools;
  readonly #signal: AbortSignal | undefined;
  readonly #wanted: { readonly signal: AbortSignal };
  readonly #log: Log;
  readonly #denials: Denials;
  readonly #errors: unknown[] = [];
  /** Of the turn that was completed here; undefined: another one may have been since. */
  #output: readonly Part[] | undefined;

  constructor(
    run: RunTurns,
    handler: Handlers,
    options: { tools?: Tools; signal?: AbortSignal; log: Log; denials: Denials },
  ) {
    this.#run = run;
    this.#handler = handler;
    this.#tools = options.tools ?? {};
    this.#signal = options.signal;
    this.#wanted = options.signal ? { signal: options.signal } : new Ending();
    this.#log = options.log;
    this.#denials = options.denials;
  }

  /** The whole loop. */
  async drive(): Promise<RunResult> {
    for (;;) {
      const info = await this.#open();
      if (!info || (!info.terminal && info.allowedEvents.length === 0)) {
        break; // Only something from outside moves the run from here.
      }
      await this.#until(info.notBefore);
      if ((await this.#execute(info)) === "stop") {
        break;
      }
      this.#output = undefined;
    }
    const known = { output: this.#output, errors: this.#errors };
    return readResult(this.#run, { signal: this.#signal }, known);
  }

  async #open(): Promise<TurnInfo | undefined> {
    try {
      return await this.#run.turn({ signal: this.#signal });
    } catch (error) {
      if (PawlError.is(error, "NO_OPEN_TURN", "RUN_TERMINAL")) {
        return undefined;
      }
      throw error;
    }
  }

  async #execute(info: TurnInfo): Promise<Next> {
    if (!info.turn) {
      throw new PawlError("server", "an open turn without identity");
    }
    const holder = new Holder(this.#run, info.turn, info.artifactSlots, this.#tools, this.#signal, {
      denied: (calls, outcomes) => this.#denials.take(info.pack?.id ?? "", calls, outcomes),
    });
    let reply: Reply;
    try {
      reply = replyOf(await this.#handlerOf(info)(new Turn(holder, info, this.#wanted)));
    } catch (error) {
      this.#signal?.throwIfAborted();
      return this.#fail(holder, error);
    }
    return this.#complete(holder, reply);
  }

  async #complete(holder: Holder, reply: Reply): Promise<Next> {
    const options = { id: newId(), slots: holder.slots, signal: this.#signal };
    try {
      const done = await holder.withToken((turn) => this.#run.complete(turn, reply, options));
      this.#output = partsOf(reply.output).map((part) => plain(PartSchema, part));
      return done.status === RunStatus.RUNNING && done.turn ? "on" : "stop";
    } catch (error) {
      if (!isAnswersFault(error)) {
        throw error;
      }
      // What the handler answered with cannot be taken; its turn failed.
      return this.#fail(holder, error);
    }
  }

  async #fail(holder: Holder, error: unknown): Promise<Next> {
    this.#errors.push(error);
    const { runId, turnSeq } = holder.turn;
    try {
      this.#log.warn(`run ${runId}: turn ${turnSeq} failed:`, error);
    } catch {
      // The log's own fault, or an error that nothing can be read of.
    }
    if (PawlError.is(error, "RUN_TERMINAL", "TURN_STALE", "STEP_MISMATCH")) {
      return "on"; // It is over, or the server failed the attempt already.
    }
    const { retryable, reject, ...fault } = faultOf(error);
    const options = { id: newId(), retryable, reject, signal: this.#signal };
    try {
      await holder.withToken((turn) => this.#run.fail(turn, fault, options));
    } catch (refused) {
      if (!PawlError.is(refused, "RUN_TERMINAL", "TURN_STALE")) {
        throw refused;
      }
    }
    return "on";
  }

  #handlerOf(info: TurnInfo): Handler {
    if (typeof this.#handler === "function") {
      return this.#handler;
    }
    const handler = ownOrAny(this.#handler, info.prompt);
    if (!handler) {
      const known = Object.keys(this.#handler).sort().join(", ");
      const text = `no handler for prompt ${info.prompt}; there are ${known}`;
      throw failTurn("NO_HANDLER", text, { retryable: false });
    }
    return handler;
  }

  async #until(moment: Date | undefined): Promise<void> {
    const left = moment ? moment.getTime() - Date.now() : 0;
    if (left > 0) {
      await sleep(left, this.#signal);
    }
  }
}

/** Whether an error of a completion is about what the handler answered with. */
function isAnswersFault(error: unknown): boolean {
  if (!PawlError.is(error)) {
    return error instanceof TypeError || error instanceof RangeError;
  }
  const others = ["permission", "authentication", "cancelled", "deadline"];
  return !repeatable(error) && !others.includes(error.kind);
}
