/** Reads the records that show how a run spent its time, from the first one on. */

import { useEffect, useState } from "react";
import { entryOf, get, kindsOf, runPath } from "./client";
import { asProblem, type Problem } from "./problem";
import type { Entry, WireRecord } from "./types";

const KINDS = kindsOf(
  "transition",
  "stepRequested",
  "stepResolved",
  "stepCancelled",
  "origin",
  "ended",
);

/** Most records of one request, and of all requests: a run may have many more. */
const PAGE = 1_000;
const MOST = 20_000;

export interface History {
  entries: readonly Entry[];
  /** Seq of the last read record. */
  to: number;
  /** True: the run has more records than were read. */
  cut: boolean;
  problem: Problem | undefined;
}

const NOTHING: History = { entries: [], to: 0, cut: false, problem: undefined };

/** Reads up to a record, and continues from there when the number grows. */
export function useHistory(
  id: string,
  last: number,
  wanted: boolean,
  kinds: readonly string[] = KINDS,
): History {
  const [read, setRead] = useState<History>(NOTHING);
  const due = wanted && last > read.to && !read.cut && !read.problem;
  useEffect(() => {
    if (!due) {
      return;
    }
    const stop = new AbortController();
    next(id, kinds, read, last, stop.signal).then(
      (more) => !stop.signal.aborted && setRead(more),
      (error) => !stop.signal.aborted && setRead({ ...read, problem: asProblem(error) }),
    );
    return () => stop.abort();
  }, [id, kinds, due, read, last]);
  return read;
}

async function next(
  id: string,
  kinds: readonly string[],
  read: History,
  last: number,
  signal: AbortSignal,
): Promise<History> {
  const query = { kinds, afterSeq: read.to, pageSize: PAGE };
  const page = await get<{ records?: WireRecord[]; nextPageToken?: string }>(
    `${runPath(id)}/transitions`,
    query,
    signal,
  );
  const fresh = (page.records ?? []).map(entryOf);
  const entries = [...read.entries, ...fresh];
  // A page that is not full and has no next page is the last one.
  const to = page.nextPageToken
    ? (fresh.at(-1)?.seq ?? last)
    : Math.max(last, fresh.at(-1)?.seq ?? 0);
  return { entries, to, cut: entries.length >= MOST && to < last, problem: undefined };
}
