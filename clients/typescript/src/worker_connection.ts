/** Keeps a worker connected to its sidecar, over as many streams as it takes. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Client } from "@connectrpc/connect";
import type { Cancellable } from "./abort.js";
import type { Connection } from "./connection.js";
import { repeatable } from "./error_advice.js";
import { PawlError } from "./errors.js";
import type {
  WorkerRegistered,
  WorkerRegistrationSchema,
  WorkerService,
  WorkReceipt,
  WorkResponse,
} from "./gen/pawl/v1/worker_pb.js";
import { textOf } from "./handler_fault.js";
import { settledBefore } from "./leased_work.js";
import { ReconnectLog } from "./reconnect_log.js";
import { aborted, Backoff, sleep } from "./retry.js";
import { later } from "./timer.js";
import { lost, Session, type WorkInit } from "./worker_session.js";

/** The worker of a connection. */
export interface ConnectionHost {
  /** The client that opens its streams. */
  readonly workers: Client<typeof WorkerService>;
  /** Name of the worker in the log. */
  readonly title: string;
  /** Returns the registration that each stream begins with. */
  registration(): MessageInitShape<typeof WorkerRegistrationSchema>;
  /** A stream is registered; the returned function is called when it has ended. */
  registered(session: Session, registered: WorkerRegistered): () => void;
  /** There is no connection. */
  missed(error: PawlError): void;
  /** A message that is no receipt arrived. */
  take(response: WorkResponse): void;
}

/** Keeps a registered stream open until it is closed. */
export class WorkerConnection {
  readonly #connection: Connection;
  readonly #host: ConnectionHost;
  readonly #over = new AbortController();
  /** The current stream, registered or not. */
  #newest: Session | undefined;
  /** The registered stream. */
  #session: Session | undefined;
  #connected = new Connected();
  readonly #outage = new ReconnectLog();

  constructor(connection: Connection, host: ConnectionHost) {
    this.#connection = connection;
    this.#host = host;
  }

  /** Serves until `close`. Throws a PawlError if the sidecar refuses the worker for good. */
  async live(): Promise<void> {
    const backoff = new Backoff();
    while (!this.#over.signal.aborted) {
      const session = new Session(this.#host.workers, this.#connection.maxMessageBytes);
      this.#newest = session;
      const error = await this.#serve(session, backoff).catch((thrown: unknown) => thrown);
      session.close();
      if (this.#over.signal.aborted) {
        return;
      }
      if (!PawlError.is(error) || !(repeatable(error) || this.#mayRenew(error))) {
        this.#connection.log.warn(`${this.#host.title}: ends for good: ${textOf(error)}`);
        throw error;
      }
      this.#missed(error);
      this.#host.missed(error);
      const pause = Math.max(backoff.next(), error.retryAfterMs ?? 0);
      await sleep(pause, this.#over.signal).catch(() => undefined);
    }
  }

  /** Whether to call the token function again; after a rotation its token may be late. */
  #mayRenew(error: PawlError): boolean {
    return error.kind === "authentication" && this.#connection.renewsToken;
  }

  /** Ends the stream for good. */
  close(): void {
    this.#over.abort();
    this.#newest?.close();
  }

  /** Sends a request, and repeats it over new streams, until it has its receipt. */
  readonly ask = async (make: () => WorkInit, wanted: Cancellable): Promise<WorkReceipt> => {
    const backoff = new Backoff();
    for (;;) {
      if (wanted.reason !== undefined) {
        throw aborted(wanted);
      }
      const session = this.#session;
      if (!session) {
        await settledBefore(wanted.signal, this.#connected.promise);
        continue;
      }
      try {
        return await session.ask(make());
      } catch (error) {
        if (!PawlError.is(error) || !repeatable(error)) {
          throw error;
        }
        await sleep(Math.max(backoff.next(), error.retryAfterMs ?? 0), wanted.signal);
      }
    }
  };

  /** Sends a request over the current stream. Undefined means that there is none. */
  askNow(init: WorkInit): Promise<WorkReceipt> | undefined {
    return this.#session?.ask(init);
  }

  /** Sends a request that needs no receipt; without a stream it is dropped. */
  receive(init: WorkInit): void {
    this.#session?.send(init);
  }

  /** Logs that there is no connection, but not for each attempt. */
  #missed(error: PawlError): void {
    const ms = this.#outage.missed(error.reason || error.kind);
    if (ms === undefined) {
      return;
    }
    const { log, address } = this.#connection;
    const since = ms >= 1000 ? ` for ${Math.round(ms / 1000)} s` : "";
    const text = `no connection to ${address}${since}, trying again: ${error.message}`;
    log.warn(`${this.#host.title}: ${text}`);
  }

  /** Registers the worker. If the sidecar does not answer in time, a new stream is tried. */
  async #register(session: Session): Promise<WorkerRegistered> {
    const { namespace, retryWindow } = this.#connection;
    const expired = later(retryWindow.timeoutMs, () => session.close());
    try {
      return await session.register(namespace, this.#host.registration());
    } catch (error) {
      // The closing of the stream is not a cancellation by the caller.
      throw PawlError.is(error) && error.kind === "cancelled" ? lost() : error;
    } finally {
      expired.cancel();
    }
  }

  /** Serves over one stream, and returns why it ended. */
  async #serve(session: Session, backoff: Backoff): Promise<PawlError> {
    const registered = await this.#register(session);
    backoff.reset();
    this.#outage.over();
    this.#session = session;
    const end = this.#host.registered(session, registered);
    this.#connected.open();
    try {
      return await session.receive((response) => this.#host.take(response));
    } finally {
      end();
      this.#session = undefined;
      this.#connected = new Connected();
    }
  }
}

/** Resolves when a stream is registered. */
class Connected {
  open: () => void = () => undefined;
  readonly promise = new Promise<void>((resolve) => {
    this.open = resolve;
  });
}
