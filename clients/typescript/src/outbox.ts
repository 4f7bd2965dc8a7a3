/** The outgoing messages of one stream. */

import type { UnknownField } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/** One item to send, in its wire form. */
export interface Parcel {
  readonly bytes: Uint8Array;
}

/** Limits of one message. */
export interface Bounds {
  readonly parcels: number;
  readonly bytes: number;
}

/** Size of a parcel's tag and length within its message in bytes: at most 2 and 5. */
const AROUND = 8;

/**
 * Outgoing parcels in order. Parcels that are ready within one turn of the event loop share a
 * message, because separate messages would cost more than their content. Only one reader is
 * allowed.
 */
export class Outbox<P extends Parcel, Message> implements AsyncIterable<Message> {
  readonly #join: (parcels: readonly [P, ...P[]]) => Message;
  #queue: P[] = [];
  #bounds: Bounds | undefined;
  /** Delivers the next message to the waiting reader. Undefined means that no reader waits. */
  #wanted: ((next: Message | undefined) => void) | undefined;
  #due = false;
  #closed = false;

  /** `join` builds a message; without `bounds` no message is sent before `open`. */
  constructor(join: (parcels: readonly [P, ...P[]]) => Message, bounds?: Bounds) {
    this.#join = join;
    this.#bounds = bounds;
  }

  /** Begins to send, or changes the limits of a message. */
  open(bounds: Bounds): void {
    this.#bounds = bounds;
    this.#schedule();
  }

  push(parcel: P): void {
    this.#queue.push(parcel);
    this.#schedule();
  }

  /** Withdraws a parcel that was not sent yet. */
  withdraw(parcel: P): void {
    this.#queue = this.#queue.filter((other) => other !== parcel);
  }

  /** Ends the stream after the parcels that were pushed before. */
  close(): void {
    this.#closed = true;
    this.#schedule();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Message, void, undefined> {
    for (;;) {
      const message = await new Promise<Message | undefined>((resolve) => {
        this.#wanted = resolve;
        this.#schedule();
      });
      if (message === undefined) {
        return;
      }
      yield message;
    }
  }

  #schedule(): void {
    if (this.#wanted && !this.#due && (this.#ready || this.#closed)) {
      this.#due = true;
      setImmediate(() => this.#deliver());
    }
  }

  get #ready(): boolean {
    return this.#bounds !== undefined && this.#queue.length > 0;
  }

  #deliver(): void {
    this.#due = false;
    const [first, ...more] = this.#take();
    if (!first && !this.#closed) {
      return; // All ready parcels were withdrawn.
    }
    const wanted = this.#wanted;
    this.#wanted = undefined;
    wanted?.(first && this.#join([first, ...more]));
  }

  /** Returns the parcels of the next message: as many as fit, at least one. */
  #take(): P[] {
    const bounds = this.#bounds;
    if (!bounds) {
      return [];
    }
    let count = 0;
    let left = bounds.bytes;
    for (const { bytes } of this.#queue.slice(0, bounds.parcels)) {
      left -= bytes.length + AROUND;
      if (left < 0 && count > 0) {
        break;
      }
      count += 1;
    }
    return this.#queue.splice(0, count);
  }
}

/** Returns a parcel as a field of its message, without encoding it again. */
export function enclosed(no: number, { bytes }: Parcel): UnknownField {
  const data = new BinaryWriter().bytes(bytes).finish();
  return { no, wireType: WireType.LengthDelimited, data };
}
