/** A worker: executes turns and tools for a sidecar. */

import { durationMs } from "@bufbuild/protobuf/wkt";
import type { Connection } from "./connection.js";
import { PawlError } from "./errors.js";
import { Executor, type ExecutorHost } from "./executor.js";
import type {
  Revocation,
  TurnLease,
  WorkerRegistered,
  WorkReceipt,
  WorkResponse,
} from "./gen/pawl/v1/worker_pb.js";
import { HandlerTable, type ToolHandler, type ToolOptions, within } from "./handlers.js";
import { HeldStep, HeldTurn, stale } from "./held.js";
import type { Json } from "./plain.js";
import { aborted, Backoff, newId, repeatable, sleep } from "./retry.js";
import { Session, type WorkInit } from "./session.js";
import type { Handler } from "./turn.js";
import { capacity, type WorkerOptions } from "./worker_options.js";

const HANDLER_TIMEOUT_MS = 900_000;
const DRAIN_TIMEOUT_MS = 30_000;
const HEARTBEAT_MS = 5_000;
/** Kinds of errors that end a stream and that no new stream can help. */
const PERMANENT = ["request", "authentication", "permission", "not_found", "state", "server"];

/**
 * Executes turns of prompts and agents, and steps of tools, for a sidecar. Made by
 * `PawlClient.worker`. Heartbeats are sent by the worker while handlers run.
 *
 *     const worker = client.worker({ turns: 4 });
 *     worker.prompt("coder", async (turn) => ({ event: "Done" }));
 *     worker.tool("add", (payload: { a: number; b: number }) => payload.a + payload.b);
 *     await worker.run();
 */
export class Worker {
  /** Its name, recorded with what it executes. */
  readonly id: string;
  readonly #connection: Connection;
  readonly #options: WorkerOptions;
  readonly #capacity: { turns: number; steps: number };
  readonly #handlers = new HandlerTable();
  readonly #turns = new Set<HeldTurn>();
  readonly #steps = new Set<HeldStep>();
  readonly #tasks = new Set<Promise<void>>();
  readonly #over = new AbortController();
  readonly #executor: Executor;
  #session: Session | undefined;
  #connected = pending();
  #draining = false;
  #serving: Promise<void> | undefined;

  constructor(connection: Connection, options: WorkerOptions) {
    this.#connection = connection;
    this.#options = options;
    this.id = options.workerId ?? `typescript-${newId()}`;
    this.#capacity = {
      turns: capacity("turns", options.turns ?? 1),
      steps: capacity("steps", options.steps ?? 1),
    };
    const limitMs = options.handlerTimeoutMs ?? HANDLER_TIMEOUT_MS;
    this.#executor = new Executor(this.#handlers, this.#host(), limitMs);
  }

  /** Executes the turns of a prompt; "*": of all that have no handler. */
  prompt(name: string, handler: Handler): this {
    this.#handlers.prompt(name, handler);
    return this;
  }

  /** Executes the turns of runs of an agent, whatever their prompt; "*": of all. */
  agent(name: string, handler: Handler): this {
    this.#handlers.agent(name, handler);
    return this;
  }

  /** Executes the steps of a tool; "*": of all that have no handler. */
  tool<Payload = Json, Result = Json>(
    name: string,
    handler: ToolHandler<Payload, Result>,
    options: ToolOptions = {},
  ): this {
    this.#handlers.tool(name, handler as ToolHandler<never> as ToolHandler, options);
    return this;
  }

  /** Serves until SIGTERM or SIGINT, then drains. Throws as `serve`. */
  async run(): Promise<void> {
    const stop = () => void this.stop();
    process.once("SIGTERM", stop).once("SIGINT", stop);
    try {
      await this.serve();
    } finally {
      process.off("SIGTERM", stop).off("SIGINT", stop);
    }
  }

  /**
   * Serves until `stop`, or until `signal` is aborted, which drains. Connects again when
   * the connection breaks, and keeps what it holds. Throws a PawlError if the sidecar
   * refuses the worker for good (UNKNOWN_PROMPT, UNKNOWN_TOOL, WORKER_REPLACED, ...).
   */
  async serve(options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    if (this.#serving) {
      throw new RangeError("a worker serves once");
    }
    const names = this.#handlers.names();
    if (Object.values(names).every((list) => list.length === 0)) {
      throw new RangeError("a worker needs at least one handler");
    }
    const stop = () => void this.stop();
    options.signal?.addEventListener("abort", stop, { once: true });
    this.#serving = this.#live();
    try {
      if (options.signal?.aborted) {
        stop();
      }
      await this.#serving;
    } finally {
      options.signal?.removeEventListener("abort", stop);
      this.#end();
    }
  }

  /** Drains: takes no more work, lets handlers finish, then gives back the rest. */
  async stop(): Promise<void> {
    if (!this.#serving || this.#draining) {
      await this.#serving?.catch(() => undefined);
      return;
    }
    this.#draining = true;
    this.#tell({ item: { case: "drain", value: {} } });
    const patience = this.#options.drainTimeoutMs ?? DRAIN_TIMEOUT_MS;
    const waiting = new AbortController();
    await Promise.race([
      Promise.allSettled([...this.#tasks]),
      sleep(patience, waiting.signal).catch(() => undefined),
    ]);
    waiting.abort();
    await this.#giveBack();
    this.#over.abort();
    this.#session?.close();
    await this.#serving.catch(() => undefined);
  }

  async #live(): Promise<void> {
    const backoff = new Backoff();
    while (!this.#over.signal.aborted) {
      const session = new Session(this.#connection.workers);
      const error = await this.#serveOne(session, backoff).catch((thrown: unknown) => thrown);
      session.close();
      if (this.#over.signal.aborted) {
        return;
      }
      if (!(error instanceof PawlError) || isPermanent(error)) {
        throw error;
      }
      const pause = Math.max(backoff.next(), error.retryAfterMs ?? 0);
      await sleep(pause, this.#over.signal).catch(() => undefined);
    }
  }

  /** Serves over one stream, and gives why it ended. */
  async #serveOne(session: Session, backoff: Backoff): Promise<PawlError> {
    const registered = await session.register(this.#connection.namespace, this.#registration());
    backoff.reset();
    this.#keep(registered);
    this.#session = session;
    if (this.#draining) {
      this.#tell({ item: { case: "drain", value: {} } });
    } else {
      const { turns, steps } = this.#capacity;
      this.#credit(turns - this.#turns.size, steps - this.#steps.size);
    }
    this.#connected.resolve();
    const beat = this.#beat(session, registered);
    try {
      return await session.receive((response) => this.#take(response));
    } finally {
      clearTimeout(beat.timer);
      this.#session = undefined;
      this.#connected = pending();
    }
  }

  #registration() {
    const names = this.#handlers.names();
    const { turns, steps } = this.#capacity;
    return {
      workerId: this.id,
      client: "pawl-typescript",
      packs: [...(this.#options.packs ?? [])],
      ...names,
      allowUnknown: this.#options.allowUnknown ?? false,
      turnCapacity: names.prompts.length + names.agents.length > 0 ? turns : 0,
      stepCapacity: names.tools.length > 0 ? steps : 0,
      heldTurns: [...this.#turns].map((held) => ({ ...held.lease, stepRequests: held.asked })),
      heldSteps: [...this.#steps].map((held) => held.lease),
    };
  }

  /** Goes on with what the sidecar lets the worker keep, and stops the rest. */
  #keep(registered: WorkerRegistered): void {
    for (const held of this.#turns) {
      const { runId, turnSeq } = held.lease;
      const kept = registered.keptTurns.find((l) => l.runId === runId && l.turnSeq === turnSeq);
      if (kept) {
        held.lease = kept;
      } else {
        held.revoke(stale(`turn ${turnSeq} of ${runId}`));
      }
    }
    for (const held of this.#steps) {
      const { runId, step } = held.lease;
      const kept = registered.keptSteps.find((l) => l.runId === runId && l.step === step);
      if (kept) {
        held.lease = kept;
      } else {
        held.revoke(stale(`step ${step} of ${runId}`));
      }
    }
  }

  /** Sends heartbeats for as long as the stream lives. */
  #beat(session: Session, registered: WorkerRegistered): { timer?: NodeJS.Timeout } {
    const interval = registered.heartbeatInterval;
    const every = interval ? durationMs(interval) : HEARTBEAT_MS;
    const state: { timer?: NodeJS.Timeout } = {};
    const next = () => {
      const thirds = [...this.#turns].map(({ lease }) => leaseMs(lease) / 3).filter((ms) => ms > 0);
      const pause = Math.max(10, Math.min(every, MOST_PAUSE_MS, ...thirds));
      state.timer = setTimeout(async () => {
        const beat = { item: { case: "heartbeat" as const, value: {} } };
        // A stream that is lost is seen where it is received.
        const receipt = await session.ask(beat).catch(() => undefined);
        this.#lost(receipt);
        if (this.#session === session) {
          next();
        }
      }, pause);
    };
    next();
    return state;
  }

  #lost(receipt: WorkReceipt | undefined): void {
    const tokens = receipt?.answer.case === "heartbeat" ? receipt.answer.value.lost : [];
    for (const held of this.#turns) {
      if (tokens.includes(held.lease.token)) {
        held.revoke(stale(`turn ${held.lease.turnSeq} of ${held.lease.runId}`));
      }
    }
  }

  // What it is sent

  #take({ item }: WorkResponse): void {
    if (item.case === "turn" && item.value.lease) {
      const held = new HeldTurn(item.value, item.value.lease, this.#ask);
      this.#turns.add(held);
      this.#spawn(this.#executor.turn(held));
    } else if (item.case === "step" && item.value.lease) {
      const held = new HeldStep(item.value, item.value.lease);
      this.#steps.add(held);
      this.#spawn(this.#executor.step(held));
    } else if (item.case === "revoked") {
      this.#revoked(item.value);
    } else if (item.case === "stepAnswers") {
      const { runId, turnSeq } = item.value;
      for (const held of this.#turns) {
        if (held.lease.runId === runId && held.lease.turnSeq === turnSeq) {
          held.answered(item.value);
        }
      }
    }
  }

  #revoked({ work, cause }: Revocation): void {
    const held = work.case === "turn" ? this.#turns : this.#steps;
    for (const one of held) {
      if (one.lease.token === work.value?.token) {
        one.revoke(stale(`work on ${one.lease.runId}`, cause));
      }
    }
  }

  #spawn(work: Promise<void>): void {
    const task = work.catch((error: unknown) => this.#told(error));
    this.#tasks.add(task);
    void task.finally(() => this.#tasks.delete(task));
  }

  #host(): ExecutorHost {
    const draining = () => this.#draining;
    return {
      get draining() {
        return draining();
      },
      ask: (make, signal) => this.#ask(make, signal),
      credit: (turns, steps) => this.#credit(turns, steps),
      forget: (held) => {
        this.#turns.delete(held as HeldTurn);
        this.#steps.delete(held as HeldStep);
      },
      told: (error) => this.#told(error),
    };
  }

  // Sending

  /** Sends a request, again over new streams, until it has its receipt. */
  readonly #ask = async (make: () => WorkInit, signal: AbortSignal): Promise<WorkReceipt> => {
    const backoff = new Backoff();
    for (;;) {
      if (signal.aborted) {
        throw aborted(signal);
      }
      const session = this.#session;
      if (!session) {
        await within(0, signal, this.#connected.promise);
        continue;
      }
      try {
        return await session.ask(make());
      } catch (error) {
        if (!(error instanceof PawlError) || !repeatable(error)) {
          throw error;
        }
        await sleep(Math.max(backoff.next(), error.retryAfterMs ?? 0), signal);
      }
    }
  };

  /** Sends a request that needs no receipt; without a stream it is not needed either. */
  #tell(init: WorkInit): void {
    try {
      this.#session?.send(init);
    } catch (error) {
      this.#told(error);
    }
  }

  #credit(turns: number, steps: number): void {
    if (!this.#draining && (turns > 0 || steps > 0)) {
      this.#tell({ credits: { turns: Math.max(0, turns), steps: Math.max(0, steps) } });
    }
  }

  /** Gives back the turns whose handlers did not finish. Steps may have begun: they are lost. */
  async #giveBack(): Promise<void> {
    const session = this.#session;
    const released = [...this.#turns].map((held) => {
      const work = { case: "turnToken" as const, value: held.lease.token };
      return session?.ask({ item: { case: "release", value: { work } } });
    });
    await Promise.allSettled(released);
  }

  #end(): void {
    this.#over.abort();
    for (const held of [...this.#turns, ...this.#steps]) {
      held.revoke(stale(`work on ${held.lease.runId}`));
    }
  }

  #told(error: unknown): void {
    this.#options.onError?.(error);
  }
}

const MOST_PAUSE_MS = 60_000;

function isPermanent(error: PawlError): boolean {
  return PERMANENT.includes(error.kind) || error.reason === "WORKER_REPLACED";
}

function leaseMs(lease: TurnLease): number {
  return lease.duration ? durationMs(lease.duration) : 0;
}

function pending(): { promise: Promise<void>; resolve: () => void } {
  let resolve: () => void = () => undefined;
  const promise = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { promise, resolve };
}
