/** What was said and made before the visit that a run is in. */

import { entryOf, get, kindsOf, runPath } from "./client";
import type { Artifact, Entry, Run, WireRecord } from "./types";

export interface Cause {
  /** What the run was given first. */
  input: Entry | undefined;
  /** The variables that it was started with, as JSON. */
  variables: string;
  /** What was given since the last turn was completed. */
  since: readonly Entry[];
  /** The last turn that was completed. */
  output: Entry | undefined;
  artifacts: readonly Artifact[];
}

const KINDS = kindsOf("inputReceived", "turnCompleted");
/** Records that are looked at first; twice as many each time that they do not suffice. */
const NEAR = 60;
const PAGE = 1_000;

async function records(
  id: string,
  afterSeq: number,
  kinds: readonly string[],
  pageSize: number,
  signal: AbortSignal,
): Promise<Entry[]> {
  const page = await get<{ records?: WireRecord[] }>(
    `${runPath(id)}/transitions`,
    { kinds, afterSeq, pageSize },
    signal,
  );
  return (page.records ?? []).map(entryOf);
}

/** Reads backwards from the run's newest record; a list of records goes forwards only. */
export async function causeOf(run: Run, signal: AbortSignal): Promise<Cause> {
  const seq = Number(run.seq);
  // All at once, and awaited together: of two that are broken off none is left behind.
  const values = get<{ artifacts?: Artifact[]; variablesJson?: string }>(
    runPath(run.runId),
    { atSeq: seq, includeArtifacts: true, includeVariables: true },
    signal,
  );
  const [first, near, { artifacts = [], variablesJson }] = await Promise.all([
    records(run.runId, 0, kindsOf("inputReceived"), 1, signal),
    lastOnes(run.runId, seq, signal),
    values,
  ]);
  const output = near.findLast((e) => e.kind === "turnCompleted");
  return {
    input: first[0],
    variables: variablesJson || "{}",
    since: near.filter(
      (e) => e.kind === "inputReceived" && e.seq > (output?.seq ?? 0) && e.seq !== first[0]?.seq,
    ),
    output,
    artifacts,
  };
}

/** Records that hold the last completed turn, if there is one. */
async function lastOnes(id: string, seq: number, signal: AbortSignal): Promise<Entry[]> {
  for (let back = NEAR; ; back *= 4) {
    const after = Math.max(0, seq - back);
    const found = await records(id, after, KINDS, PAGE, signal);
    if (after === 0 || found.some((e) => e.kind === "turnCompleted")) {
      return found;
    }
  }
}
