/** What clients and their runs share: the services, the namespace and the retry window. */

import type { DescMessage, MessageShape } from "@bufbuild/protobuf";
import {
  type Client,
  createClient,
  type CallOptions as RpcOptions,
  type Transport,
} from "@connectrpc/connect";
import { Denials } from "./denials.js";
import type { PawlError } from "./errors.js";
import { ControlService } from "./gen/pawl/v1/control_pb.js";
import { DeliveryService } from "./gen/pawl/v1/delivery_pb.js";
import { PackService } from "./gen/pawl/v1/pack_pb.js";
import { RunService } from "./gen/pawl/v1/run_pb.js";
import { WorkerService } from "./gen/pawl/v1/worker_pb.js";
import { type Log, STDERR } from "./log.js";
import { milliseconds } from "./option_limits.js";
import { type Plain, plain } from "./plain_message.js";
import { attempt, type CallOptions, type RetryWindow } from "./retry.js";

/**
 * A bearer token, or a function that returns one for each call, for example to rotate it. If the
 * sidecar refuses a token of a function, a worker calls the function again with growing pauses and
 * logs it. A worker with a fixed token that is refused ends.
 */
export type TokenSource = string | (() => string | Promise<string>);

/** Settings of every client. */
export interface ClientOptions {
  /** The namespace of all calls. Default: the server's "default". */
  readonly namespace?: string;
  /** Bounds each call in milliseconds, repetitions included. Default 30 000. */
  readonly timeoutMs?: number;
  /**
   * How many milliseconds a call is repeated while the sidecar cannot be reached. Default 20 000.
   */
  readonly retryForMs?: number;
  /** Receives the messages of workers, driven runs and repeated calls. Default: standard error. */
  readonly log?: Log;
}

/** The sidecar's own default limit of a request. */
export const MAX_REQUEST_BYTES = 4 << 20;
const TIMEOUT_MS = 30_000;
const RETRY_FOR_MS = 20_000;
/** Least milliseconds between two messages about calls that are repeated. */
const QUIET_MS = 10_000;

/** Further settings of a connection. */
interface ConnectionSettings extends ClientOptions {
  readonly maxMessageBytes?: number;
  readonly address?: string;
  readonly token?: TokenSource;
}

/** The connection of a client to one sidecar. */
export class Connection {
  readonly packs: Client<typeof PackService>;
  readonly runs: Client<typeof RunService>;
  readonly workers: Client<typeof WorkerService>;
  /**
   * Carries the stream of driven runs, which stays open for a moment after the client is closed.
   */
  readonly driving: Client<typeof WorkerService>;
  readonly deliveries: Client<typeof DeliveryService>;
  readonly control: Client<typeof ControlService>;
  readonly namespace: string;
  readonly retryWindow: RetryWindow;
  readonly log: Log;
  /** Where the sidecar is, for people. */
  readonly address: string;
  /** Size of the largest request in bytes. */
  readonly maxMessageBytes: number;
  /** Warns of tools that are denied. */
  readonly denials: Denials;
  /** True means that a function returns the token, which may change. */
  readonly renewsToken: boolean;
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(transport: Transport, options: ConnectionSettings, driving = transport) {
    this.packs = createClient(PackService, transport);
    this.runs = createClient(RunService, transport);
    this.workers = createClient(WorkerService, transport);
    this.driving = createClient(WorkerService, driving);
    this.deliveries = createClient(DeliveryService, transport);
    this.control = createClient(ControlService, transport);
    this.namespace = options.namespace ?? "";
    this.maxMessageBytes = options.maxMessageBytes ?? MAX_REQUEST_BYTES;
    this.log = options.log ?? STDERR;
    this.denials = new Denials(this.log);
    this.address = options.address ?? "";
    this.renewsToken = typeof options.token === "function";
    this.retryWindow = {
      timeoutMs: milliseconds("timeoutMs", options.timeoutMs ?? TIMEOUT_MS, 1),
      retryForMs: milliseconds("retryForMs", options.retryForMs ?? RETRY_FOR_MS),
      renewsToken: this.renewsToken,
      waiting: (error) => this.#warnOfWaiting(error),
    };
  }

  /** Logs that a call is being repeated, but not for each call. Never throws. */
  #warnOfWaiting({ message }: PawlError): void {
    const now = performance.now();
    if (now - this.#warnedAt < QUIET_MS) {
      return;
    }
    this.#warnedAt = now;
    const seconds = this.retryWindow.retryForMs / 1000;
    try {
      this.log.warn(`a call is repeated for up to ${seconds} s: ${message}`);
    } catch {
      // The log threw an error itself.
    }
  }

  /** Makes a call with repetitions and returns its answer. */
  async call<D extends DescMessage>(
    answer: D,
    make: (options: RpcOptions) => Promise<MessageShape<D>>,
    options?: CallOptions,
  ): Promise<Plain<MessageShape<D>>> {
    return plain(answer, await attempt(make, this.retryWindow, options));
  }
}

/** Iterates over all items of a list, page by page. */
export async function* pages<T>(
  read: (pageToken: string) => Promise<{ items: readonly T[]; next: string }>,
): AsyncGenerator<T, void, undefined> {
  let token = "";
  do {
    const page = await read(token);
    yield* page.items;
    token = page.next;
  } while (token !== "");
}
