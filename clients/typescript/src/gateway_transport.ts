/** The connection to a sidecar's JSON gateway, by fetch and server-sent events. */

import {
  create,
  type DescMessage,
  type DescMethodStreaming,
  type DescMethodUnary,
  fromJson,
  getOption,
  type JsonObject,
  type JsonValue,
  type MessageInitShape,
  type MessageShape,
  toJson,
} from "@bufbuild/protobuf";
import {
  Code,
  ConnectError,
  type StreamResponse,
  type Transport,
  type UnaryResponse,
} from "@connectrpc/connect";
import { events } from "./events.js";
import { http } from "./gen/google/api/annotations_pb.js";
import type { HttpRule } from "./gen/google/api/http_pb.js";
import {
  BadRequestSchema,
  ErrorInfoSchema,
  RetryInfoSchema,
} from "./gen/google/rpc/error_details_pb.js";
import { RecordSchema } from "./gen/pawl/v1/record_pb.js";
import { later } from "./timer.js";

/** Settings of a connection to a gateway. */
export interface GatewayOptions {
  /**
   * Address of the gateway, for example "http://127.0.0.1:8080". Default: the page's own origin.
   */
  readonly baseUrl?: string;
  /** A bearer token, or a function that returns one for each call. Default: none. */
  readonly token?: string | (() => string | Promise<string>);
  /** The function that makes requests. Default: the global fetch. */
  readonly fetch?: typeof fetch;
}

interface Call {
  readonly method: DescMethodUnary | DescMethodStreaming;
  readonly input: JsonObject;
  readonly accept: string;
  readonly signal: AbortSignal | undefined;
  readonly timeoutMs: number | undefined;
}

/** Returns a transport that makes calls as the contract maps them to HTTP (google.api.http). */
export function gatewayTransport(options: GatewayOptions): Transport {
  return {
    unary: (method, signal, timeoutMs, _header, input) =>
      unary(options, method, { signal, timeoutMs }, input),
    stream: (method, signal, timeoutMs, _header, input) =>
      stream(options, method, { signal, timeoutMs }, input),
  };
}

type Limits = Pick<Call, "signal" | "timeoutMs">;

async function unary<I extends DescMessage, O extends DescMessage>(
  options: GatewayOptions,
  method: DescMethodUnary<I, O>,
  limits: Limits,
  input: MessageInitShape<I>,
): Promise<UnaryResponse<I, O>> {
  const request = json(method.input, input);
  const call = { method, input: request, accept: "application/json", ...limits };
  const { response, done } = await send(options, call);
  try {
    const message = read(method.output, (await body(response)) as JsonValue);
    return { stream: false, service: method.parent, method, message, ...noMetadata(response) };
  } finally {
    done();
  }
}

async function stream<I extends DescMessage, O extends DescMessage>(
  options: GatewayOptions,
  method: DescMethodStreaming<I, O>,
  limits: Limits,
  input: AsyncIterable<MessageInitShape<I>>,
): Promise<StreamResponse<I, O>> {
  if (method.methodKind !== "server_streaming") {
    throw new ConnectError(
      `${method.name} needs gRPC; use the client of pawl-client for it`,
      Code.Unimplemented,
    );
  }
  let request: JsonObject = {};
  for await (const message of input) {
    request = json(method.input, message);
  }
  const call = { method, input: request, accept: "text/event-stream", ...limits };
  const { response, done } = await send(options, call);
  const message = items(method.output, response, done);
  return { stream: true, service: method.parent, method, message, ...noMetadata(response) };
}

function noMetadata(response: Response): { header: Headers; trailer: Headers } {
  return { header: response.headers, trailer: new Headers() };
}

/**
 * Iterates over the items of an event stream. The stream must report its end: without that report
 * the connection was lost.
 */
async function* items<O extends DescMessage>(
  output: O,
  response: Response,
  done: () => void,
): AsyncGenerator<MessageShape<O>, void, undefined> {
  try {
    for await (const event of events(response)) {
      if (event.name === "end") {
        return;
      }
      const data = JSON.parse(event.data) as JsonObject;
      if (event.name === "fault") {
        throw errorOf(data, Code.Unknown);
      }
      yield read(output, data);
    }
  } catch (error) {
    throw ConnectError.from(error, Code.Unavailable);
  } finally {
    done();
  }
  throw new ConnectError("the event stream was cut off", Code.Unavailable);
}

/** Sends a request. Call `done` after reading the answer. */
async function send(
  options: GatewayOptions,
  call: Call,
): Promise<{ response: Response; done: () => void }> {
  const limit = limitOf(call);
  try {
    const { verb, path, rest } = route(call.method, call.input);
    const url = (options.baseUrl ?? globalThis.location?.origin ?? "") + path;
    const init: RequestInit = { method: verb, headers: await headers(options, call.accept) };
    if (verb !== "GET") {
      init.body = JSON.stringify(rest);
    }
    const ask = options.fetch ?? fetch;
    const query = verb === "GET" ? queryOf(rest) : "";
    const response = await ask(url + query, { ...init, signal: limit.signal });
    if (!response.ok) {
      throw errorOf(await body(response).catch(() => ({})), codeOf(response.status));
    }
    return { response, done: limit.clear };
  } catch (error) {
    limit.clear();
    if (limit.signal.aborted) {
      throw call.signal?.aborted
        ? new ConnectError("the call was cancelled", Code.Canceled)
        : new ConnectError("the timeout passed", Code.DeadlineExceeded);
    }
    // An error of fetch means that there is no connection.
    throw ConnectError.from(error, Code.Unavailable);
  }
}

async function headers(options: GatewayOptions, accept: string): Promise<Headers> {
  const out = new Headers({ Accept: accept, "Content-Type": "application/json" });
  const { token } = options;
  if (token !== undefined) {
    const value = typeof token === "string" ? token : await token();
    out.set("Authorization", `Bearer ${value}`);
  }
  return out;
}

function limitOf(call: Call): { signal: AbortSignal; clear: () => void } {
  const controller = new AbortController();
  const stop = () => controller.abort();
  const timer = call.timeoutMs === undefined ? undefined : later(call.timeoutMs, stop);
  call.signal?.addEventListener("abort", stop, { once: true });
  if (call.signal?.aborted) {
    stop();
  }
  const clear = () => {
    timer?.cancel();
    call.signal?.removeEventListener("abort", stop);
  };
  return { signal: controller.signal, clear };
}

/** Returns the verb and the path of a call, and the fields that are not in the path. */
export function route(
  method: DescMethodUnary | DescMethodStreaming,
  input: JsonObject,
): { verb: string; path: string; rest: JsonObject } {
  const rule = getOption(method, http);
  for (const candidate of [rule, ...rule.additionalBindings]) {
    const rest = { ...input };
    const path = fill(candidate, method.input, rest);
    if (path !== undefined) {
      return { verb: candidate.pattern.case === "get" ? "GET" : "POST", path, rest };
    }
  }
  throw new ConnectError(
    `${method.name} is not served over HTTP; use the client of pawl-client for it`,
    Code.Unimplemented,
  );
}

/**
 * Returns the path of a rule, and removes its fields from `rest`; undefined: a field of the path is
 * empty.
 */
function fill(rule: HttpRule, input: DescMessage, rest: JsonObject): string | undefined {
  const template = rule.pattern.value;
  if (typeof template !== "string") {
    return undefined;
  }
  let complete = true;
  const path = template.replace(/\{(\w+)\}/g, (_, name: string) => {
    const key = input.fields.find((field) => field.name === name)?.jsonName ?? name;
    const value = rest[key];
    delete rest[key];
    complete &&= value !== undefined && value !== "";
    return encodeURIComponent(String(value));
  });
  return complete ? path : undefined;
}

/** Encodes fields as a query: repeated lists, dotted messages, maps as name[key]. */
export function queryOf(fields: JsonObject): string {
  const query = new URLSearchParams();
  const add = (name: string, value: JsonValue) => {
    if (Array.isArray(value)) {
      for (const item of value) {
        add(name, item);
      }
    } else if (typeof value === "object" && value !== null) {
      const isMap = name === "labels" || name.endsWith(".labels");
      for (const [key, item] of Object.entries(value)) {
        add(isMap ? `${name}[${key}]` : `${name}.${key}`, item);
      }
    } else {
      query.append(name, String(value));
    }
  };
  for (const [name, value] of Object.entries(fields)) {
    add(name, value);
  }
  const text = query.toString();
  return text === "" ? "" : `?${text}`;
}

function json<I extends DescMessage>(schema: I, input: MessageInitShape<I>): JsonObject {
  return toJson(schema, create(schema, input)) as JsonObject;
}

/** Reads a message and skips fields of a newer server. */
function read<O extends DescMessage>(schema: O, value: JsonValue): MessageShape<O> {
  return fromJson(schema, value, { ignoreUnknownFields: true });
}

async function body(response: Response): Promise<unknown> {
  return JSON.parse(await response.text());
}

const DETAILS = [ErrorInfoSchema, BadRequestSchema, RetryInfoSchema, RecordSchema];

/** Returns the error of a google.rpc.Status in JSON. */
function errorOf(status: unknown, fallback: Code): ConnectError {
  const { code, message, details } = status as {
    code?: number;
    message?: string;
    details?: JsonObject[];
  };
  const error = new ConnectError(
    message ?? "the answer is not that of a gateway; check baseUrl",
    code ?? fallback,
  );
  for (const { "@type": type, ...value } of details ?? []) {
    const desc = DETAILS.find((schema) => String(type).endsWith(`/${schema.typeName}`));
    if (desc) {
      error.details.push({ desc, value: read(desc, value) });
    }
  }
  return error;
}

function codeOf(status: number): Code {
  return [502, 503, 504].includes(status) ? Code.Unavailable : Code.Unknown;
}
