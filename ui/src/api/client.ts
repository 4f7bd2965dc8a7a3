/** Calls the gateway of the sidecar that served the page; the page connects to no other host. */

import { EventParser, type ServerEvent } from "./events";
import { asProblem, Problem, problemOf } from "./problem";
import { type Entry, KINDS, type OutputChunk, type WireRecord } from "./types";

const TOKEN = "pawl.token";

/** The bearer token of this tab; closing the tab removes it. */
export const token = {
  get: (): string => sessionStorage.getItem(TOKEN) ?? "",
  set: (value: string): void => sessionStorage.setItem(TOKEN, value),
  clear: (): void => sessionStorage.removeItem(TOKEN),
};

function headers(accept: string, body: boolean): Headers {
  const out = new Headers({ Accept: accept });
  if (body) {
    out.set("Content-Type", "application/json");
  }
  const secret = token.get();
  if (secret !== "") {
    out.set("Authorization", `Bearer ${secret}`);
  }
  return out;
}

async function ask(path: string, init: RequestInit): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(path, { ...init, cache: "no-store", credentials: "omit" });
  } catch (error) {
    if (init.signal?.aborted) {
      throw error;
    }
    throw new Problem(0, "The sidecar cannot be reached.");
  }
  if (!response.ok) {
    throw problemOf(response.status, await response.json().catch(() => null));
  }
  return response;
}

export type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

export function queryOf(query: Query): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "" || value === false) {
      continue;
    }
    for (const item of Array.isArray(value) ? value : [value]) {
      out.append(name, String(item));
    }
  }
  const text = out.toString();
  return text === "" ? "" : `?${text}`;
}

export async function get<T>(path: string, query: Query = {}, signal?: AbortSignal): Promise<T> {
  const response = await ask(path + queryOf(query), {
    headers: headers("application/json", false),
    signal: signal ?? null,
  });
  return (await response.json()) as T;
}

export async function post<T>(path: string, body: unknown, signal?: AbortSignal): Promise<T> {
  const response = await ask(path, {
    method: "POST",
    headers: headers("application/json", true),
    body: JSON.stringify(body),
    signal: signal ?? null,
  });
  return (await response.json()) as T;
}

export const runPath = (id: string): string => `/v1/runs/${encodeURIComponent(id)}`;
export const packPath = (ref: string): string => `/v1/packs/${encodeURIComponent(ref)}`;

const wireKind = (kind: string): string =>
  `RECORD_KIND_${kind.replace(/[A-Z]/g, (c) => `_${c}`).toUpperCase()}`;

/** All kinds of records. Without them, lists and streams return transitions and ends only. */
export const ALL_KINDS: readonly string[] = KINDS.map(wireKind);
export const kindsOf = (...kinds: (typeof KINDS)[number][]): string[] => kinds.map(wireKind);

export function entryOf(record: WireRecord): Entry {
  const kind = KINDS.find((k) => record[k] !== undefined) ?? "unknown";
  return {
    runId: record.runId,
    seq: Number(record.seq),
    prevSeq: Number(record.prevSeq ?? 0),
    cursor: record.cursor,
    at: record.at,
    cause: record.cause ?? "",
    principal: record.principal ?? "",
    hash: record.hash ?? "",
    kind,
    body: kind === "unknown" ? {} : (record[kind] ?? {}),
  };
}

interface Item {
  record?: WireRecord;
  heartbeat?: { cursor: string };
  output?: OutputChunk;
}

/** An item of one connection of a stream; "end": the stream has ended by itself. */
export type StreamItem = { entry: Entry } | { cursor: string } | { output: OutputChunk } | "end";

/** Milliseconds of silence after which a connection counts as lost; heartbeats come every 15 s. */
const SILENCE_MS = 40_000;

/** One connection to StreamTransitions. Throws a Problem when it is lost. */
export async function* connect(
  path: string,
  query: Query,
  signal: AbortSignal,
): AsyncGenerator<StreamItem[], void, undefined> {
  const response = await ask(path + queryOf({ ...query, follow: true }), {
    headers: headers("text/event-stream", false),
    signal,
  });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  if (!reader) {
    throw new Problem(0, "The answer has no body.");
  }
  const parser = new EventParser();
  try {
    // The server accepted the request: records will arrive, perhaps after a pause.
    yield [];
    for (;;) {
      const { done, value } = await within(reader.read(), SILENCE_MS);
      if (done) {
        throw new Problem(0, "The stream was cut off.");
      }
      const items = parser.push(value).map(itemOf);
      if (items.length > 0) {
        yield items;
      }
      if (items.at(-1) === "end") {
        return;
      }
    }
  } catch (error) {
    throw asProblem(error);
  } finally {
    reader.cancel().catch(() => undefined);
  }
}

function itemOf(event: ServerEvent): StreamItem {
  if (event.name === "end") {
    return "end";
  }
  const data = JSON.parse(event.data) as Item & { code?: number };
  if (event.name === "fault") {
    // The status code stands for the HTTP status, so that only requests of permitted callers are
    // repeated.
    throw problemOf(
      data.code === 16 ? 401 : data.code === 7 ? 403 : data.code === 14 ? 503 : 500,
      data,
    );
  }
  if (data.record) {
    return { entry: entryOf(data.record) };
  }
  if (data.output) {
    return { output: data.output };
  }
  return { cursor: data.heartbeat?.cursor ?? event.id };
}

function within<T>(work: Promise<T>, ms: number): Promise<T> {
  let timer: ReturnType<typeof setTimeout>;
  const expired = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Problem(0, "The connection has gone silent.")), ms);
  });
  return Promise.race([work, expired]).finally(() => clearTimeout(timer));
}
