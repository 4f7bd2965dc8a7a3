/** The calls that the client for Node and the one for web pages share. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { timestampFromDate } from "@bufbuild/protobuf/wkt";
import type { Transport } from "@connectrpc/connect";
import { Connection, pages } from "./connection.js";
import {
  ackConsumer,
  type ConsumeOptions,
  type Consumer,
  consume,
  deleteConsumer,
  listConsumers,
} from "./consumers.js";
import { follow } from "./follow.js";
import {
  ListApprovalsResponseSchema,
  ListBudgetsResponseSchema,
  ListDecisionsResponseSchema,
  ListLimitsResponseSchema,
  ListSchedulesResponseSchema,
  QueryUsageResponseSchema,
  type Account as WireAccount,
  type Approval as WireApproval,
  type Decision as WireDecision,
  type Limit as WireLimit,
  type Schedule as WireSchedule,
  type UsageGroup as WireUsageGroup,
} from "./gen/pawl/v1/control_pb.js";
import {
  type GetPackGraphResponse,
  GetPackGraphResponseSchema,
  type GetPackResponse,
  GetPackResponseSchema,
  ListPacksResponseSchema,
  type Pack as WirePack,
} from "./gen/pawl/v1/pack_pb.js";
import type { RunStatus, StepVerdict } from "./gen/pawl/v1/record_pb.js";
import {
  CountRunsResponseSchema,
  type GetCallerResponse,
  GetCallerResponseSchema,
  ListRunsResponseSchema,
  type RunFilterSchema,
  RunOrder,
} from "./gen/pawl/v1/run_pb.js";
import type { Plain } from "./plain_message.js";
import type { CallOptions } from "./retry.js";
import type { RunInfo } from "./run_reader.js";
import { StreamPosition } from "./stream_position.js";
import { type Record, type TransitionsOptions, TransitionsReader } from "./transitions.js";

/** A registered pack without its document. */
export type Pack = Plain<WirePack>;

/** An open decision of a person: a held call, or a run that waits for an outside event. */
export type Approval = Plain<WireApproval>;

/** A decision about a held call, or the fact that there was none in time. */
export type Decision = Plain<WireDecision>;

/**
 * One of the operator's accounts: what all runs of a namespace with a label have reserved and
 * settled in a window. A limit of 0 means that there is none.
 */
export type Account = Plain<WireAccount>;

/** One of the operator's limits, with its current use. A limit of 0 means that there is none. */
export type Limit = Plain<WireLimit>;

/** One of the operator's schedules, which start runs at fixed times. */
export type Schedule = Plain<WireSchedule>;

/** Usage with the same values of the dimensions, in their order. Costs are in micro-dollars. */
export type UsageGroup = Plain<WireUsageGroup>;

/**
 * What runs have consumed: the groups, ordered by their values, and their sum. `complete` is false
 * if an older program created the store: usage before `since` is then missing or incomplete.
 */
export interface UsageReport {
  readonly groups: readonly UsageGroup[];
  readonly total: UsageGroup;
  readonly complete: boolean;
  readonly since: Date | undefined;
}

/**
 * Selects usage. `by` are the dimensions of the groups: day, namespace, pack, state, model, tool, or
 * label:KEY for a label that the operator names (`--usage-label`); default: day. `from` and `to` are
 * the first and the last day, YYYY-MM-DD in UTC; default: no bound. Of the others, undefined is any
 * value, and "" is usage without one.
 */
export interface UsageOptions extends CallOptions {
  readonly by?: readonly string[];
  readonly from?: string;
  readonly to?: string;
  readonly pack?: string;
  readonly state?: string;
  readonly model?: string;
  readonly tool?: string;
  readonly labels?: { readonly [key: string]: string };
}

/**
 * Selects runs that match all of its fields that are set.
 *
 *     const failed = client.listRuns({ pack: "my-pack", reason: "max_visits" });
 */
export type RunFilter = MessageInitShape<typeof RunFilterSchema>;

/** Reads packs and runs. */
export class BaseClient {
  protected readonly connection: Connection;

  constructor(
    transport: Transport,
    options: ConstructorParameters<typeof Connection>[1],
    driving?: Transport,
  ) {
    this.connection = new Connection(transport, options, driving);
  }

  /** Returns a registered pack by "id", "id@version" or digest. Reason: PACK_NOT_FOUND. */
  getPack(
    pack: string,
    options: CallOptions & { readonly includeContent?: boolean } = {},
  ): Promise<Plain<GetPackResponse>> {
    const { namespace, packs } = this.connection;
    const request = { namespace, pack, includeContent: options.includeContent ?? false };
    return this.connection.call(
      GetPackResponseSchema,
      (rpc) => packs.getPack(request, rpc),
      options,
    );
  }

  /** Iterates over all registered packs by id and version, `pageSize` of them per call. */
  listPacks(
    options: CallOptions & { readonly pageSize?: number } = {},
  ): AsyncGenerator<Pack, void, undefined> {
    const { namespace, packs } = this.connection;
    return pages(async (pageToken) => {
      const page = await this.connection.call(
        ListPacksResponseSchema,
        (rpc) => packs.listPacks({ namespace, pageSize: options.pageSize ?? 0, pageToken }, rpc),
        options,
      );
      return { items: page.packs, next: page.nextPageToken };
    });
  }

  /**
   * Returns the states and edges of one entry of a pack. `agent` is the key of a member; default:
   * the pack's own workflow. Reason: PACK_NOT_FOUND.
   */
  packGraph(
    pack: string,
    options: CallOptions & { readonly agent?: string } = {},
  ): Promise<Plain<GetPackGraphResponse>> {
    const { namespace, packs } = this.connection;
    const request = { namespace, pack, agent: options.agent ?? "" };
    return this.connection.call(
      GetPackGraphResponseSchema,
      (rpc) => packs.getPackGraph(request, rpc),
      options,
    );
  }

  /**
   * Iterates over all runs that match a filter, `pageSize` of them per call. Default order: newest
   * first.
   */
  listRuns(
    filter?: RunFilter,
    options: CallOptions & { readonly order?: RunOrder; readonly pageSize?: number } = {},
  ): AsyncGenerator<RunInfo, void, undefined> {
    const { namespace, runs } = this.connection;
    const order = options.order ?? RunOrder.NEWEST_FIRST;
    const request = { namespace, filter, order, pageSize: options.pageSize ?? 0 };
    return pages(async (pageToken) => {
      const page = await this.connection.call(
        ListRunsResponseSchema,
        (rpc) => runs.listRuns({ ...request, pageToken }, rpc),
        options,
      );
      return { items: page.runs, next: page.nextPageToken };
    });
  }

  /**
   * Iterates over all open decisions: held calls, which `RunHandle.decideStep` decides, and runs
   * that wait for an outside event. `runId` restricts them to one run. Default order: newest first.
   * With `linkFor`, a name such as "alice@example.com", each held call has a `link` with which this
   * person decides (scope steps:approve; LINKS_OFF if the operator has set no keys of links).
   */
  listApprovals(
    options: CallOptions & {
      readonly runId?: string;
      readonly order?: RunOrder;
      readonly pageSize?: number;
      readonly linkFor?: string;
    } = {},
  ): AsyncGenerator<Approval, void, undefined> {
    const { namespace, control } = this.connection;
    const order = options.order ?? RunOrder.NEWEST_FIRST;
    const request = {
      namespace,
      runId: options.runId ?? "",
      order,
      pageSize: options.pageSize ?? 0,
      linkFor: options.linkFor ?? "",
    };
    return pages(async (pageToken) => {
      const page = await this.connection.call(
        ListApprovalsResponseSchema,
        (rpc) => control.listApprovals({ ...request, pageToken }, rpc),
        options,
      );
      return { items: page.approvals, next: page.nextPageToken };
    });
  }

  /**
   * Iterates over the decisions about held calls, of all runs but imported ones, newest first:
   * `record` has the principal, the time and, in its body, the verdict and the reason; the call
   * waited since `since`. The options select; `from` is included, `to` is not. A recent `from` makes it fast in a
   * large store. Deleted runs are not in it: the audit log has their decisions. Scope runs:read,
   * runs:write or steps:approve.
   *
   * ```ts
   * const from = new Date(Date.now() - 24 * 3600 * 1000);
   * for await (const made of client.listDecisions({ from, verdicts: [StepVerdict.DENIED] })) {
   *   console.log(made.runId, made.record?.principal);
   * }
   * ```
   */
  listDecisions(
    options: CallOptions & {
      readonly runId?: string;
      readonly from?: Date;
      readonly to?: Date;
      readonly tool?: string;
      readonly principal?: string;
      readonly verdicts?: readonly StepVerdict[];
      readonly pack?: string;
      readonly labels?: { readonly [key: string]: string };
      readonly pageSize?: number;
    } = {},
  ): AsyncGenerator<Decision, void, undefined> {
    const { namespace, control } = this.connection;
    const request = {
      namespace,
      runId: options.runId ?? "",
      ...(options.from === undefined ? {} : { from: timestampFromDate(options.from) }),
      ...(options.to === undefined ? {} : { to: timestampFromDate(options.to) }),
      tool: options.tool ?? "",
      principal: options.principal ?? "",
      verdicts: [...(options.verdicts ?? [])],
      pack: options.pack ?? "",
      labels: { ...options.labels },
      pageSize: options.pageSize ?? 0,
    };
    return pages(async (pageToken) => {
      const page = await this.connection.call(
        ListDecisionsResponseSchema,
        (rpc) => control.listDecisions({ ...request, pageToken }, rpc),
        options,
      );
      return { items: page.decisions, next: page.nextPageToken };
    });
  }

  /**
   * Iterates over the operator's accounts over runs (`--budgets`) by name. Each has what is
   * settled, reserved and refused, the limit, and the end of the window. The call changes no
   * account. Scope runs:read.
   *
   *     for await (const account of client.listBudgets({ namePrefix: "tenant=acme/" })) {
   *       const { settledCostMicroUsd, reservedCostMicroUsd, maxCostMicroUsd } = account;
   *       console.log(account.name, maxCostMicroUsd - settledCostMicroUsd - reservedCostMicroUsd);
   *     }
   */
  listBudgets(
    options: CallOptions & { readonly namePrefix?: string; readonly pageSize?: number } = {},
  ): AsyncGenerator<Account, void, undefined> {
    const { namespace, control } = this.connection;
    const { namePrefix = "", pageSize = 0 } = options;
    return pages(async (pageToken) => {
      const page = await this.connection.call(
        ListBudgetsResponseSchema,
        (rpc) => control.listBudgets({ namespace, namePrefix, pageSize, pageToken }, rpc),
        options,
      );
      return { items: page.accounts, next: page.nextPageToken };
    });
  }

  /**
   * Returns what the runs of the namespace have consumed, also runs that were deleted. The sums are
   * exactly what the operator's accounts count. Scope runs:read or runs:write. Errors: BAD_DAY,
   * BAD_DIMENSION, USAGE_TOO_LARGE.
   *
   *     const { groups } = await client.usage({ by: ["day", "model"], from: "2026-11-01" });
   *     console.log(groups.map(({ values, costMicroUsd }) => [...values, costMicroUsd]));
   */
  async usage(options: UsageOptions = {}): Promise<UsageReport> {
    const { namespace, control } = this.connection;
    const { by = ["day"], from, to, pack, state, model, tool, labels } = options;
    const request = {
      namespace,
      groupBy: [...by],
      fromDay: from ?? "",
      toDay: to ?? "",
      ...(pack === undefined ? {} : { pack }),
      ...(state === undefined ? {} : { state }),
      ...(model === undefined ? {} : { model }),
      ...(tool === undefined ? {} : { tool }),
      labels: { ...labels },
      pageSize: 1000,
    };
    const groups: UsageGroup[] = [];
    for (let pageToken = ""; ; ) {
      const page = await this.connection.call(
        QueryUsageResponseSchema,
        (rpc) => control.queryUsage({ ...request, pageToken }, rpc),
        options,
      );
      groups.push(...page.groups);
      pageToken = page.nextPageToken;
      if (pageToken === "") {
        const { complete, since } = page;
        const none = { values: [], inputTokens: 0, outputTokens: 0, costMicroUsd: 0, reports: 0 };
        return { groups, total: page.total ?? none, complete, since };
      }
    }
  }

  /**
   * Returns the current use of the operator's limits (`--limits`), of all namespaces, in the order
   * of the file. Scope store:read.
   *
   *     const [first] = await client.listLimits();
   *     console.log(first?.id, first?.uses.map(({ key, open, waiting }) => [key, open, waiting]));
   */
  async listLimits(options: CallOptions = {}): Promise<readonly Limit[]> {
    const { control } = this.connection;
    const { limits } = await this.connection.call(
      ListLimitsResponseSchema,
      (rpc) => control.listLimits({}, rpc),
      options,
    );
    return limits;
  }

  /**
   * Returns the operator's schedules (`--schedules`) by id, each with its next instants, its newest
   * run and its fault. Scope runs:read.
   *
   *     for (const { scheduleId, next, fault } of await client.listSchedules()) {
   *       console.log(scheduleId, next[0], fault?.message);
   *     }
   */
  async listSchedules(options: CallOptions = {}): Promise<readonly Schedule[]> {
    const { namespace, control } = this.connection;
    const { schedules } = await this.connection.call(
      ListSchedulesResponseSchema,
      (rpc) => control.listSchedules({ namespace }, rpc),
      options,
    );
    return schedules;
  }

  /** Returns the number of runs of each status, 0 included. */
  async countRuns(options: CallOptions = {}): Promise<ReadonlyMap<RunStatus, number>> {
    const { namespace, runs } = this.connection;
    const { counts } = await this.connection.call(
      CountRunsResponseSchema,
      (rpc) => runs.countRuns({ namespace }, rpc),
      options,
    );
    return new Map(counts.map(({ status, runs }) => [status, runs]));
  }

  /** Returns the caller's principal and scopes, as the sidecar sees them. */
  caller(options: CallOptions = {}): Promise<Plain<GetCallerResponse>> {
    const { namespace, runs } = this.connection;
    return this.connection.call(
      GetCallerResponseSchema,
      (rpc) => runs.getCaller({ namespace }, rpc),
      options,
    );
  }

  /**
   * Iterates over records of all runs that match a filter, in journal order. It begins after the
   * record with the cursor `afterCursor` (`Record.cursor`), or with `fromNow` after the newest
   * record. With `follow` it does not end by itself. Other options and errors: those of
   * `Run.transitions`.
   */
  transitions(
    filter?: RunFilter,
    options: TransitionsOptions & {
      readonly afterCursor?: string;
      readonly fromNow?: boolean;
    } = {},
  ): AsyncGenerator<Record, void, undefined> {
    const position = new StreamPosition("", 0n, options.afterCursor ?? "");
    const { fromNow } = options;
    const source = { namespace: this.connection.namespace, position, filter, fromNow };
    return follow(this.connection.runs, new TransitionsReader(source, options), options);
  }

  /**
   * Iterates over records of all runs, after those that this consumer acknowledged with `ack`.
   * `consumer` is a name; its first stream creates the consumer. The next process receives again
   * what was read but not acknowledged. A newer stream of the same consumer ends this one. Reasons:
   * CONSUMER_TAKEN, CONSUMER_REPLACED, CONSUMER_NOT_FOUND, CONSUMER_EXPIRED, MAX_CONSUMERS.
   */
  consume(consumer: string, options: ConsumeOptions = {}): AsyncGenerator<Record, void, undefined> {
    return consume(this.connection, consumer, options);
  }

  /**
   * Acknowledges all records of a consumer up to one, which is a record or its cursor. Reasons:
   * CONSUMER_NOT_FOUND, CONSUMER_EXPIRED, CURSOR_BEHIND, CURSOR_AHEAD, CURSOR_FOREIGN.
   */
  ack(
    consumer: string,
    to: string | Pick<Record, "cursor">,
    options: CallOptions = {},
  ): Promise<void> {
    const cursor = typeof to === "string" ? to : to.cursor;
    return ackConsumer(this.connection, consumer, cursor, options);
  }

  /** Returns the caller's consumers by name; with the scope admin those of all principals. */
  listConsumers(options: CallOptions = {}): Promise<readonly Consumer[]> {
    return listConsumers(this.connection, options);
  }

  /** Deletes a consumer and ends its stream. Reason: CONSUMER_NOT_FOUND. */
  deleteConsumer(consumer: string, options: CallOptions = {}): Promise<void> {
    return deleteConsumer(this.connection, consumer, options);
  }
}
