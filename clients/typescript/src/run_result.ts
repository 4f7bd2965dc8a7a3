/** The result of a run that any program executed. */

import { PawlError } from "./errors.js";
import { RecordKind, RunStatus } from "./gen/pawl/v1/record_pb.js";
import type { ArtifactData } from "./plain_message.js";
import { INSPECT, type Inspect, printable, readable } from "./printable.js";
import type { CallOptions } from "./retry.js";
import { type RunInfo, type RunReader, valuesOf } from "./run_reader.js";
import { fitting, type StandardSchema } from "./standard_schema.js";
import type { AnyPack, PackTypes, Values } from "./types.js";
import { type Part, textOf } from "./values.js";

/** Result of a run that has ended, or that waits for an outside input. */
export interface RunResult<P extends PackTypes = AnyPack> {
  readonly run: RunInfo;
  /** Status of the run. */
  readonly status: RunStatus;
  /** Name of the status, for example "COMPLETED". */
  readonly statusName: keyof typeof RunStatus;
  /** Why the run ended, for example "completed"; empty while it has not. */
  readonly reason: string;
  /** The newest values by name. */
  readonly artifacts: Values<P["artifacts"]>;
  /** Output of the last completed turn, by any executor. */
  readonly output: readonly Part[];
  /** The text of the output, without its other parts; empty if it has none. */
  readonly text: string;
  /**
   * What its model calls, its tools and its delegations cost in US dollars. Undefined means unknown,
   * because tokens were used and nothing has a price.
   */
  readonly costUsd: number | undefined;
  /** Errors of handlers of this process, in order. */
  readonly errors: readonly unknown[];
  /**
   * Returns an artifact as a schema of zod, or of another library with Standard Schema, or a
   * function converts it. Throws a PawlError (ARTIFACT_INVALID) if the artifact was not written, or
   * does not fit.
   *
   *     const result = await run.result();
   *     const plan = await result.artifact("plan", z.object({ steps: z.array(z.string()) }));
   */
  artifact<T>(
    name: keyof P["artifacts"] & string,
    schema: StandardSchema<unknown, T> | ((value: ArtifactData) => T | Promise<T>),
  ): Promise<T>;
  /**
   * Returns the result in a form for JSON: statuses by name, parts as `{ text: "..." }`, errors by
   * name, reason and message, and whole numbers that a number cannot hold as text.
   */
  toJSON(): { readonly [name: string]: unknown };
}

class Result<P extends PackTypes> implements RunResult<P> {
  constructor(
    readonly run: RunInfo,
    readonly artifacts: Values<P["artifacts"]>,
    readonly output: readonly Part[],
    readonly errors: readonly unknown[],
  ) {}

  get status(): RunStatus {
    return this.run.status;
  }

  get statusName(): keyof typeof RunStatus {
    return RunStatus[this.status] as keyof typeof RunStatus;
  }

  get reason(): string {
    return this.run.reason;
  }

  get costUsd(): number | undefined {
    const { tokens, costMicroUsd } = this.run;
    return costMicroUsd === 0 && tokens > 0 ? undefined : costMicroUsd / 1e6;
  }

  get text(): string {
    return textOf(this.output);
  }

  async artifact<T>(
    name: string,
    schema: StandardSchema<unknown, T> | ((value: ArtifactData) => T | Promise<T>),
  ): Promise<T> {
    const artifacts = this.artifacts as Readonly<{ [name: string]: ArtifactData | undefined }>;
    const value = artifacts[name];
    if (value === undefined) {
      const written = Object.keys(artifacts).join(", ") || "none";
      throw invalid(`artifact ${name}: it was not written; written: ${written}`);
    }
    if (typeof schema !== "function" || "~standard" in schema) {
      return fitting(
        schema as StandardSchema<unknown, T>,
        value,
        ARTIFACT_INVALID,
        `artifact ${name}`,
      );
    }
    try {
      return await schema(value);
    } catch (error) {
      throw invalid(`artifact ${name}: ${error instanceof Error ? error.message : error}`, error);
    }
  }

  toJSON(): { readonly [name: string]: unknown } {
    const { statusName: status, reason, artifacts, text, costUsd, errors } = this;
    const run = { ...this.run, status };
    const output = this.output.map(readable);
    const all = { run, status, reason, artifacts, output, text, costUsd, errors };
    return printable(all) as { readonly [name: string]: unknown };
  }

  [INSPECT](_depth: number, options: unknown, inspect: Inspect): string {
    const { statusName: status, reason, text, costUsd, artifacts, errors } = this;
    const { runId } = this.run;
    const output = this.output.map(readable);
    const all = { runId, status, reason, text, costUsd, artifacts, output, errors };
    return `RunResult ${inspect(all, options)}`;
  }
}

const ARTIFACT_INVALID = "ARTIFACT_INVALID";

function invalid(text: string, cause?: unknown): PawlError {
  return new PawlError("schema", text, { reason: ARTIFACT_INVALID, cause });
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
  const artifacts = valuesOf(snapshot) as Values<P["artifacts"]>;
  const output = known.output ?? (await lastOutput(run, info.seq, options));
  return new Result<P>(info, artifacts, output, known.errors ?? []);
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
