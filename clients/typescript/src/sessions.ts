/** HTTP/2 connections that are asked for a sign of life. */

import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  constants,
  type SecureClientSessionOptions,
} from "node:http2";
import { Code, ConnectError } from "@connectrpc/connect";
import { Http2SessionManager } from "@connectrpc/connect-node";
import { every, later, type Timer } from "./timer.js";

/**
 * Pings each of its connections, also while no call is under way, and ends one that does
 * not answer within half of the interval.
 *
 * The pings of Http2SessionManager itself are not used: it pings a connection that was
 * closed with calls under way, which ends the process (connect-es issue 1795).
 */
export class Sessions extends Http2SessionManager {
  readonly #intervalMs: number;
  readonly #watched = new WeakSet<ClientHttp2Session>();

  constructor(url: string, intervalMs: number, options: SecureClientSessionOptions) {
    super(url, undefined, options);
    this.#intervalMs = intervalMs;
  }

  override async request(
    ...call: Parameters<Http2SessionManager["request"]>
  ): Promise<ClientHttp2Stream> {
    const stream = await super.request(...call);
    const { session } = stream;
    if (session && !this.#watched.has(session as ClientHttp2Session)) {
      this.#watched.add(session as ClientHttp2Session);
      this.#watch(session as ClientHttp2Session);
    }
    return stream;
  }

  #watch(session: ClientHttp2Session): void {
    let answer: Timer | undefined;
    const watch = () => {
      if (session.destroyed || session.closed) {
        return;
      }
      const silence = () => session.destroy(silent(), CANCEL);
      answer = later(this.#intervalMs / 2, silence, { idle: true });
      session.ping(() => answer?.cancel());
    };
    const interval = every(this.#intervalMs, watch, { idle: true });
    session.once("close", () => {
      interval.cancel();
      answer?.cancel();
    });
  }
}

const CANCEL = constants.NGHTTP2_CANCEL;

function silent(): ConnectError {
  return new ConnectError("the connection gave no sign of life", Code.Unavailable);
}
