/** Handles the messages of a work stream, for workers and for clients that drive runs. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import type { Connection } from "./connection.js";
import type { Denials } from "./denials.js";
import type { PawlError } from "./errors.js";
import type { Executor } from "./executor.js";
import type {
  RunUnserved,
  StepAssignment,
  StepLease,
  TurnAssignment,
  TurnLease,
  WorkerRegistered,
  WorkerRegistration,
  WorkerRegistrationSchema,
  WorkerService,
  WorkResponse,
} from "./gen/pawl/v1/worker_pb.js";
import { Heartbeat } from "./heartbeat.js";
import { LeasedStep } from "./leased_step.js";
import { LeasedTurn } from "./leased_turn.js";
import { Leases } from "./leases.js";
import { newId } from "./retry.js";
import { RunReader } from "./run_reader.js";
import { WorkerConnection } from "./worker_connection.js";
import type { Session, WorkInit } from "./worker_session.js";

type Registration = Exclude<MessageInitShape<typeof WorkerRegistrationSchema>, WorkerRegistration>;

/** The owner of a stream's work: a worker, or the runs that a client drives. */
export interface WorkHost {
  /** Id of the worker, the same for all its streams. */
  readonly id: string;
  /** Name in the log. */
  readonly title: string;
  /** The client that opens its streams. */
  readonly workers: Client<typeof WorkerService>;
  /** Returns the registration without the held work. */
  registration(): Registration;
  /** Is called when a stream is registered. */
  registered(): void;
  /** Is called when the connection is lost or cannot be opened. */
  missed?(error: PawlError): void;
  /** Returns the executor of a run's work. Undefined means that the work is given back. */
  executorOf(runId: string): Executor | undefined;
  /** Is called when the sidecar no longer sends the work of a run to this process. */
  unserved?(onError: RunUnserved): void;
  /** Is called with the error of a request that could not be sent. */
  onError(error: unknown): void;
  /** Is called when the last piece of work in progress has ended. */
  idle?(): void;
}

/** The work of one worker over all its streams. */
export class Work {
  readonly holdings = new Leases();
  readonly link: WorkerConnection;
  readonly #host: WorkHost;
  readonly #connection: Connection;
  readonly #denials: Denials;
  readonly #instance = newId();
  /** The highest received step number; the sidecar does not send steps up to it again. */
  #received = 0n;
  readonly #tasks = new Map<LeasedTurn | LeasedStep, Promise<void>>();
  #heartbeat: Heartbeat | undefined;

  constructor(connection: Connection, host: WorkHost) {
    this.#connection = connection;
    this.#host = host;
    this.#denials = connection.denials;
    this.link = new WorkerConnection(connection, {
      title: host.title,
      workers: host.workers,
      registration: () => this.#registration(),
      registered: (session, registered) => this.#registered(session, registered),
      missed: (error) => host.missed?.(error),
      take: (response) => this.#take(response),
    });
  }

  /** True if no work is in progress. */
  get idle(): boolean {
    return this.#tasks.size === 0;
  }

  /** Waits until all work that is now in progress has ended. */
  async settled(): Promise<void> {
    await Promise.allSettled([...this.#tasks.values()]);
  }

  /** Waits until the turns of a run that are now in progress have ended. */
  async turnsSettled(runId: string): Promise<void> {
    const turns = [...this.#tasks].filter(
      ([{ kind, lease }]) => kind === "turn" && lease.runId === runId,
    );
    await Promise.allSettled(turns.map(([, task]) => task));
  }

  /** Waits until the steps that are now in progress are answered and have receipts. */
  async stepsSettled(): Promise<void> {
    const steps = [...this.#tasks].filter(([{ kind }]) => kind === "step");
    await Promise.allSettled(steps.map(([, task]) => task));
  }

  /** Sends a request that needs no receipt. */
  receive(init: WorkInit): void {
    try {
      this.link.receive(init);
    } catch (error) {
      this.#host.onError(error);
    }
  }

  #registration() {
    return {
      workerId: this.#host.id,
      instance: this.#instance,
      receivedSteps: this.#received,
      // Only the acceptance of a completion is needed, not its outcome.
      brief: true,
      client: "pawl-typescript",
      ...this.#host.registration(),
      ...this.holdings.leases(),
    };
  }

  #registered(session: Session, registered: WorkerRegistered): () => void {
    this.holdings.keep(registered);
    this.#host.registered();
    const heartbeat = new Heartbeat(session, registered, this.holdings);
    this.#heartbeat = heartbeat;
    return () => heartbeat.stop();
  }

  #take({ item }: WorkResponse): void {
    if (item.case === "turn" && item.value.lease) {
      this.#turn(item.value, item.value.lease);
    } else if (item.case === "step" && item.value.lease) {
      this.#step(item.value, item.value.lease);
    } else if (item.case === "revoked") {
      this.holdings.revoke(item.value);
    } else if (item.case === "stepAnswers") {
      this.holdings.answered(item.value);
    } else if (item.case === "runUnserved") {
      this.#host.unserved?.(item.value);
    }
  }

  #turn(assignment: TurnAssignment, lease: TurnLease): void {
    const executor = this.#host.executorOf(lease.runId);
    if (!executor) {
      this.#giveBack({ case: "turnToken", value: lease.token });
      return;
    }
    const { suspendAfterMs } = executor.limits;
    const held = new LeasedTurn(assignment, lease, this.link.ask, suspendAfterMs, {
      refused: this.#denials.take.bind(this.#denials),
      pending: executor.pending.bind(executor),
      artifacts: (runId, signal) => new RunReader(this.#connection, runId).artifacts({ signal }),
    });
    this.holdings.turns.add(held);
    this.#heartbeat?.taken(held);
    this.#spawn(executor, held, executor.turn(held));
  }

  #step(assignment: StepAssignment, lease: StepLease): void {
    this.#received = max(this.#received, assignment.delivery);
    const executor = this.#host.executorOf(lease.runId);
    if (!executor) {
      this.#giveBack({ case: "stepToken", value: lease.token });
      return;
    }
    const held = new LeasedStep(assignment, lease);
    this.holdings.steps.add(held);
    this.#spawn(executor, held, executor.step(held));
  }

  /** Gives back work that has not begun. */
  #giveBack(work: { case: "turnToken" | "stepToken"; value: string }): void {
    this.receive({ item: { case: "release", value: { work } } });
  }

  #spawn(executor: Executor, held: LeasedTurn | LeasedStep, work: Promise<void>): void {
    const task = work
      .catch((error: unknown) => executor.onError(error, held))
      .finally(() => {
        this.#tasks.delete(held);
        if (this.idle) {
          this.#host.idle?.();
        }
      });
    this.#tasks.set(held, task);
  }
}

function max(a: bigint, b: bigint): bigint {
  return a > b ? a : b;
}
