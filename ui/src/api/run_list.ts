/** The rows of the runs page: pages of the server, which records keep up to date. */

import { get, type Query, runPath } from "./client";
import { asProblem, type Problem } from "./problem";
import type { Entry, Run } from "./types";

/** The shown fields of a run; memory must hold 100 000 of them. */
export interface Row {
  id: string;
  pack: string;
  version: string;
  state: string;
  status: string;
  reason: string;
  paused: boolean;
  visits: number;
  labels: string;
  createdAt: string;
  updatedAt: string;
}

export interface RunFilter {
  pack: string;
  state: string;
  status: string;
  reason: string;
  label: string;
  /** Started within so many seconds; 0: at any time. */
  within: number;
}

export const NO_FILTER: RunFilter = {
  pack: "",
  state: "",
  status: "",
  reason: "",
  label: "",
  within: 0,
};

export function rowOf(run: Run): Row {
  return {
    id: run.runId,
    pack: run.pack.id,
    version: run.pack.version,
    state: run.state ?? "",
    status: run.status,
    reason: run.reason ?? "",
    paused: run.paused ?? false,
    visits: run.totalVisits ?? 0,
    labels: Object.entries(run.labels ?? {})
      .map(([k, v]) => `${k}=${v}`)
      .join(" "),
    createdAt: run.createdAt ?? "",
    updatedAt: run.updatedAt ?? "",
  };
}

/** Converts the filter to parameters of ListRuns. */
export function queryOfFilter(f: RunFilter, now: number): Query {
  const [key = "", ...value] = f.label.split("=");
  return {
    "filter.pack": f.pack,
    "filter.state": f.state,
    "filter.statuses": f.status === "" ? undefined : `RUN_STATUS_${f.status}`,
    "filter.reason": f.reason,
    "filter.createdAfter": f.within ? new Date(now - f.within * 1000).toISOString() : undefined,
    ...(key === "" ? {} : { [`filter.labels[${key}]`]: value.join("=") }),
  };
}

/** Whether a run matches the filter, by the same rules as the server's. */
export function selects(f: RunFilter, row: Row, now: number): boolean {
  return (
    (f.pack === "" || f.pack === row.pack || f.pack === `${row.pack}@${row.version}`) &&
    (f.state === "" || f.state === row.state) &&
    (f.status === "" || row.status === `RUN_STATUS_${f.status}`) &&
    (f.reason === "" || `${row.reason}:`.startsWith(`${f.reason}:`)) &&
    (f.label === "" || ` ${row.labels} `.includes(` ${f.label} `)) &&
    (f.within === 0 || Date.parse(row.createdAt) >= now - f.within * 1000)
  );
}

interface Page {
  runs?: Run[];
  nextPageToken?: string;
}

export interface ListState {
  rows: readonly Row[];
  /** True: all pages were read. */
  complete: boolean;
  loading: boolean;
  problem: Problem | undefined;
}

const PAGE = 500;
/** Up to this number, changed runs are read one by one; more are listed. */
const REFRESH = 24;
/** Most rows that are listed again for that. */
const HEAD_ROWS = 5_000;

/** Holds rows, newest first. It notifies at most once per animation frame. */
export class RunList {
  #state: ListState = { rows: [], complete: false, loading: false, problem: undefined };
  #token = "";
  #stop = new AbortController();
  #listeners = new Set<() => void>();
  #stale = new Set<string>();
  #refreshing = false;
  readonly #query: Query;

  constructor(readonly filter: RunFilter) {
    this.#query = { ...queryOfFilter(filter, Date.now()), pageSize: PAGE };
  }

  readonly subscribe = (listener: () => void): (() => void) => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  readonly state = (): ListState => this.#state;

  /** Reads the next page, unless one is being read, was refused, or does not exist. */
  async more(): Promise<void> {
    const { loading, complete, problem } = this.#state;
    if (loading || complete || problem) {
      return;
    }
    this.#set({ loading: true, problem: undefined });
    try {
      const query = { ...this.#query, pageToken: this.#token };
      const page = await get<Page>("/v1/runs", query, this.#stop.signal);
      this.#token = page.nextPageToken ?? "";
      const rows = merge(this.#state.rows, (page.runs ?? []).map(rowOf));
      this.#set({ rows, loading: false, complete: this.#token === "" });
    } catch (error) {
      if (!this.#stop.signal.aborted) {
        this.#set({ loading: false, problem: asProblem(error) });
      }
    }
  }

  /** Reads a page again that was refused or lost. */
  async reload(): Promise<void> {
    this.#set({ problem: undefined });
    await this.more();
  }

  /** Applies records at once, and reads their runs again for the other fields. */
  apply(entries: readonly Entry[]): void {
    const rows = this.#state.rows.slice();
    let changed = false;
    for (const entry of entries) {
      const at = find(rows, entry.runId);
      const row = rows[at];
      this.#stale.add(entry.runId);
      if (row?.id === entry.runId) {
        rows[at] = after(row, entry);
        changed = true;
      }
    }
    if (changed) {
      this.#set({ rows });
    }
    void this.#refresh();
  }

  close(): void {
    this.#stop.abort();
    this.#listeners.clear();
  }

  async #refresh(): Promise<void> {
    if (this.#refreshing || this.#stale.size === 0) {
      return;
    }
    this.#refreshing = true;
    const ids = [...this.#stale];
    this.#stale.clear();
    const runs = await (ids.length > REFRESH ? this.#head(ids) : this.#each(ids));
    this.#refreshing = false;
    if (this.#stop.signal.aborted) {
      return;
    }
    this.#replace(runs);
    void this.#refresh();
  }

  async #each(ids: string[]): Promise<Row[]> {
    const read = (id: string) =>
      get<{ run: Run }>(runPath(id), {}, this.#stop.signal).then(
        (got) => rowOf(got.run),
        () => undefined,
      );
    return (await Promise.all(ids.map(read))).filter((row) => row !== undefined);
  }

  /** Reads pages from the newest run on, until they contain the changed runs. */
  async #head(ids: string[]): Promise<Row[]> {
    const oldest = ids.toSorted()[0] ?? "";
    const runs: Row[] = [];
    let pageToken = "";
    try {
      do {
        const page = await get<Page>("/v1/runs", { ...this.#query, pageToken }, this.#stop.signal);
        runs.push(...(page.runs ?? []).map(rowOf));
        pageToken = page.nextPageToken ?? "";
      } while (pageToken !== "" && (runs.at(-1)?.id ?? "") > oldest && runs.length < HEAD_ROWS);
    } catch {
      // Rows that were read stay; the next record causes another read.
    }
    return runs;
  }

  #replace(fresh: Row[]): void {
    const now = Date.now();
    let rows = this.#state.rows.slice();
    const added: Row[] = [];
    for (const row of fresh) {
      const at = find(rows, row.id);
      const known = rows[at]?.id === row.id;
      if (!selects(this.filter, row, now)) {
        if (known) {
          rows.splice(at, 1);
        }
      } else if (known) {
        rows[at] = row;
      } else if (at < rows.length || rows.length === 0 || this.#state.complete) {
        // A row after the last one is added only if no later page will contain it.
        added.push(row);
      }
    }
    if (added.length > 0) {
      rows = merge(rows, added);
    }
    this.#set({ rows });
  }

  #set(change: Partial<ListState>): void {
    this.#state = { ...this.#state, ...change };
    for (const listener of this.#listeners) {
      listener();
    }
  }
}

function after(row: Row, { kind, body, at }: Entry): Row {
  switch (kind) {
    case "transition":
      return {
        ...row,
        state: body.toState ?? "",
        visits: body.totalVisits ?? row.visits,
        updatedAt: at,
      };
    case "ended":
      return {
        ...row,
        status: body.status ?? row.status,
        reason: body.reason ?? "",
        updatedAt: at,
      };
    case "paused":
    case "resumed":
      return { ...row, paused: kind === "paused", updatedAt: at };
    default:
      return { ...row, updatedAt: at };
  }
}

/** Returns the index of a run, or the index at which it belongs, in rows sorted newest first. */
export function find(rows: readonly Row[], id: string): number {
  let low = 0;
  let high = rows.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((rows[middle]?.id ?? "") > id) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

const newestFirst = (a: Row, b: Row): number => (a.id < b.id ? 1 : a.id > b.id ? -1 : 0);

/**
 * Returns the rows with added ones, newest first and each run once, on which the search for a row
 * relies. Added rows may have any order; existing rows win.
 */
export function merge(rows: readonly Row[], added: readonly Row[]): Row[] {
  const fresh = [...new Map(added.map((row) => [row.id, row])).values()].sort(newestFirst);
  const last = rows.at(-1);
  const first = fresh[0];
  if (!last || !first || first.id < last.id) {
    return [...rows, ...fresh];
  }
  const byId = new Map(rows.map((row) => [row.id, row]));
  for (const row of fresh) {
    byId.set(row.id, row);
  }
  return [...byId.values()].sort(newestFirst);
}
