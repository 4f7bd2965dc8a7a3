/** The heartbeats of a worker. */

import { durationMs } from "@bufbuild/protobuf/wkt";
import type { WorkerRegistered } from "./gen/pawl/v1/worker_pb.js";
import type { LeasedTurn } from "./leased_turn.js";
import type { Leases } from "./leases.js";
import { later, type Timer } from "./timer.js";
import type { Session } from "./worker_session.js";

const DEFAULT_MS = 5_000;
const SHORTEST_MS = 10;
const LONGEST_MS = 60_000;

/**
 * Sends heartbeats over one stream while the worker holds turns, and stops work whose lease is
 * lost.
 */
export class Heartbeat {
  readonly #session: Session;
  readonly #holdings: Leases;
  readonly #intervalMs: number;
  #timer: Timer | undefined;
  /** When the next heartbeat is due, by performance.now. */
  #due = Number.POSITIVE_INFINITY;
  #stopped = false;

  constructor(session: Session, registered: WorkerRegistered, holdings: Leases) {
    const { heartbeatInterval: interval } = registered;
    this.#session = session;
    this.#holdings = holdings;
    this.#intervalMs = interval ? durationMs(interval) : DEFAULT_MS;
    this.#plan();
  }

  /** A turn was leased; its lease may require an earlier heartbeat. */
  taken({ lease }: LeasedTurn): void {
    this.#within(this.#pauseMs(lease.duration && durationMs(lease.duration)));
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  /** Plans the next heartbeat, which names all held work. */
  #plan(): void {
    if (this.#holdings.turns.size > 0) {
      this.#within(this.#pauseMs(this.#holdings.shortestLeaseMs()));
    }
  }

  /** Makes the next heartbeat due within so many milliseconds. */
  #within(pauseMs: number): void {
    const due = performance.now() + pauseMs;
    if (this.#stopped || due >= this.#due) {
      return;
    }
    this.#timer?.cancel();
    this.#due = due;
    this.#timer = later(pauseMs, () => void this.#heartbeat());
  }

  #pauseMs(leaseMs: number | undefined): number {
    // A heartbeat is sent at least three times within a lease; a lease of 0 does not end by time.
    const third = (leaseMs || Number.POSITIVE_INFINITY) / 3;
    return Math.max(SHORTEST_MS, Math.min(this.#intervalMs, third, LONGEST_MS));
  }

  async #heartbeat(): Promise<void> {
    const tokens = [...this.#holdings.turns].map(({ lease }) => lease.token);
    const heartbeat = { item: { case: "heartbeat" as const, value: { tokens } } };
    // An error means that the stream was lost. The receiver of the stream handles that.
    const receipt = await this.#session.ask(heartbeat).catch(() => undefined);
    if (receipt?.answer.case === "heartbeat") {
      this.#holdings.lost(receipt.answer.value.lost);
    }
    this.#due = Number.POSITIVE_INFINITY;
    this.#plan();
  }
}
