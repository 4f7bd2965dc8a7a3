/** HTTP/2 connections that are checked by pings. */

import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  type ClientSessionRequestOptions,
  connect,
  constants,
  type OutgoingHttpHeaders,
  type SecureClientSessionOptions,
} from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import type { createGrpcTransport } from "@connectrpc/connect-node";
import { PawlError } from "./errors.js";
import { every, later, type Timer } from "./timer.js";

type SessionManager = NonNullable<Parameters<typeof createGrpcTransport>[0]["sessionManager"]>;

/**
 * Opens a connection for the first request, and another one after it has ended. It pings each
 * connection, also while no call is under way, and ends one that does not answer within half of the
 * interval.
 *
 * Http2SessionManager of the library is not used, because it stops listening for errors of a
 * connection too early: of a peer that does not speak HTTP/2, and of a ping after the end
 * (connect-es issue 1795). An unhandled error ends the process.
 */
export class Http2Sessions implements SessionManager {
  readonly authority: string;
  readonly #intervalMs: number;
  readonly #options: SecureClientSessionOptions;
  /** The newest connection, and older ones with calls in flight. */
  #open = new Set<Line>();
  #newest: Line | undefined;

  constructor(url: string, intervalMs: number, options: SecureClientSessionOptions) {
    this.authority = new URL(url).origin;
    this.#intervalMs = intervalMs;
    this.#options = options;
  }

  async request(
    method: string,
    path: string,
    headers: OutgoingHttpHeaders,
    options: Omit<ClientSessionRequestOptions, "signal">,
  ): Promise<ClientHttp2Stream> {
    const all = { ...headers, ":method": method, ":path": path };
    for (let tries = MAX_TRIES; ; tries -= 1) {
      const line = this.#line();
      await line.ready;
      try {
        return line.request(all, options);
      } catch (error) {
        // The server or the keepalive ended the connection meanwhile.
        if (tries === 1 || !line.over) {
          throw line.over ? line.why() : error;
        }
      }
    }
  }

  /** How many requests are under way. Without any the process may end. */
  get inFlight(): number {
    return [...this.#open].reduce((sum, { streams }) => sum + streams, 0);
  }

  /** The library calls this when data arrived; the pings do not depend on it. */
  notifyResponseByteRead(): void {}

  /** Ends the connections and their requests. The next request opens a new connection. */
  abort(): void {
    for (const line of this.#open) {
      line.end(closed());
    }
  }

  /**
   * Ends each connection when it has no call in flight. The next request opens a new connection.
   */
  retire(): void {
    for (const line of this.#open) {
      line.retire();
    }
  }

  #line(): Line {
    if (!this.#newest || this.#newest.over) {
      const line = new Line(connect(this.authority, this.#options), this.#intervalMs);
      const under = [...this.#open].filter(({ streams }) => streams > 0);
      this.#open = new Set([...under, line]);
      this.#newest = line;
    }
    return this.#newest;
  }
}

/** How many connections one request tries, if each ends before it is ready. */
const MAX_TRIES = 3;

/** One connection. It listens for errors from its beginning to its end. */
class Line {
  /** Resolves when the server has sent its first HTTP/2 frame; rejects with the reason why not. */
  readonly ready: Promise<void>;
  /** Requests under way. */
  streams = 0;
  readonly #session: ClientHttp2Session;
  #error: unknown;
  #ended: ConnectError | undefined;

  constructor(session: ClientHttp2Session, intervalMs: number) {
    this.#session = session;
    this.ready = new Promise((resolve, reject) => {
      const over = (error?: unknown) => {
        this.#error ??= error;
        reject(this.why(true));
      };
      session.on("error", over);
      session.once("close", over);
      session.once("connect", (_, socket) => {
        // Only the socket reports a TLS alert that arrives before the first stream.
        socket.once("error", over);
        this.#watch(intervalMs);
      });
      session.once("remoteSettings", () => {
        this.#rest();
        resolve();
      });
    });
    // Requests that wait for the connection receive the error; there may be none.
    this.ready.catch(() => undefined);
    session.on("goaway", () => this.#rest());
  }

  /** True means that the connection accepts no more requests. */
  get over(): boolean {
    return this.#session.closed || this.#session.destroyed;
  }

  request(headers: OutgoingHttpHeaders, options: ClientSessionRequestOptions): ClientHttp2Stream {
    const stream = this.#session.request(headers, options);
    // The stream may fail before its caller listens for errors.
    stream.on("error", () => undefined);
    this.streams += 1;
    this.#session.ref();
    stream.once("close", () => {
      this.streams -= 1;
      this.#rest();
    });
    return stream;
  }

  /**
   * Without requests the connection does not keep the process alive, and closes with the server's
   * end.
   */
  #rest(): void {
    if (this.streams > 0) {
      return;
    }
    if (this.#session.closed) {
      this.#session.destroy();
    } else {
      this.#session.unref();
    }
  }

  /** Ends the connection and its requests. */
  end(why: ConnectError): void {
    this.#ended ??= why;
    this.#session.destroy(why, CANCEL);
  }

  /** Ends the connection when it has no call in flight. */
  retire(): void {
    if (this.streams === 0) {
      this.end(closed());
    } else {
      this.#session.close();
    }
  }

  /** Why the connection ended; `early`: before the server's first HTTP/2 frame. */
  why(early = false): ConnectError {
    if (this.#ended) {
      return this.#ended;
    }
    const { code, message } = (this.#error ?? {}) as { code?: unknown; message?: unknown };
    const strange = early && code === "ERR_HTTP2_ERROR";
    const text = strange ? NO_HTTP2 : String(message ?? "the connection closed");
    return new ConnectError(text, Code.Unavailable, undefined, undefined, this.#error);
  }

  #watch(intervalMs: number): void {
    const session = this.#session;
    let answer: Timer | undefined;
    const watch = () => {
      if (this.over) {
        return;
      }
      const silence = () => this.end(silent());
      answer = later(intervalMs / 2, silence, { idle: true });
      session.ping(() => answer?.cancel());
    };
    const interval = every(intervalMs, watch, { idle: true });
    session.once("close", () => {
      interval.cancel();
      answer?.cancel();
    });
  }
}

const CANCEL = constants.NGHTTP2_CANCEL;

const NO_HTTP2 =
  "what listens there answers without HTTP/2, so it is no gRPC port; take the address that the sidecar prints as grpc when it starts";

function silent(): ConnectError {
  return new ConnectError("the connection answered no keepalive ping", Code.Unavailable);
}

/** Returns the error of requests that ended because the caller closed the client. */
function closed(): ConnectError {
  const why = new PawlError("cancelled", "the client is closed; create a new one");
  return new ConnectError(why.message, Code.Canceled, undefined, undefined, why);
}
