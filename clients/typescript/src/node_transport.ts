/** The connection from Node to a sidecar: gRPC over TCP or a Unix socket. */

import { readFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import type { SecureClientSessionOptions } from "node:http2";
import { connect as connectSocket } from "node:net";
import { Code, ConnectError, type Interceptor, type Transport } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { type ClientOptions, MAX_REQUEST_BYTES, type TokenSource } from "./connection.js";
import { Http2Sessions } from "./http2_sessions.js";
import { bytes, milliseconds } from "./option_limits.js";

/** Address at which a sidecar listens by default. */
export const DEFAULT_ADDRESS = "127.0.0.1:7291";

/** Certificates and keys as PEM. */
export interface Tls {
  /**
   * Certificates of the authorities that may sign the server's certificate. Default: the system's.
   */
  readonly ca?: string | Buffer;
  /** The client's own certificate chain, if the server requires one; `key` is its key. */
  readonly cert?: string | Buffer;
  readonly key?: string | Buffer;
  /** Name that the server's certificate must have. Default: the host of the address. */
  readonly serverName?: string;
}

/**
 * Settings of a client for Node.
 *
 *     const local = new PawlClient({ address: "unix:/run/pawl.sock" });
 *     const far = new PawlClient({ address: "pawl.internal:7291", tls: {}, token: "..." });
 */
export interface NodeOptions extends ClientOptions {
  /** "HOST:PORT" or "unix:PATH". Default: PAWL_ADDR, else 127.0.0.1:7291. */
  readonly address?: string;
  /** Bearer token. Default: the content of the file PAWL_TOKEN_FILE, else PAWL_TOKEN, else none. */
  readonly token?: TokenSource;
  /**
   * TLS settings; null: no TLS. Default: the files PAWL_CA, PAWL_CERT and PAWL_KEY, as the command
   * line reads them; without PAWL_CA, and for a Unix socket, no TLS.
   */
  readonly tls?: Tls | null;
  /**
   * How often a silent connection is pinged, in milliseconds, also while no call is under way; it
   * ends if half of that time passes without an answer. Default 9 000; at least 6 000, because a
   * sidecar closes connections that ping every 5 s.
   */
  readonly keepaliveMs?: number;
  /**
   * Largest request in bytes. The client refuses a larger one with MESSAGE_TOO_LARGE, because it
   * could delay all other calls of the connection. Default 4 MiB, which is the sidecar's own
   * default (--limits-message-bytes).
   */
  readonly maxMessageBytes?: number;
}

/**
 * Default of `keepaliveMs`. The answer to a ping may take half of this time, so a dead connection
 * is noticed within 13.5 s, before calls time out.
 */
const KEEPALIVE_MS = 9_000;
const LEAST_KEEPALIVE_MS = 6_000;
/** Size of the largest answer of a sidecar, for example a whole conversation in one turn. */
const MAX_ANSWER_BYTES = 64 << 20;

/** "HOST:PORT" or "unix:PATH". No URL matches: its scheme would be read as the host. */
const ADDRESS = /^(unix:.+|([^\s/:@?#[\]]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5})$/;

/**
 * Returns the settings with unset ones from the environment, as the command line does: PAWL_ADDR;
 * the file PAWL_TOKEN_FILE, read at each call, else PAWL_TOKEN; the files PAWL_CA, PAWL_CERT and
 * PAWL_KEY. Throws a RangeError for a certificate without its key or without PAWL_CA, and the error
 * of a file that cannot be read.
 */
export function withEnvironment(
  options: NodeOptions,
): NodeOptions & { readonly address: string; readonly addressFrom: string } {
  const { PAWL_ADDR, PAWL_TOKEN, PAWL_TOKEN_FILE } = process.env;
  const address = options.address ?? PAWL_ADDR ?? DEFAULT_ADDRESS;
  const file = PAWL_TOKEN_FILE || undefined;
  const fromFile = file && (async () => (await readFile(file, "utf8")).trim());
  const token = options.token ?? (fromFile || PAWL_TOKEN || undefined);
  const addressFrom = options.address === undefined && PAWL_ADDR ? "PAWL_ADDR" : "";
  const tls = options.tls === undefined ? tlsOf(address) : options.tls;
  return { ...options, address, addressFrom, token, tls };
}

function tlsOf(address: string): Tls | null {
  const { PAWL_CA, PAWL_CERT, PAWL_KEY } = process.env;
  if (!PAWL_CERT !== !PAWL_KEY) {
    throw new RangeError("PAWL_CERT, PAWL_KEY: must be set together; set both or neither");
  }
  if (!PAWL_CA) {
    if (PAWL_CERT) {
      throw new RangeError(
        "PAWL_CERT: needs TLS; name the CA of the sidecar's certificate in PAWL_CA",
      );
    }
    return null;
  }
  if (address.startsWith("unix:")) {
    return null;
  }
  const ca = readFileSync(PAWL_CA);
  return PAWL_CERT && PAWL_KEY
    ? { ca, cert: readFileSync(PAWL_CERT), key: readFileSync(PAWL_KEY) }
    : { ca };
}

/**
 * Returns a transport that connects at the first call. Throws a RangeError for an invalid setting.
 * Errors of the connection name the variable `addressFrom`, if the address is from one.
 */
export function nodeTransport(options: NodeOptions & { readonly addressFrom?: string }): {
  transport: Transport;
  sessions: Http2Sessions;
} {
  const address = options.address ?? DEFAULT_ADDRESS;
  const keepalive = options.keepaliveMs ?? KEEPALIVE_MS;
  const keepaliveMs = milliseconds("keepaliveMs", keepalive, LEAST_KEEPALIVE_MS);
  const unix = address.startsWith("unix:");
  const scheme = options.tls ? "https" : "http";
  const baseUrl = `${scheme}://${unix ? "localhost" : address}`;
  if (!ADDRESS.test(address) || !URL.canParse(baseUrl)) {
    throw new RangeError(`address: must be HOST:PORT or unix:PATH, not ${JSON.stringify(address)}`);
  }
  const path = unix ? address.slice("unix:".length) : undefined;
  const sessions = new Http2Sessions(baseUrl, keepaliveMs, sessionOptions(path, options.tls));
  const shown = options.addressFrom ? `${address} (${options.addressFrom})` : address;
  const maxBytes = bytes("maxMessageBytes", options.maxMessageBytes ?? MAX_REQUEST_BYTES);
  const authentication = options.token === undefined ? [] : [bearer(options.token)];
  const transport = createGrpcTransport({
    baseUrl,
    sessionManager: sessions,
    readMaxBytes: MAX_ANSWER_BYTES,
    writeMaxBytes: maxBytes,
    interceptors: [namingAddress(shown), ...authentication],
  });
  return { transport, sessions };
}

function sessionOptions(path: string | undefined, tls: Tls | null | undefined) {
  const options: SecureClientSessionOptions = {};
  if (tls) {
    options.ca = tls.ca;
    options.cert = tls.cert;
    options.key = tls.key;
    options.servername = tls.serverName;
  }
  if (path !== undefined) {
    options.createConnection = () => connectSocket(path);
  }
  return options;
}

/** Codes that the gRPC library itself gives to errors of a connection, which name no address. */
const CONNECTION_CODES = new Set([
  Code.Unavailable,
  Code.Unknown,
  Code.Internal,
  Code.Aborted,
  Code.DeadlineExceeded,
]);

/** Adds the address to errors that are not the sidecar's own. */
function namingAddress(address: string): Interceptor {
  return (next) => async (request) => {
    try {
      return await next(request);
    } catch (thrown) {
      throw withAddress(address, thrown);
    }
  };
}

/** What to do about system errors for an address without a sidecar, as the command line says it. */
const UNREACHABLE: { readonly [code: string]: string } = {
  ECONNREFUSED: "nothing listens there; start one with: pawl serve --data DIR",
  ENOENT: "there is no such socket; start one with: pawl serve --data DIR --socket PATH",
  ENOTFOUND: "no host has that name",
};

/** Returns an error that names the address. Errors of the sidecar itself stay unchanged. */
function withAddress(address: string, thrown: unknown): unknown {
  const error = ConnectError.from(thrown);
  const known = error.details.length > 0 || !CONNECTION_CODES.has(error.code);
  const { code } = (error.cause ?? {}) as { code?: unknown };
  const advice = typeof code === "string" ? UNREACHABLE[code] : undefined;
  const where = advice ? `no sidecar can be reached at ${address}: ` : `sidecar at ${address}: `;
  if (known || error.rawMessage.startsWith(where)) {
    return thrown;
  }
  const text = `${where}${advice ?? error.rawMessage}`;
  return new ConnectError(text, error.code, error.metadata, undefined, error.cause);
}

/** Sends the token with each call. */
export function bearer(token: TokenSource): Interceptor {
  return (next) => async (request) => {
    const value = typeof token === "string" ? token : await tokenFrom(token);
    request.header.set("Authorization", `Bearer ${value}`);
    return next(request);
  };
}

/** Calls the program's token function. Throws UNAUTHENTICATED if it throws or returns no string. */
async function tokenFrom(token: () => string | Promise<string>): Promise<string> {
  let value: unknown;
  try {
    value = await token();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    const message = `token: the function threw: ${text}`;
    throw new ConnectError(message, Code.Unauthenticated, undefined, undefined, error);
  }
  if (typeof value !== "string") {
    throw new ConnectError("token: the function must return a string", Code.Unauthenticated);
  }
  return value;
}
