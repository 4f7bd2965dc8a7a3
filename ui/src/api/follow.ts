/** Follows records over as many connections as it takes, without a gap or a repetition. */

import { connect, type Query, type StreamItem } from "./client";
import { asProblem, Problem } from "./problem";
import type { Entry, OutputChunk } from "./types";

export type Connection = "connecting" | "live" | "lost" | "ended";

export interface Follower {
  /** Receives records in order, each once. */
  onEntries(entries: Entry[]): void;
  onLink(link: Connection, problem?: Problem): void;
  /** Receives output of open turns, if the query requests it. A new connection repeats it. */
  onOutput?(chunk: OutputChunk): void;
}

/** Where a stream continues: after a record of one run, or at a position of the journal. */
export interface Place {
  path: string;
  query: Query;
  /** Seq of the last read record; only for one run. */
  seq?: number;
  /** Last read position; empty: after the newest record. */
  cursor?: string;
}

const FIRST_PAUSE_MS = 200;
const LONGEST_PAUSE_MS = 5_000;

/** Follows until the signal is aborted, the stream ends, or the caller may not read it. */
export async function follow(place: Place, to: Follower, signal: AbortSignal): Promise<void> {
  const at = { ...place };
  let pause = FIRST_PAUSE_MS;
  while (!signal.aborted) {
    try {
      for await (const items of connect(at.path, { ...at.query, ...positionOf(at) }, signal)) {
        to.onLink("live");
        pause = FIRST_PAUSE_MS;
        if (take(items, at, to)) {
          to.onLink("ended");
          return;
        }
      }
    } catch (error) {
      if (signal.aborted) {
        return;
      }
      const problem = asProblem(error);
      to.onLink("lost", problem);
      if (problem.signedOut || problem.status === 403 || problem.status === 404) {
        return;
      }
    }
    await sleep(pause * (0.8 + Math.random() * 0.4), signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
}

function positionOf(at: Place): Query {
  if (at.seq !== undefined) {
    return { afterSeq: at.seq };
  }
  return at.cursor ? { afterCursor: at.cursor } : { fromNow: true };
}

/** Passes new records on and moves the position; true: the stream has ended. */
function take(items: StreamItem[], at: Place, to: Follower): boolean {
  const fresh: Entry[] = [];
  let over = false;
  for (const item of items) {
    if (item === "end") {
      over = true;
    } else if ("cursor" in item) {
      at.cursor = item.cursor;
    } else if ("output" in item) {
      to.onOutput?.(item.output);
    } else if (at.seq === undefined || item.entry.seq > at.seq) {
      if (at.seq !== undefined && item.entry.prevSeq > at.seq) {
        throw new Problem(0, `Record ${at.seq + 1} is missing; reading it again.`);
      }
      fresh.push(item.entry);
      at.cursor = item.entry.cursor;
      at.seq = at.seq === undefined ? undefined : item.entry.seq;
    }
  }
  if (fresh.length > 0) {
    to.onEntries(fresh);
  }
  return over;
}

function sleep(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(done, ms);
    function done() {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      window.removeEventListener("online", done);
      resolve();
    }
    signal.addEventListener("abort", done, { once: true });
    window.addEventListener("online", done, { once: true });
  });
}
