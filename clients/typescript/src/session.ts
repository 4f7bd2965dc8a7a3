/** One registered stream of a worker: requests, their receipts, and what it is sent. */

import { create, type MessageInitShape, toBinary } from "@bufbuild/protobuf";
import { type Client, type Code, ConnectError } from "@connectrpc/connect";
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

/** A request as it is given; the session numbers it. */
export type WorkInit = Pick<MessageInitShape<typeof WorkRequestSchema>, "credits" | "item">;

/** The error of a request whose stream ended before its receipt. */
export function lost(): PawlError {
  return new PawlError("unavailable", "the stream ended before the receipt", {
    code: "UNAVAILABLE",
    reason: "STREAM_ENDED",
  });
}

interface Waiting {
  resolve(receipt: WorkReceipt): void;
  reject(error: PawlError): void;
}

/** One stream. It is over when `receive` has returned. */
export class Session {
  readonly #outbox = new Outbox();
  readonly #connection = new AbortController();
  readonly #waiting = new Map<bigint, Waiting>();
  readonly #responses: AsyncIterator<WorkResponse>;
  #last = 0n;
  #over = false;
  #maxBytes: number;

  /** `maxBytes` bounds a request, as the sidecar's own limit does once it is known. */
  constructor(workers: Client<typeof WorkerService>, maxBytes: number) {
    this.#maxBytes = maxBytes;
    const responses = workers.work(this.#outbox, { signal: this.#connection.signal });
    this.#responses = responses[Symbol.asyncIterator]();
  }

  /** Sends the registration and gives its answer. */
  async register(
    namespace: string,
    registration: MessageInitShape<typeof WorkerRegistrationSchema>,
  ): Promise<WorkerRegistered> {
    const item = { case: "register" as const, value: registration };
    this.#outbox.push(create(WorkRequestSchema, { namespace, item }));
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
    return registered;
  }

  /** Sends a request without waiting. */
  send(init: WorkInit, id = 0n): void {
    const request = create(WorkRequestSchema, { ...init, id });
    const size = toBinary(WorkRequestSchema, request).length;
    if (size > this.#maxBytes) {
      throw messageTooLarge(size, this.#maxBytes);
    }
    if (this.#over) {
      throw lost();
    }
    this.#outbox.push(request);
  }

  /** Sends a request and gives its receipt, or throws the receipt's error. */
  async ask(init: WorkInit): Promise<WorkReceipt> {
    this.#last += 1n;
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
      throw errorOf(connectError(receipt.error));
    }
    return receipt;
  }

  /** Takes what is sent until the stream ends, and gives why it did. */
  async receive(take: (response: WorkResponse) => void): Promise<PawlError> {
    try {
      for (;;) {
        const { done, value } = await this.#responses.next();
        if (done) {
          return lost();
        }
        if (value.item.case === "receipt") {
          this.#receipt(value.item.value);
        } else {
          take(value);
        }
      }
    } catch (error) {
      return errorOf(error);
    } finally {
      this.close();
    }
  }

  /** Ends the sending; what was sent before still goes out. */
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
    const waiting = this.#waiting.get(receipt.id);
    this.#waiting.delete(receipt.id);
    waiting?.resolve(receipt);
  }
}

/** A google.rpc.Status as the error that a call would have thrown. */
function connectError(status: NonNullable<WorkReceipt["error"]>): ConnectError {
  const error = new ConnectError(status.message, status.code as Code);
  error.details = status.details.map(({ typeUrl, value }) => ({
    type: typeUrl.slice(typeUrl.lastIndexOf("/") + 1),
    value,
  }));
  return error;
}

/** Requests on their way out, in order. Read once. */
class Outbox implements AsyncIterable<WorkRequest> {
  readonly #queue: WorkRequest[] = [];
  #wake: (() => void) | undefined;
  #closed = false;

  push(request: WorkRequest): void {
    this.#queue.push(request);
    this.#wake?.();
  }

  close(): void {
    this.#closed = true;
    this.#wake?.();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<WorkRequest, void, undefined> {
    for (;;) {
      const request = this.#queue.shift();
      if (request) {
        yield request;
      } else if (this.#closed) {
        return;
      } else {
        await new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
      }
    }
  }
}
