/** One run: reading it, following it, and moving it from outside. */

import { type Connection, pages } from "./connection.js";
import { follow } from "./follow.js";
import type { RecordKind } from "./gen/pawl/v1/record_pb.js";
import {
  type CancelRunResponse,
  CancelRunResponseSchema,
  type EmitEventResponse,
  EmitEventResponseSchema,
  type GetRunResponse,
  GetRunResponseSchema,
  ListTransitionsResponseSchema,
  type PauseRunResponse,
  PauseRunResponseSchema,
  type ResumeRunResponse,
  ResumeRunResponseSchema,
  type SendInputResponse,
  SendInputResponseSchema,
  type SetArtifactsResponse,
  SetArtifactsResponseSchema,
  type WaitRunResponse,
  WaitRunResponseSchema,
  WaitUntil,
  type Run as WireRun,
} from "./gen/pawl/v1/run_pb.js";
import { type OutputChunk, type OutputOptions, OutputReader } from "./output.js";
import type { ArtifactData, Plain } from "./plain.js";
import { Position } from "./position.js";
import { type CallOptions, newId } from "./retry.js";
import { type Record, type TransitionsOptions, TransitionsReader } from "./transitions.js";
import { type Artifacts, type Content, partsOf, type Slots, writesOf } from "./values.js";

/** The whole of a run without bodies of artifacts, messages or answers. */
export type RunInfo = Plain<WireRun>;

/** A call with an idempotency id: made afresh where none is given, kept over repetitions. */
export interface IdOptions extends CallOptions {
  readonly id?: string;
}

/** A call that moves or writes. */
export interface WriteOptions extends IdOptions {
  /** Seq of the last transition that the caller has seen (`RunInfo.visitSeq`). */
  readonly expectedSeq?: number;
  /** Where the caller acts as the holder of the turn. */
  readonly turnToken?: string;
  /** Declared media types of the artifacts. Default: text, bytes or JSON by the value. */
  readonly slots?: Slots;
}

/** A run by its id. It holds no state of its own: each method is a call. */
export class RunHandle {
  protected readonly connection: Connection;
  /** The run. A ULID. */
  readonly id: string;

  constructor(connection: Connection, id: string) {
    this.connection = connection;
    this.id = id;
  }

  protected get target(): { namespace: string; runId: string } {
    return { namespace: this.connection.namespace, runId: this.id };
  }

  /** The run as it is, or as it was at a record. Reasons: RUN_NOT_FOUND, RECORD_NOT_FOUND. */
  async info(options: CallOptions & { readonly atSeq?: number } = {}): Promise<RunInfo> {
    return (await this.#get(options, false)).run as RunInfo;
  }

  /** The run with the values of its artifacts. */
  snapshot(
    options: CallOptions & { readonly atSeq?: number } = {},
  ): Promise<Plain<GetRunResponse>> {
    return this.#get(options, true);
  }

  /** The values of its artifacts by name. */
  async artifacts(
    options: CallOptions & { readonly atSeq?: number } = {},
  ): Promise<Readonly<{ [name: string]: ArtifactData }>> {
    return valuesOf(await this.snapshot(options));
  }

  /**
   * Emits an event of the current state; the graph resolves the successor. Reasons:
   * UNKNOWN_EVENT (see `allowed`), TURN_TOKEN_REQUIRED, SEQ_MISMATCH, RUN_TERMINAL,
   * PAUSED, UNDECLARED_ARTIFACT, ARTIFACT_TYPE, ARTIFACT_TOO_LARGE.
   */
  emit(
    event: string,
    options: WriteOptions & { readonly artifacts?: Artifacts } = {},
  ): Promise<Plain<EmitEventResponse>> {
    const request = {
      ...this.target,
      event,
      artifacts: writesOf(options.artifacts, options.slots),
      eventId: options.id ?? newId(),
      expectedSeq: BigInt(options.expectedSeq ?? 0),
      turnToken: options.turnToken ?? "",
    };
    const { runs } = this.connection;
    return this.connection.call(
      EmitEventResponseSchema,
      (rpc) => runs.emitEvent(request, rpc),
      options,
    );
  }

  /** Gives parts to the next turn of the visit; opens it if none is open. */
  sendInput(content: Content, options: WriteOptions = {}): Promise<Plain<SendInputResponse>> {
    const request = {
      ...this.target,
      parts: partsOf(content),
      messageId: options.id ?? newId(),
      expectedSeq: BigInt(options.expectedSeq ?? 0),
    };
    const { runs } = this.connection;
    return this.connection.call(
      SendInputResponseSchema,
      (rpc) => runs.sendInput(request, rpc),
      options,
    );
  }

  /** Writes artifacts without a transition. Authority as for `emit`. */
  setArtifacts(
    artifacts: Artifacts,
    options: WriteOptions = {},
  ): Promise<Plain<SetArtifactsResponse>> {
    const request = {
      ...this.target,
      artifacts: writesOf(artifacts, options.slots),
      writeId: options.id ?? newId(),
      expectedSeq: BigInt(options.expectedSeq ?? 0),
      turnToken: options.turnToken ?? "",
    };
    const { runs } = this.connection;
    return this.connection.call(
      SetArtifactsResponseSchema,
      (rpc) => runs.setArtifacts(request, rpc),
      options,
    );
  }

  /**
   * Waits until the run has ended, or (WaitUntil.WAITING) only something from outside
   * can move it. `waitMs` is the longest wait, at most 600 000; default 30 000.
   */
  wait(
    options: CallOptions & { readonly until?: WaitUntil; readonly waitMs?: number } = {},
  ): Promise<Plain<WaitRunResponse>> {
    const waitMs = options.waitMs ?? 30_000;
    const request = {
      ...this.target,
      until: options.until ?? WaitUntil.TERMINAL,
      timeout: {
        seconds: BigInt(Math.floor(waitMs / 1000)),
        nanos: Math.round((waitMs % 1000) * 1e6),
      },
    };
    const timeoutMs = options.timeoutMs ?? waitMs + this.connection.patience.timeoutMs;
    const { runs } = this.connection;
    return this.connection.call(WaitRunResponseSchema, (rpc) => runs.waitRun(request, rpc), {
      ...options,
      timeoutMs,
    });
  }

  /** Pauses the run. Reason: RUN_TERMINAL. */
  pause(note = "", options: IdOptions = {}): Promise<Plain<PauseRunResponse>> {
    const request = { ...this.target, note, requestId: options.id ?? newId() };
    const { runs } = this.connection;
    return this.connection.call(
      PauseRunResponseSchema,
      (rpc) => runs.pauseRun(request, rpc),
      options,
    );
  }

  /** Ends a pause. Reason: RUN_TERMINAL. */
  resume(note = "", options: IdOptions = {}): Promise<Plain<ResumeRunResponse>> {
    const request = { ...this.target, note, requestId: options.id ?? newId() };
    const { runs } = this.connection;
    return this.connection.call(
      ResumeRunResponseSchema,
      (rpc) => runs.resumeRun(request, rpc),
      options,
    );
  }

  /** Ends the run CANCELLED. Reason: RUN_TERMINAL. */
  cancel(note = "", options: IdOptions = {}): Promise<Plain<CancelRunResponse>> {
    const request = { ...this.target, note, requestId: options.id ?? newId() };
    const { runs } = this.connection;
    return this.connection.call(
      CancelRunResponseSchema,
      (rpc) => runs.cancelRun(request, rpc),
      options,
    );
  }

  /** The records that there are now, read page by page. */
  records(
    options: CallOptions & {
      readonly kinds?: readonly RecordKind[];
      readonly afterSeq?: number;
      readonly pageSize?: number;
    } = {},
  ): AsyncGenerator<Record, void, undefined> {
    const { runs } = this.connection;
    const request = {
      ...this.target,
      kinds: [...(options.kinds ?? [])],
      afterSeq: BigInt(options.afterSeq ?? 0),
      pageSize: options.pageSize ?? 0,
    };
    return pages(async (pageToken) => {
      const page = await this.connection.call(
        ListTransitionsResponseSchema,
        (rpc) => runs.listTransitions({ ...request, pageToken }, rpc),
        options,
      );
      return { items: page.records, next: page.nextPageToken };
    });
  }

  /**
   * Records from a seq on, each exactly once and in order, until the run ends.
   *
   * A lost connection is taken up again from the last record read, for up to
   * `reconnectForMs` without any progress; then a PawlError of kind "unavailable". A
   * record that is missing is one of kind "gap".
   */
  transitions(
    options: TransitionsOptions & { readonly afterSeq?: number } = {},
  ): AsyncGenerator<Record, void, undefined> {
    const position = new Position(this.id, BigInt(options.afterSeq ?? 0));
    const source = { namespace: this.connection.namespace, position };
    return follow(this.connection.runs, new TransitionsReader(source, options), options);
  }

  /**
   * The output of turns that workers have under way, piece by piece as it comes, until
   * the run ends. It is not durable: the final output is in the record TURN_COMPLETED. A
   * lost connection is taken up again where it was, as for `transitions`.
   *
   *     let text = "";
   *     for await (const chunk of run.output()) {
   *       text = (chunk.reset ? "" : text) + chunk.text;
   *     }
   */
  output(options: OutputOptions = {}): AsyncGenerator<OutputChunk, void, undefined> {
    return follow(this.connection.runs, new OutputReader(this.target, options), options);
  }

  #get(
    options: CallOptions & { readonly atSeq?: number },
    includeArtifacts: boolean,
  ): Promise<Plain<GetRunResponse>> {
    const request = { ...this.target, atSeq: BigInt(options.atSeq ?? 0), includeArtifacts };
    const { runs } = this.connection;
    return this.connection.call(GetRunResponseSchema, (rpc) => runs.getRun(request, rpc), options);
  }
}

/** Values of artifacts by name. */
export function valuesOf(
  snapshot: Plain<GetRunResponse>,
): Readonly<{ [name: string]: ArtifactData }> {
  return Object.fromEntries(
    snapshot.artifacts.map(({ head, value }) => [head?.name ?? "", value ?? null]),
  );
}
