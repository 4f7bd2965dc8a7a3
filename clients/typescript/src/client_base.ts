/** What a client on a server and one in a browser have in common. */

import type { MessageInitShape } from "@bufbuild/protobuf";
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
  ListLimitsResponseSchema,
  ListSchedulesResponseSchema,
  type Account as WireAccount,
  type Approval as WireApproval,
  type Limit as WireLimit,
  type Schedule as WireSchedule,
} from "./gen/pawl/v1/control_pb.js";
import {
  type GetPackGraphResponse,
  GetPackGraphResponseSchema,
  type GetPackResponse,
  GetPackResponseSchema,
  ListPacksResponseSchema,
  type Pack as WirePack,
} from "./gen/pawl/v1/pack_pb.js";
import type { RunStatus } from "./gen/pawl/v1/record_pb.js";
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

/** One thing that waits for a person: a held call, or an event from outside. */
export type Approval = Plain<WireApproval>;

/**
 * What all runs of a namespace with a label have reserved and settled in a window, one of the
 * operator's accounts. A limit of 0: there is none.
 */
export type Account = Plain<WireAccount>;

/** An entry of the operator's limits, with what is counted of it now. 0: any number. */
export type Limit = Plain<WireLimit>;

/** An entry of the operator's schedules: runs that begin by the clock. */
export type Schedule = Plain<WireSchedule>;

/**
 * Selects runs; all fields that are set must hold.
 *
 *     const failed = client.listRuns({ pack: "my-pack", reason: "max_visits" });
 */
export type RunFilter = MessageInitShape<typeof RunFilterSchema>;

/** Reading packs and runs. */
export class BaseClient {
  protected readonly connection: Connection;

  constructor(
    transport: Transport,
    options: ConstructorParameters<typeof Connection>[1],
    driving?: Transport,
  ) {
    this.connection = new Connection(transport, options, driving);
  }

  /** A registered pack by "id", "id@version" or digest. Reason: PACK_NOT_FOUND. */
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

  /** All registered packs by id and version, read page by page. */
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

  /** States and edges of one entry of a pack. */
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

  /** All runs under a filter, read page by page. Default: newest first. */
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
   * All that waits for a person, read page by page: held calls, which `RunHandle.decideStep`
   * decides about, and runs that an event from outside moves. Default: newest first.
   */
  listApprovals(
    options: CallOptions & {
      readonly runId?: string;
      readonly order?: RunOrder;
      readonly pageSize?: number;
    } = {},
  ): AsyncGenerator<Approval, void, undefined> {
    const { namespace, control } = this.connection;
    const order = options.order ?? RunOrder.NEWEST_FIRST;
    const request = {
      namespace,
      runId: options.runId ?? "",
      order,
      pageSize: options.pageSize ?? 0,
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
   * The operator's accounts over runs (`--budgets`) by name, read page by page: settled,
   * reserved and refused, the limit, and when the window ends. Read only. Scope
   * runs:read.
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
   * What the operator's limits (`--limits`) count now, in all namespaces, in the order of the
   * file. Scope store:read.
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
   * The operator's schedules (`--schedules`) by id: their next instants, the newest run, and
   * what is wrong. Scope runs:read.
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

  /** How many runs there are of each status, statuses without runs included. */
  async countRuns(options: CallOptions = {}): Promise<ReadonlyMap<RunStatus, number>> {
    const { namespace, runs } = this.connection;
    const { counts } = await this.connection.call(
      CountRunsResponseSchema,
      (rpc) => runs.countRuns({ namespace }, rpc),
      options,
    );
    return new Map(counts.map(({ status, runs }) => [status, runs]));
  }

  /** The caller's principal and scopes, as the sidecar sees them. */
  caller(options: CallOptions = {}): Promise<Plain<GetCallerResponse>> {
    const { namespace, runs } = this.connection;
    return this.connection.call(
      GetCallerResponseSchema,
      (rpc) => runs.getCaller({ namespace }, rpc),
      options,
    );
  }

  /**
   * Records of all runs under a filter, in the order of the journal. As
   * `Run.transitions`, but from a cursor (`Record.cursor`), or with `fromNow` behind the
   * newest record. With `follow` it never ends by itself.
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
   * Records of all runs behind what this consumer has acknowledged with `ack`. `consumer`
   * is a name; its first stream makes it. What was read and not acknowledged comes again
   * in the next process. A newer stream of the same consumer ends this one. Reasons:
   * CONSUMER_TAKEN, CONSUMER_REPLACED, CONSUMER_NOT_FOUND, CONSUMER_EXPIRED, MAX_CONSUMERS.
   */
  consume(consumer: string, options: ConsumeOptions = {}): AsyncGenerator<Record, void, undefined> {
    return consume(this.connection, consumer, options);
  }

  /**
   * Stores that a consumer has worked off all up to a record, or its cursor. Reasons:
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

  /** The caller's consumers by name; with admin everyone's. */
  listConsumers(options: CallOptions = {}): Promise<readonly Consumer[]> {
    return listConsumers(this.connection, options);
  }

  /** Forgets a consumer and ends its stream. Reason: CONSUMER_NOT_FOUND. */
  deleteConsumer(consumer: string, options: CallOptions = {}): Promise<void> {
    return deleteConsumer(this.connection, consumer, options);
  }
}
