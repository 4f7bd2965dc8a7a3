/** The result of a run that any program executed. */

import { RecordKind, type RunStatus } from "./gen/pawl/v1/record_pb.js";
import type { CallOptions } from "./retry.js";
import { type RunInfo, type RunReader, valuesOf } from "./run_reader.js";
import type { AnyPack, PackTypes, Values } from "./types.js";
import type { Part } from "./values.js";

/** Result of a run that has ended, or that waits for an outside input. */
export interface RunResult<P extends PackTypes = AnyPack> {
  readonly run: RunInfo;
  /** Status of the run. */
  readonly status: RunStatus;
  /** Why the run ended, for example "completed"; empty while it has not. */
  readonly reason: string;
  /** The newest values by name. */
  readonly artifacts: Values<P["artifacts"]>;
  /** Output of the last completed turn, by any executor. */
  readonly output: readonly Part[];
  /** Errors of handlers of this process, in order. */
  readonly errors: readonly unknown[];
}

// How many records are read first, from the end; and the factor for each further read.
const WINDOW = 32;
const GROWTH = 8;

/** Returns the run's result as it is now. Without `output` it is read from the records. */
export async function readResult<P extends PackTypes>(
  run: RunReader<P>,
  options: CallOptions,
  known: { readonly output?: readonly Part[]; readonly errors?: readonly unknown[] } = {},
): Promise<RunResult<P>> {
  const snapshot = await run.snapshot(options);
  const info = snapshot.run as RunInfo;
  return {
    run: info,
    status: info.status,
    reason: info.reason,
    artifacts: valuesOf(snapshot) as Values<P["artifacts"]>,
    output: known.output ?? (await lastOutput(run, info.seq, options)),
    errors: known.errors ?? [],
  };
}

async function lastOutput<P extends PackTypes>(
  run: RunReader<P>,
  seq: number,
  options: CallOptions,
): Promise<readonly Part[]> {
  let window = WINDOW;
  for (let until = seq; until > 0; window *= GROWTH) {
    const after = Math.max(0, until - window);
    const output = await lastBetween(run, after, until, options);
    if (output) {
      return output;
    }
    until = after;
  }
  return [];
}

async function lastBetween<P extends PackTypes>(
  run: RunReader<P>,
  afterSeq: number,
  until: number,
  options: CallOptions,
): Promise<readonly Part[] | undefined> {
  let found: readonly Part[] | undefined;
  const kinds = [RecordKind.TURN_COMPLETED];
  for await (const { seq, body } of run.records({ ...options, kinds, afterSeq })) {
    if (seq > until) {
      break;
    }
    found = body.case === "turnCompleted" ? body.value.output : found;
  }
  return found;
}
