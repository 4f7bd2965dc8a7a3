/** A worker: executes turns and tools for a sidecar. */

import { brand } from "./brand.js";
import type { Connection } from "./connection.js";
import type { ExactReply } from "./exact_types.js";
import { Executor } from "./executor.js";
import { HandlerTable, type ToolHandler, type ToolOptions } from "./handlers.js";
import type { LeasedStep } from "./leased_step.js";
import type { LeasedTurn } from "./leased_turn.js";
import { type Log, warnOf } from "./log.js";
import type { Json } from "./plain_message.js";
import { newId, sleep } from "./retry.js";
import type { Handler } from "./turn.js";
import { type ToolSchemas, typedTool } from "./typed_tool.js";
import type { AnyPack, ArgumentsOf, LooseName, NameOf, PackTypes, TurnOf } from "./types.js";
import { Work } from "./work_handler.js";
import { type WorkerOptions, type WorkerSettings, workerSettings } from "./worker_options.js";

/** The signals that stop a worker. Windows alone has SIGBREAK; elsewhere it never comes. */
const ENDINGS = ["SIGTERM", "SIGINT", "SIGBREAK"] as const;

/**
 * Executes turns of prompts and agents, and steps of tools, for a sidecar. `PawlClient.worker`
 * creates it. It sends heartbeats while handlers run.
 *
 *     const worker = client.worker({ turns: 4 });
 *     worker.prompt("coder", async (turn) => ({ event: "Done" }));
 *     worker.tool("add", (payload: { a: number; b: number }) => payload.a + payload.b);
 *     await worker.run();
 */
export class Worker<P extends PackTypes = AnyPack> {
  static {
    brand(Worker, "Worker");
  }

  /** Id of the worker, which records of its work contain. */
  readonly id: string;
  readonly #settings: WorkerSettings;
  readonly #handlers = new HandlerTable();
  readonly #log: Log;
  readonly #work: Work;
  readonly #executor: Executor;
  /** Tools of which `#warnNotExecuted` has warned. */
  readonly #warned = new Set<string>();
  #draining = false;
  #serving: Promise<void> | undefined;

  constructor(connection: Connection, options: WorkerOptions<P>) {
    this.#settings = workerSettings(options);
    this.id = options.workerId ?? `typescript-${newId()}`;
    this.#log = connection.log;
    this.#work = new Work(connection, {
      id: this.id,
      title: `worker ${this.id}`,
      workers: connection.workers,
      registration: () => this.#registration(),
      registered: () => this.#registered(connection.address),
      executorOf: () => this.#executor,
      onError: (error) => this.#reported(error),
    });
    this.#executor = this.#newExecutor();
  }

  /**
   * Registers a handler for the turns of a prompt; "*": for all prompts without a handler. Throws a
   * RangeError if the prompt has a handler already.
   */
  prompt<N extends NameOf<P["prompts"]>, H extends Handler<TurnOf<P, N>>>(
    name: N,
    handler: H & ExactReply<H, TurnOf<P, N>>,
  ): this {
    this.#handlers.prompt(name, handler as unknown as Handler);
    return this;
  }

  /**
   * Registers a handler for runs of an agent, for prompts that have no handler; "*": for all agents
   * without a handler. Throws a RangeError if the agent has a handler already.
   */
  agent<H extends Handler<P["turns"]>>(
    name: NameOf<P["agents"]>,
    handler: H & ExactReply<H, P["turns"]>,
  ): this {
    this.#handlers.agent(name, handler as unknown as Handler);
    return this;
  }

  /**
   * Registers a handler for the steps of a tool; "*": for all tools without a handler. With schemas
   * (of zod, or another Standard Schema) the handler receives the payload as `input` converts it,
   * and its result is converted by `output`. Throws a RangeError if the tool has a handler already.
   *
   *     worker.tool("add", { input: z.object({ a: z.number() }) }, ({ a }) => a + 1);
   */
  tool<Arguments, Result = Json>(
    name: NameOf<P["tools"]>,
    schemas: ToolSchemas<Arguments, Result>,
    handler: ToolHandler<Arguments, NoInfer<Result>>,
  ): this;
  /** As above, without schemas: the handler receives the payload unchanged. */
  tool<N extends NameOf<P["tools"]>, Result = Json>(
    name: N,
    handler: ToolHandler<ArgumentsOf<P, N>, Result>,
    options?: ToolOptions,
  ): this;
  /** As above, for tools without known types: the handler declares the types. */
  tool<Payload = Json, Result = Json>(
    name: LooseName<P["tools"]>,
    handler: ToolHandler<Payload, Result>,
    options?: ToolOptions,
  ): this;
  /** The implementation of both forms. */
  tool(
    name: string,
    first: ToolSchemas<unknown, unknown> | ToolHandler<never>,
    second: ToolHandler<unknown, unknown> | ToolOptions = {},
  ): this {
    if (typeof first === "function") {
      this.#handlers.tool(name, first as ToolHandler, second as ToolOptions);
    } else {
      this.#handlers.tool(name, typedTool(first, second as ToolHandler<unknown, unknown>), {});
    }
    return this;
  }

  /**
   * Serves until SIGTERM or SIGINT, then drains. On Windows: until Ctrl+C or Ctrl+Break. Errors are
   * those of `serve`.
   */
  async run(): Promise<void> {
    const stop = () => void this.stop();
    for (const signal of ENDINGS) {
      process.once(signal, stop);
    }
    try {
      await this.serve();
    } finally {
      for (const signal of ENDINGS) {
        process.off(signal, stop);
      }
    }
  }

  /**
   * Serves until `stop`, or until an abort of `signal`, which drains as well. It reconnects after a
   * lost connection and keeps its leases. Throws a PawlError if the sidecar refuses the worker for
   * good (UNKNOWN_PROMPT, UNKNOWN_TOOL, WORKER_REPLACED, ...), and a RangeError for a worker
   * without a handler.
   */
  async serve(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (this.#serving) {
      throw new RangeError("a worker serves once; create a new one with client.worker");
    }
    if (Object.values(this.#handlers.names()).every((list) => list.length === 0)) {
      throw new RangeError(
        "a worker needs at least one handler; register one with prompt, agent or tool",
      );
    }
    const stop = () => void this.stop();
    options.signal?.addEventListener("abort", stop, { once: true });
    this.#serving = this.#work.link.live();
    try {
      if (options.signal?.aborted) {
        stop();
      }
      await this.#serving;
    } finally {
      options.signal?.removeEventListener("abort", stop);
      this.#work.link.close();
      this.#work.holdings.revokeAll();
    }
  }

  /**
   * Drains: takes no more work, lets handlers finish within `drainTimeoutMs`, and gives back the
   * rest.
   */
  async stop(): Promise<void> {
    if (!this.#serving || this.#draining) {
      await this.#serving?.catch(() => undefined);
      return;
    }
    this.#draining = true;
    this.#work.receive({ item: { case: "drain", value: {} } });
    // A handler that stops the worker before its first await is not yet among the tasks.
    await Promise.resolve();
    await this.#finish();
    await this.#giveBack();
    this.#work.link.close();
    await this.#serving.catch(() => undefined);
  }

  /** Waits for the work in progress, at most for the time of a drain. */
  async #finish(): Promise<void> {
    const waiting = new AbortController();
    await Promise.race([
      this.#work.settled(),
      sleep(this.#settings.drainTimeoutMs, waiting.signal).catch(() => undefined),
    ]);
    waiting.abort();
  }

  /**
   * Releases the turns of handlers that did not finish. Steps may have begun, so they are not
   * released: their leases end.
   */
  async #giveBack(): Promise<void> {
    const released = [...this.#work.holdings.turns].map((held) => {
      const work = { case: "turnToken" as const, value: held.lease.token };
      return this.#work.link.askNow({ item: { case: "release", value: { work } } });
    });
    await Promise.allSettled(released);
  }

  #registration() {
    const names = this.#handlers.names();
    const { turns, steps, packs, allowUnknown } = this.#settings;
    return {
      packs: [...packs],
      ...names,
      allowUnknown,
      turnCapacity: names.prompts.length + names.agents.length > 0 ? turns : 0,
      stepCapacity: names.tools.length > 0 ? steps : 0,
    };
  }

  #registered(address: string): void {
    this.#log.info(`worker ${this.id}: connected to ${address}`);
    if (this.#draining) {
      this.#work.receive({ item: { case: "drain", value: {} } });
    } else {
      const { turns, steps } = this.#settings;
      const { holdings } = this.#work;
      this.#credit(turns - holdings.turns.size, steps - holdings.steps.size);
    }
  }

  #newExecutor(): Executor {
    const { link, holdings } = this.#work;
    const draining = () => this.#draining;
    const host = {
      get credits() {
        return !draining();
      },
      ask: link.ask,
      credit: (turns: number, steps: number) => this.#credit(turns, steps),
      forget: holdings.drop.bind(holdings),
      onError: (error: unknown, held: LeasedTurn | LeasedStep) => this.#reported(error, held),
      warn: (text: string) => this.#log.warn(`worker ${this.id}: ${text}`),
      notExecuted: (pack: string, tool: string) => this.#warnNotExecuted(pack, tool),
    };
    return new Executor(this.#handlers, host, this.#settings);
  }

  #credit(turns: number, steps: number): void {
    if (!this.#draining && (turns > 0 || steps > 0)) {
      this.#work.receive({ credits: { turns: Math.max(0, turns), steps: Math.max(0, steps) } });
    }
  }

  /** Warns, once for each tool, that a turn of this worker waits for another worker. */
  #warnNotExecuted(pack: string, tool: string): void {
    if (!this.#warned.has(tool)) {
      this.#warned.add(tool);
      const own = this.#handlers.names().tools.join(", ") || "none";
      this.#log.warn(
        `worker ${this.id}: pack ${pack}: this worker does not execute tool ${tool}, and the ` +
          `call waits for one that does; tools of this worker: ${own}`,
      );
    }
  }

  /** Passes an error to `onError` and the log, with where it was thrown. Never throws. */
  #reported(error: unknown, held?: LeasedTurn | LeasedStep): void {
    const what = `worker ${this.id}: ${held?.title ?? "a request"}:`;
    warnOf(this.#log, what, error);
    try {
      this.#settings.onError(error);
    } catch (own) {
      warnOf(this.#log, `worker ${this.id}: onError threw an error itself:`, own);
    }
  }
}
