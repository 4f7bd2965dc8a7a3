/** What goes out over one stream. */

import type { UnknownField } from "@bufbuild/protobuf";
import { BinaryWriter, WireType } from "@bufbuild/protobuf/wire";

/** One message to send, in its wire form. */
export interface Parcel {
  readonly bytes: Uint8Array;
}

/** What one message takes. */
export interface Bounds {
  readonly parcels: number;
  readonly bytes: number;
}

/** Tag and length of a parcel within its message, bytes; a tag of ours has 2, a length 5. */
const AROUND = 8;

/**
 * Parcels on their way out, in order. What is ready within one turn of the event loop shares
 * a message: of many small ones most of the cost would be the messages. Read once.
 */
export class Outbox<P extends Parcel, Message> implements AsyncIterable<Message> {
  readonly #join: (parcels: readonly [P, ...P[]]) => Message;
  #queue: P[] = [];
  #bounds: Bounds | undefined;
  /** Takes the next message; undefined: there is none. */
  #wanted: ((next: Message | undefined) => void) | undefined;
  #due = false;
  #closed = false;

  /** `join` makes a message; without `bounds` no message is sent before `open`. */
  constructor(join: (parcels: readonly [P, ...P[]]) => Message, bounds?: Bounds) {
    this.#join = join;
    this.#bounds = bounds;
  }

  /** Lets go, in messages within new bounds. */
  open(bounds: Bounds): void {
    this.#bounds = bounds;
    this.#schedule();
  }

  push(parcel: P): void {
    this.#queue.push(parcel);
    this.#schedule();
  }

  /** Takes back what was not sent yet. */
  withdraw(parcel: P): void {
    this.#queue = this.#queue.filter((other) => other !== parcel);
  }

  /** Ends the stream behind what was pushed before. */
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
      return; // What was ready was withdrawn.
    }
    const wanted = this.#wanted;
    this.#wanted = undefined;
    wanted?.(first && this.#join([first, ...more]));
  }

  /** The parcels of the next message: those that fit, at least one. */
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

/** A parcel as a field of the message that it goes in; it is not encoded again. */
export function enclosed(no: number, { bytes }: Parcel): UnknownField {
  const data = new BinaryWriter().bytes(bytes).finish();
  return { no, wireType: WireType.LengthDelimited, data };
}
