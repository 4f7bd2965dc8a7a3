/** Time travel: forks of runs, comparisons, verification, and files of runs. */

import type { Connection } from "./connection.js";
import type { Execution } from "./gen/pawl/v1/record_pb.js";
import {
  type DeleteRunResponse,
  DeleteRunResponseSchema,
  type DiffRunsResponse,
  DiffRunsResponseSchema,
  type EraseRunResponse,
  EraseRunResponseSchema,
  ForkRunResponseSchema,
  ImportRunResponseSchema,
  type VerifyRunResponse,
  VerifyRunResponseSchema,
} from "./gen/pawl/v1/run_pb.js";
import { toJsonText } from "./json_text.js";
import type { Json, Plain } from "./plain_message.js";
import { attempt, type CallOptions, newId } from "./retry.js";
import type { RunInfo } from "./run_reader.js";
import { type Artifacts, type Slots, writesOf } from "./values.js";

/** Options of a fork: how it differs from its run. */
export interface ForkOptions extends CallOptions {
  /** Record at which the fork begins. Default 0: the newest one. */
  readonly atSeq?: number;
  /** Another pack: "id", "id@version" or digest. Default: the run's own. */
  readonly pack?: string;
  /** Variables that replace those of the run. Default: none. */
  readonly variables?: { readonly [name: string]: Json };
  /** Artifacts whose content is replaced, in every mode. Default: none. */
  readonly artifacts?: Artifacts;
  /** Declared media types of the artifacts. Default: text, bytes or JSON by the value. */
  readonly slots?: Slots;
  /** Labels that replace those of the run. Default: none. */
  readonly labels?: { readonly [key: string]: string };
  /** Executor of the fork's turns. Default: as in the run. */
  readonly execution?: Execution;
  /** Lowers the pack's max_steps. Default 0: unchanged. */
  readonly maxSteps?: number;
  /** Lowers the pack's wall time, in seconds. Default 0: unchanged. */
  readonly maxWallTimeSec?: number;
  /**
   * Answers answered steps of the visit from the record. Default: true unless pack or artifacts
   * change.
   */
  readonly reuseSteps?: boolean;
  /** Idempotency id. Default: a new id for each call, which its repetitions keep. */
  readonly id?: string;
}

/** Two records to compare. */
export interface DiffOptions extends CallOptions {
  /** Record of the run. Default 0: the newest one. */
  readonly seq?: number;
  /** Id of the run to compare with. Default: the same run. */
  readonly other?: string;
  /** Record of the other run. Default 0: the newest one. */
  readonly otherSeq?: number;
}

interface Target {
  readonly namespace: string;
  readonly runId: string;
}

/** Forks a run and returns the id of the fork. */
export async function forkRun(
  connection: Connection,
  target: Target,
  options: ForkOptions,
): Promise<string> {
  const { runs } = connection;
  const request = {
    ...target,
    atSeq: BigInt(options.atSeq ?? 0),
    pack: options.pack ?? "",
    variablesJson: options.variables ? toJsonText(options.variables, "variables") : "",
    artifacts: writesOf(options.artifacts, options.slots),
    labels: { ...options.labels },
    execution: options.execution ?? 0,
    maxSteps: options.maxSteps ?? 0,
    maxWallTimeSec: options.maxWallTimeSec ?? 0,
    reuseSteps: options.reuseSteps,
    requestId: options.id ?? newId(),
  };
  const { run } = await connection.call(
    ForkRunResponseSchema,
    (rpc) => runs.forkRun(request, rpc),
    options,
  );
  return run?.runId ?? "";
}

/** Returns the differences. */
export function diffRuns(
  connection: Connection,
  target: Target,
  options: DiffOptions,
): Promise<Plain<DiffRunsResponse>> {
  const { runs } = connection;
  const request = {
    ...target,
    seq: BigInt(options.seq ?? 0),
    otherRunId: options.other ?? "",
    otherSeq: BigInt(options.otherSeq ?? 0),
  };
  return connection.call(DiffRunsResponseSchema, (rpc) => runs.diffRuns(request, rpc), options);
}

/** Deletes a run and returns what is kept of it. */
export function deleteRun(
  connection: Connection,
  target: Target,
  options: CallOptions,
): Promise<Plain<DeleteRunResponse>> {
  const { runs } = connection;
  return connection.call(DeleteRunResponseSchema, (rpc) => runs.deleteRun(target, rpc), options);
}

/** Erases the values of a run and returns what is kept of it. */
export function eraseRun(
  connection: Connection,
  target: Target,
  reason: string,
  options: CallOptions,
): Promise<Plain<EraseRunResponse>> {
  const { runs } = connection;
  const request = { ...target, reason };
  return connection.call(EraseRunResponseSchema, (rpc) => runs.eraseRun(request, rpc), options);
}

/** Verifies the journal of a run. */
export function verifyRun(
  connection: Connection,
  target: Target,
  options: CallOptions,
): Promise<Plain<VerifyRunResponse>> {
  const { runs } = connection;
  return connection.call(VerifyRunResponseSchema, (rpc) => runs.verifyRun(target, rpc), options);
}

/**
 * Returns the file of a run; after a lost connection it reads the file from its beginning again.
 */
export async function exportRun(
  connection: Connection,
  target: Target,
  options: CallOptions,
): Promise<Uint8Array> {
  const { runs, retryWindow } = connection;
  return attempt(
    async (rpc) => {
      const pieces: Uint8Array[] = [];
      for await (const { data } of runs.exportRun(target, rpc)) {
        pieces.push(data);
      }
      const all = Buffer.concat(pieces);
      return new Uint8Array(all.buffer, all.byteOffset, all.byteLength);
    },
    retryWindow,
    options,
  );
}

/** Size of one piece in bytes; the contract accepts up to 1 MiB. */
const PIECE_BYTES = 256 * 1024;

/** Imports a run. The same file again returns the same run. */
export async function importRun(
  connection: Connection,
  file: Uint8Array,
  options: CallOptions,
): Promise<{ readonly run: RunInfo; readonly duplicate: boolean }> {
  const { namespace, runs } = connection;
  const { run, duplicate } = await connection.call(
    ImportRunResponseSchema,
    (rpc) => runs.importRun(pieces(namespace, file), rpc),
    options,
  );
  return { run: run as RunInfo, duplicate };
}

async function* pieces(namespace: string, file: Uint8Array) {
  let at = 0;
  do {
    yield { namespace, data: file.subarray(at, at + PIECE_BYTES) };
    at += PIECE_BYTES;
  } while (at < file.length);
}
