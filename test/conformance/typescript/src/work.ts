/** Processes that play a script: as a worker, or by serving runs by their names. */

import { type PawlClient, type RunResult, RunStatus, type StartOptions } from "pawl-client";
import { fault } from "./canon.js";
import { event } from "./lines.js";
import { type Holds, Player, type Script } from "./script.js";

/** What is under way in this process. */
export interface Served {
  /** Drains it, or gives its runs up. */
  stop(): Promise<void>;
}

type WorkArgs = Script & {
  readonly name?: string;
  readonly worker_id?: string;
  readonly packs?: readonly string[];
};

interface ServeArgs {
  readonly run_id?: string;
  readonly pack?: string;
  readonly attach?: boolean;
}

/** Begins to work; tells by an event how that ended. */
export function serve(client: PawlClient, args: WorkArgs, player: Player): Served {
  const worker = client.worker({
    workerId: args.worker_id ?? args.name,
    packs: args.packs,
    turns: args.capacity,
    steps: args.capacity,
    allowUnknown: args.allow_unknown,
    handlerTimeoutMs: args.handler_ms ?? 0,
    suspendAfterMs: args.suspend_ms ?? 0,
    drainTimeoutMs: args.drain_ms,
    onError: (error) => event("error", fault(error)),
  });
  for (const [name, handler] of Object.entries(player.turns("turns"))) {
    worker.prompt(name, handler);
  }
  for (const [name, handler] of Object.entries(player.turns("agents"))) {
    worker.agent(name, handler);
  }
  for (const [name, handler] of Object.entries(player.tools())) {
    worker.tool(name, handler);
  }
  worker.serve().then(
    () => event("served"),
    (error: unknown) => event("served", { error: fault(error) }),
  );
  return worker;
}

/**
 * Serves runs by their names, by a client of its own; tells by an event how each ended. Turns of
 * agents that run beside them, and tools of those, are for a worker.
 */
export class Server implements Served {
  readonly #client: PawlClient;
  readonly #player: Player;
  readonly #worker: Served | undefined;
  readonly #ends: Promise<void>[] = [];

  constructor(client: PawlClient, args: WorkArgs, holds: Holds, ledger: string) {
    this.#client = client;
    this.#player = new Player(args, holds, ledger);
    if (args.agents) {
      const { turns: _, ...beside } = args;
      this.#worker = serve(client, beside, new Player(beside, holds, ledger));
    }
  }

  /** Begins to serve a run. */
  serve({ run_id: run = "", pack = "", attach }: ServeArgs, start: StartOptions): void {
    const handlers = { ...this.#player.turns("agents"), ...this.#player.turns("turns") };
    const options = { tools: this.#player.tools(), workerTools: ["*"] };
    // Without attach it is found again by the call that starts runs, by the id of its start.
    const driven = attach
      ? this.#client.attach(run).drive(handlers, options)
      : this.#client.run(pack, handlers, { ...start, ...options });
    const end = driven.then(
      (done) => this.#ended(run, done),
      (error: unknown) => event("served", { run, error: fault(error) }),
    );
    this.#ends.push(end);
  }

  #ended(run: string, { errors, run: info }: RunResult): void {
    for (const error of errors) {
      event("error", fault(error));
    }
    event("served", { run, status: RunStatus[info.status] });
  }

  /** Gives its runs up. */
  async stop(): Promise<void> {
    await this.#client.close();
    await Promise.all(this.#ends);
    await this.#worker?.stop();
  }
}
