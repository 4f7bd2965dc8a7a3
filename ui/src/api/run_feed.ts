/** Follows one run for the page: its state, and its records by seq. */

import { ALL_KINDS, entryOf, get, runPath } from "./client";
import { type Connection, follow } from "./follow";
import { asProblem, type Problem } from "./problem";
import type { Entry, OutputChunk, Run, WireRecord } from "./types";

/** The text of the open turn, as far as it has arrived. */
export interface LiveText {
  turnSeq: number;
  text: string;
}

export interface FeedState {
  run: Run | undefined;
  /** Seq of the newest known record. */
  seq: number;
  link: Connection;
  problem: Problem | undefined;
  /** Grows whenever records were added. */
  version: number;
  /** Only of a feed with output; undefined: none has arrived. */
  output: LiveText | undefined;
}

interface Page {
  records?: WireRecord[];
}

/** Records of one request; pages begin at multiples of this number. */
const PAGE = 200;

/** Reads the records that are shown, and receives new ones. */
export class RunFeed {
  #state: FeedState = {
    run: undefined,
    seq: 0,
    link: "connecting",
    problem: undefined,
    version: 0,
    output: undefined,
  };
  readonly #records = new Map<number, Entry>();
  readonly #requested = new Set<number>();
  readonly #stop = new AbortController();
  readonly #listeners = new Set<() => void>();
  #refreshing = false;
  #retry = false;

  constructor(
    readonly id: string,
    /** True: also receives the text of open turns while it is written. */
    readonly withOutput = false,
  ) {}

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly state = (): FeedState => this.#state;

  record(seq: number): Entry | undefined {
    return this.#records.get(seq);
  }

  /** Begins to follow the run; `close` ends it. */
  async open(): Promise<void> {
    try {
      const { run } = await get<{ run: Run }>(runPath(this.id), {}, this.#stop.signal);
      this.#set({ run, seq: Number(run.seq), problem: undefined });
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        this.#set({ problem: asProblem(error) });
      }
      return;
    }
    const path = `${runPath(this.id)}/transitions:stream`;
    const place = {
      path,
      query: { kinds: ALL_KINDS, output: this.withOutput },
      seq: this.#state.seq,
    };
    await follow(
      place,
      {
        onEntries: (e) => this.#take(e),
        onOutput: (chunk) => this.#set({ output: added(this.#state.output, chunk) }),
        onLink: (link) => this.#state.link !== link && this.#set({ link }),
      },
      this.#stop.signal,
    );
  }

  close(): void {
    this.#stop.abort();
    this.#listeners.clear();
  }

  /** Reads the run again after another part of the page saw that it has moved. */
  async look(): Promise<void> {
    await this.#refresh();
  }

  /** Makes sure that the records from..to are read or being read. */
  need(from: number, to: number): void {
    const first = Math.floor((Math.max(from, 1) - 1) / PAGE);
    const last = Math.floor((Math.min(to, this.#state.seq) - 1) / PAGE);
    for (let page = first; page <= last; page++) {
      void this.#load(page);
    }
  }

  async #load(page: number): Promise<void> {
    const end = Math.min((page + 1) * PAGE, this.#state.seq);
    let after = page * PAGE;
    while (after < end && this.#records.has(after + 1)) {
      after++;
    }
    if (after >= end || this.#requested.has(page)) {
      return;
    }
    this.#requested.add(page);
    try {
      // A page of large records is shorter, so the next request continues after its last record.
      while (after < end) {
        const query = { kinds: ALL_KINDS, afterSeq: after, pageSize: end - after };
        const got = await get<Page>(`${runPath(this.id)}/transitions`, query, this.#stop.signal);
        const entries = (got.records ?? []).map(entryOf);
        if (entries.length === 0) {
          break;
        }
        this.#keep(entries);
        after = entries.at(-1)?.seq ?? end;
      }
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        this.#set({ problem: asProblem(error) });
      }
    } finally {
      this.#requested.delete(page);
    }
  }

  #keep(entries: Entry[]): void {
    for (const entry of entries) {
      this.#records.set(entry.seq, entry);
    }
    this.#set({ version: this.#state.version + 1, problem: undefined });
  }

  #take(entries: Entry[]): void {
    let { run } = this.#state;
    for (const entry of entries) {
      run = run && after(run, entry);
    }
    this.#set({ run, seq: Math.max(this.#state.seq, entries.at(-1)?.seq ?? 0) });
    this.#keep(entries);
    void this.#refresh();
  }

  /** Reads the run again; if records arrive meanwhile, reads it once more. */
  async #refresh(): Promise<void> {
    if (this.#refreshing) {
      this.#retry = true;
      return;
    }
    this.#refreshing = true;
    try {
      const { run } = await get<{ run: Run }>(runPath(this.id), {}, this.#stop.signal);
      if (Number(run.seq) >= this.#state.seq) {
        this.#set({ run, seq: Number(run.seq) });
      }
    } catch {
      // The stream reports lost connections.
    }
    this.#refreshing = false;
    if (this.#retry && !this.#stop.signal.aborted) {
      this.#retry = false;
      void this.#refresh();
    }
  }

  #set(change: Partial<FeedState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) {
      listener();
    }
  }
}

/**
 * Returns the text of the open turn with one piece more. A turn that begins again, and a new
 * connection, begin at the offset 0. Reasoning has offsets too, but is not shown.
 */
export function added(live: LiveText | undefined, chunk: OutputChunk): LiveText {
  const turnSeq = Number(chunk.turnSeq);
  const fresh = chunk.reset || !Number(chunk.offset ?? 0) || live?.turnSeq !== turnSeq;
  const text = chunk.reasoning ? "" : (chunk.text ?? "");
  return { turnSeq, text: (fresh ? "" : live.text) + text };
}

/** Returns the run after a record, as far as the record shows it; the rest is read again. */
export function after(run: Run, { seq, kind, body, at }: Entry): Run {
  const next: Run = { ...run, seq: String(seq), updatedAt: at };
  switch (kind) {
    case "transition": {
      const to = body.toState ?? "";
      next.state = to;
      next.visitSeq = String(seq);
      next.totalVisits = body.totalVisits ?? run.totalVisits;
      next.transitions = (run.transitions ?? 0) + 1;
      next.visits = { ...run.visits, [to]: body.visit ?? (run.visits?.[to] ?? 0) + 1 };
      // An edge counts only if the run entered the edge's own target.
      next.edges = body.redirects?.length
        ? run.edges
        : followed(run.edges ?? [], body.fromState, body.event);
      next.allowedEvents = [];
      return next;
    }
    case "ended":
      return {
        ...next,
        status: body.status ?? run.status,
        reason: body.reason ?? "",
        allowedEvents: [],
        turn: undefined,
      };
    case "paused":
    case "resumed":
      return { ...next, paused: kind === "paused" };
    default:
      return next;
  }
}

function followed(
  edges: NonNullable<Run["edges"]>,
  state = "",
  event = "",
): NonNullable<Run["edges"]> {
  if (event === "") {
    return edges;
  }
  const known = edges.find((e) => e.state === state && e.event === event);
  if (!known) {
    return [...edges, { state, event, count: 1 }];
  }
  return edges.map((e) => (e === known ? { ...e, count: e.count + 1 } : e));
}
