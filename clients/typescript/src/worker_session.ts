/** One registered stream of a worker: its requests, their receipts and its incoming messages. */

import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import { errorOf, messageTooLarge, PawlError } from "./errors.js";
import {
  type WorkerRegistered,
  type WorkerRegistrationSchema,
  type WorkerService,
  type WorkReceipt,
  type WorkRequest,
  WorkRequestSchema,
  type WorkResponse,
} from "./gen/pawl/v1/worker_pb.js";
import { enclosed, Outbox, type Parcel } from "./outbox.js";
import { statusError } from "./status.js";

/** A request without its number, which the session adds. */
export type WorkInit = Pick<MessageInitShape<typeof WorkRequestSchema>, "credits" | "item">;

/** Returns the error of a request whose stream ended before its receipt. */
export function lost(): PawlError {
  return new PawlError("unavailable", "the stream ended before the receipt", {
    code: "UNAVAILABLE",
    reason: "STREAM_ENDED",
  });
}

interface Sent extends Parcel {
  readonly request: WorkRequest;
}

interface Waiting {
  resolve(receipt: WorkReceipt): void;
  reject(error: PawlError): void;
}

/** Most requests in one message. */
const MAX_TOGETHER = 1024;

/** Joins requests into one message: the first one contains the others. */
function together([{ request }, ...more]: readonly [Sent, ...Sent[]]): WorkRequest {
  const { number } = WorkRequestSchema.field.more;
  return more.length === 0
    ? request
    : { ...request, $unknown: more.map((sent) => enclosed(number, sent)) };
}

/** One stream. It has ended when `receive` has returned. */
export class Session {
  readonly #outbox: Outbox<Sent, WorkRequest>;
  readonly #connection = new AbortController();
  readonly #waiting = new Map<number, Waiting>();
  readonly #responses: AsyncIterator<WorkResponse>;
  #last = 0;
  #over = false;
  #maxBytes: number;

  /** `maxBytes` bounds a request; the sidecar's own limit does as well once it is known. */
  constructor(workers: Client<typeof WorkerService>, maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#outbox = new Outbox(together, { parcels: MAX_TOGETHER, bytes: maxBytes });
    const responses = workers.work(this.#outbox, { signal: this.#connection.signal });
    this.#responses = responses[Symbol.asyncIterator]();
  }

  /** Sends the registration and returns its answer. */
  async register(
    namespace: string,
    registration: MessageInitShape<typeof WorkerRegistrationSchema>,
  ): Promise<WorkerRegistered> {
    const item = { case: "register" as const, value: { ...registration, batches: true } };
    const request = create(WorkRequestSchema, { namespace, item });
    this.#outbox.push({ request, bytes: toBinary(WorkRequestSchema, request) });
    let first: IteratorResult<WorkResponse>;
    try {
      first = await this.#responses.next();
    } catch (error) {
      throw errorOf(error);
    }
    if (first.done || first.value.item.case !== "registered") {
      throw lost();
    }
    const registered = first.value.item.value;
    this.#maxBytes = Math.min(this.#maxBytes, Number(registered.maxMessageBytes));
    this.#outbox.open({ parcels: MAX_TOGETHER, bytes: this.#maxBytes });
    return registered;
  }

  /** Sends a request without waiting. */
  send(init: WorkInit, id = 0): void {
    const request = create(WorkRequestSchema, { ...init, id: BigInt(id) });
    const bytes = toBinary(WorkRequestSchema, request);
    if (bytes.length > this.#maxBytes) {
      throw messageTooLarge(bytes.length, this.#maxBytes);
    }
    if (this.#over) {
      throw lost();
    }
    this.#outbox.push({ request, bytes });
  }

  /** Sends a request and returns its receipt, or throws the receipt's error. */
  async ask(init: WorkInit): Promise<WorkReceipt> {
    this.#last += 1;
    const id = this.#last;
    const receipt = await new Promise<WorkReceipt>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject });
      try {
        this.send(init, id);
      } catch (error) {
        this.#waiting.delete(id);
        reject(error);
      }
    });
    if (receipt.error) {
      throw errorOf(statusError(receipt.error));
    }
    return receipt;
  }

  /** Passes on received messages until the stream ends, and returns why it ended. */
  async receive(take: (response: WorkResponse) => void): Promise<PawlError> {
    const each = (response: WorkResponse) => {
      if (response.item.case === "receipt") {
        this.#receipt(response.item.value);
      } else {
        take(response);
      }
    };
    try {
      for (;;) {
        const { done, value } = await this.#responses.next();
        if (done) {
          return lost();
        }
        each(value);
        value.more.forEach(each);
      }
    } catch (error) {
      return errorOf(error);
    } finally {
      this.close();
    }
  }

  /** Ends the sending; requests that were sent before still go out. */
  finish(): void {
    this.#outbox.close();
  }

  /** Ends the stream. */
  close(): void {
    this.#over = true;
    this.#outbox.close();
    this.#connection.abort();
    for (const waiting of this.#waiting.values()) {
      waiting.reject(lost());
    }
    this.#waiting.clear();
  }

  #receipt(receipt: WorkReceipt): void {
    const id = Number(receipt.id);
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    waiting?.resolve(receipt);
  }
}
