/** A worker's signs of life. */

import { durationMs } from "@bufbuild/protobuf/wkt";
import type { WorkerRegistered } from "./gen/pawl/v1/worker_pb.js";
import type { Holdings } from "./holdings.js";
import type { Session } from "./session.js";

const DEFAULT_MS = 5_000;
const SHORTEST_MS = 10;
const LONGEST_MS = 60_000;

/**
 * Sends heartbeats over one stream while turns are held, until it is stopped, and stops
 * work that is lost.
 */
export class Heartbeat {
  readonly #session: Session;
  readonly #holdings: Holdings;
  readonly #intervalMs: number;
  #timer: NodeJS.Timeout | undefined;
  /** When the next one is sent, by performance.now. */
  #due = Number.POSITIVE_INFINITY;
  #stopped = false;

  constructor(session: Session, registered: WorkerRegistered, holdings: Holdings) {
    const { heartbeatInterval: interval } = registered;
    this.#session = session;
    this.#holdings = holdings;
    this.#intervalMs = interval ? durationMs(interval) : DEFAULT_MS;
    this.turnsChanged();
  }

  /** A turn was taken: its lease may ask for an earlier heartbeat. */
  turnsChanged(): void {
    const due = performance.now() + this.#pauseMs();
    if (this.#stopped || this.#holdings.turns.size === 0 || due >= this.#due) {
      return;
    }
    clearTimeout(this.#timer);
    this.#due = due;
    this.#timer = setTimeout(() => void this.#beat(), this.#pauseMs());
  }

  stop(): void {
    this.#stopped = true;
    clearTimeout(this.#timer);
  }

  #pauseMs(): number {
    // Three chances within a lease.
    const third = (this.#holdings.shortestLeaseMs() ?? Number.POSITIVE_INFINITY) / 3;
    return Math.max(SHORTEST_MS, Math.min(this.#intervalMs, third, LONGEST_MS));
  }

  async #beat(): Promise<void> {
    const beat = { item: { case: "heartbeat" as const, value: {} } };
    // A stream that is lost is seen where it is received.
    const receipt = await this.#session.ask(beat).catch(() => undefined);
    if (receipt?.answer.case === "heartbeat") {
      this.#holdings.lost(receipt.answer.value.lost);
    }
    this.#due = Number.POSITIVE_INFINITY;
    this.turnsChanged();
  }
}
