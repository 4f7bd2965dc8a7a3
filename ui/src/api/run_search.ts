/** Finds runs among all runs of the sidecar, by the text of the search field. */

import { get, type Query } from "./client";
import { merge, queryOfFilter, type Row, type RunFilter, rowOf, selects } from "./run_list";
import type { Run } from "./types";

export interface Found {
  rows: readonly Row[];
  /** True: more runs match than were requested. */
  more: boolean;
}

/** Most runs of one query. */
const MOST = 200;

const ID = /^[0-7][0-9a-hjkmnp-tv-z]{0,25}$/i;
const LABEL = /^[A-Za-z0-9][A-Za-z0-9._/-]{0,62}=/;

/** Returns the beginning and the end of an id, if the text is an id as lists show it. */
export function shortened(text: string): readonly [string, string] | undefined {
  const [front, back, ...rest] = text.split(/…|\.\.\./);
  return front && back !== undefined && rest.length === 0 && ID.test(front)
    ? [front, back]
    : undefined;
}

/** Returns the queries that a text may mean; the sidecar has an index for each. */
export function questions(text: string): Query[] {
  const front = shortened(text)?.[0] ?? text;
  const asks: Query[] = [];
  if (ID.test(front)) {
    asks.push({ "filter.runIdPrefix": front.toUpperCase() });
  }
  if (LABEL.test(text)) {
    const [key = "", ...value] = text.split("=");
    asks.push({ [`filter.labels[${key}]`]: value.join("=") });
  } else if (!/\s/.test(text) && !shortened(text)) {
    asks.push({ "filter.state": text }, { "filter.reason": text }, { "filter.pack": text });
  }
  return asks;
}

interface Page {
  runs?: Run[];
  nextPageToken?: string;
}

/** Sends all queries at once; the results must match the filter as well. */
export async function searchRuns(
  text: string,
  filter: RunFilter,
  signal: AbortSignal,
): Promise<Found> {
  const now = Date.now();
  const base = queryOfFilter(filter, now);
  const pages = await Promise.all(
    questions(text).map((ask) =>
      get<Page>("/v1/runs", { ...base, ...ask, pageSize: MOST }, signal).catch((error) => {
        if (signal.aborted) {
          throw error;
        }
        return {} as Page;
      }),
    ),
  );
  const back = shortened(text)?.[1].toUpperCase() ?? "";
  const rows = pages
    .flatMap((page) => (page.runs ?? []).map(rowOf))
    .filter((row) => row.id.endsWith(back) && selects(filter, row, now));
  return { rows: merge([], rows), more: pages.some((page) => page.nextPageToken) };
}
