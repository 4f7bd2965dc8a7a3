/** Reads the inputs, outputs and events that led to the current visit of a run. */

import { entryOf, get, kindsOf, runPath } from "./client";
import type { Artifact, Entry, Run, WireRecord } from "./types";

export interface Cause {
  /** The first input of the run. */
  input: Entry | undefined;
  /** The variables of the run's start, as JSON. */
  variables: string;
  /** Inputs since the last completed turn. */
  since: readonly Entry[];
  /** The last completed turn. */
  output: Entry | undefined;
  artifacts: readonly Artifact[];
}

const KINDS = kindsOf("inputReceived", "turnCompleted");
/** How many records are read first; each further read doubles the number. */
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

/** Reads backwards from the run's newest record, because a list of records only goes forwards. */
export async function causeOf(run: Run, signal: AbortSignal): Promise<Cause> {
  const seq = Number(run.seq);
  // One Promise.all awaits all reads, so that an abort leaves none behind.
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

/** Returns the records that contain the last completed turn, if there is one. */
async function lastOnes(id: string, seq: number, signal: AbortSignal): Promise<Entry[]> {
  for (let back = NEAR; ; back *= 4) {
    const after = Math.max(0, seq - back);
    const found = await records(id, after, KINDS, PAGE, signal);
    if (after === 0 || found.some((e) => e.kind === "turnCompleted")) {
      return found;
    }
  }
}
