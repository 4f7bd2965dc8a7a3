/** Reads one run. */

import { type Connection, pages } from "./connection.js";
import { EventReader, type EventsOptions, historyOf } from "./event_reader.js";
import { follow } from "./follow.js";
import type { RecordKind } from "./gen/pawl/v1/record_pb.js";
import {
  GetModelStepResponseSchema,
  type GetRunResponse,
  GetRunResponseSchema,
  ListTransitionsResponseSchema,
  ShowTurnResponseSchema,
  type WaitRunResponse,
  WaitRunResponseSchema,
  WaitUntil,
  type Run as WireRun,
} from "./gen/pawl/v1/run_pb.js";
import type { ModelView } from "./model_step.js";
import type { ArtifactData, Plain } from "./plain_message.js";
import { INSPECT, type Inspect } from "./printable.js";
import type { CallOptions } from "./retry.js";
import type { HistoryMessage, RunEvent } from "./run_events.js";
import { StreamPosition } from "./stream_position.js";
import { type Record, type TransitionsOptions, TransitionsReader } from "./transitions.js";
import type { TurnInfo } from "./turn.js";
import type { AnyPack, PackTypes, Values } from "./types.js";

/** A run without bodies of artifacts, messages or answers. */
export type RunInfo = Plain<WireRun>;

/** A run by its id, read only. It holds no state: each method makes a call. */
export class RunReader<P extends PackTypes = AnyPack> {
  protected readonly connection: Connection;
  /** Id of the run, a ULID. */
  readonly id: string;

  constructor(connection: Connection, id: string) {
    this.connection = connection;
    this.id = id;
  }

  /** Returns the run in a form for JSON: its id. */
  toJSON(): { readonly id: string } {
    return { id: this.id };
  }

  /** Returns the run as `console.log` shows it. */
  [INSPECT](_depth: number, options: unknown, inspect: Inspect): string {
    return `Run ${inspect(this.toJSON(), options)}`;
  }

  protected get target(): { namespace: string; runId: string } {
    return { namespace: this.connection.namespace, runId: this.id };
  }

  /**
   * Returns the run as it is, or as it was at a record. Reasons: RUN_NOT_FOUND, RECORD_NOT_FOUND.
   */
  async info(options: CallOptions & { readonly atSeq?: number } = {}): Promise<RunInfo> {
    return (await this.#get(options)).run as RunInfo;
  }

  /**
   * Returns the run with the values of its artifacts, its current budgets and the id that its
   * starter gave it. With `includeVariables` the answer also has the variables and the goal of its
   * start.
   */
  snapshot(
    options: CallOptions & { readonly atSeq?: number; readonly includeVariables?: boolean } = {},
  ): Promise<Plain<GetRunResponse>> {
    const { includeVariables = false } = options;
    return this.#get(options, { includeArtifacts: true, includeVariables });
  }

  /** Returns the values of the artifacts by name. */
  async artifacts(
    options: CallOptions & { readonly atSeq?: number } = {},
  ): Promise<Values<P["artifacts"]>> {
    return valuesOf(await this.snapshot(options)) as Values<P["artifacts"]>;
  }

  /** Returns the variables of the run's start by name, with defaults. */
  async variables(options: CallOptions = {}): Promise<P["variables"]> {
    const { variables } = await this.#get(options, { includeVariables: true });
    return (variables ?? {}) as P["variables"];
  }

  /**
   * Returns a turn as it was when the record `turnSeq` opened it; the turn may be over or held by a
   * worker. The call creates and fences no token. Reasons: RECORD_NOT_FOUND, NO_OPEN_TURN (the
   * record opened no turn).
   */
  async showTurn(turnSeq: number, options: CallOptions = {}): Promise<TurnInfo> {
    const { runs } = this.connection;
    const request = { ...this.target, turnSeq: BigInt(turnSeq) };
    const { turn } = await this.connection.call(
      ShowTurnResponseSchema,
      (rpc) => runs.showTurn(request, rpc),
      options,
    );
    return turn as TurnInfo;
  }

  /**
   * Returns the request of a MODEL step of any visit, with every reference resolved, and its
   * answer. Reasons: STEP_NOT_FOUND, STEP_KIND.
   */
  modelStep(step: number, options: CallOptions = {}): Promise<ModelView> {
    const { runs } = this.connection;
    const request = { ...this.target, step };
    return this.connection.call(
      GetModelStepResponseSchema,
      (rpc) => runs.getModelStep(request, rpc),
      options,
    );
  }

  /**
   * Waits until the run has ended, or with WaitUntil.WAITING until only an outside input can move
   * it. `waitMs` is the longest wait in milliseconds, at most 600 000; default 30 000.
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
    const timeoutMs = options.timeoutMs ?? waitMs + this.connection.retryWindow.timeoutMs;
    const { runs } = this.connection;
    return this.connection.call(WaitRunResponseSchema, (rpc) => runs.waitRun(request, rpc), {
      ...options,
      timeoutMs,
    });
  }

  /**
   * Iterates over the records that exist now, `pageSize` of them per call. `kinds` selects them;
   * default: only TRANSITION and ENDED.
   *
   *     for await (const record of run.records({ kinds: [RecordKind.STEP_RESOLVED] })) {
   *       console.log(record.seq, record.body.case);
   *     }
   */
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
   * Iterates over records after a seq, each exactly once and in order, until the run ends.
   *
   * After a lost connection it reconnects and continues, for up to `reconnectForMs` milliseconds
   * without progress. It then throws a PawlError of kind "unavailable"; for a missing record one of
   * kind "gap".
   */
  transitions(
    options: TransitionsOptions & { readonly afterSeq?: number } = {},
  ): AsyncGenerator<Record, void, undefined> {
    const position = new StreamPosition(this.id, BigInt(options.afterSeq ?? 0));
    const source = { namespace: this.connection.namespace, position };
    return follow(this.connection.runs, new TransitionsReader(source, options), options);
  }

  /**
   * Iterates over the events of the run: text, tool calls, transitions, waits, the end. They are
   * the same for a run that this process drives, that others drive, or that has ended. Readers that
   * come later receive the text turn by turn, and no reasoning.
   *
   *     for await (const event of run.events()) {
   *       if (event.kind === "text") process.stdout.write(event.text);
   *     }
   *
   * `after` is the `cursor` of the last event that the program has processed; it then receives each
   * later event exactly once. The iteration ends with the run; with `follow: false` at the newest
   * record. After a lost connection it reconnects, as `transitions` does. A slow reader delays
   * nothing: the sidecar keeps what it has not read, of the open turn at least the last 256 KiB of
   * text. A reader that missed more receives a ResetEvent. Reasons: RUN_NOT_FOUND, BAD_CURSOR.
   */
  async *events(options: EventsOptions = {}): AsyncGenerator<RunEvent, void, undefined> {
    const reader = new EventReader(this.target, options);
    for await (const events of follow(this.connection.runs, reader, options)) {
      yield* events;
    }
  }

  /**
   * Returns the run's history so far as messages, oldest first: inputs, answers of models with
   * their calls, and the results of the calls. Reason: RUN_NOT_FOUND.
   */
  messages(options: CallOptions = {}): Promise<HistoryMessage[]> {
    return historyOf(this.events({ ...options, follow: false }));
  }

  #get(
    options: CallOptions & { readonly atSeq?: number },
    what: { readonly includeArtifacts?: boolean; readonly includeVariables?: boolean } = {},
  ): Promise<Plain<GetRunResponse>> {
    const request = { ...this.target, atSeq: BigInt(options.atSeq ?? 0), ...what };
    const { runs } = this.connection;
    return this.connection.call(GetRunResponseSchema, (rpc) => runs.getRun(request, rpc), options);
  }
}

/** Returns the values of artifacts by name. */
export function valuesOf(
  snapshot: Plain<GetRunResponse>,
): Readonly<{ [name: string]: ArtifactData }> {
  return Object.fromEntries(
    snapshot.artifacts.map(({ head, value }) => [head?.name ?? "", value ?? null]),
  );
}
