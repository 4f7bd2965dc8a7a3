/** What a client on a server and one in a browser have in common. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import type { Transport } from "@connectrpc/connect";
import { type ClientOptions, Connection, pages } from "./connection.js";
import { follow } from "./follow.js";
import {
  type GetPackGraphResponse,
  GetPackGraphResponseSchema,
  type GetPackResponse,
  GetPackResponseSchema,
  ListPacksResponseSchema,
  type Pack as WirePack,
} from "./gen/pawl/v1/pack_pb.js";
import { ListRunsResponseSchema, type RunFilterSchema, RunOrder } from "./gen/pawl/v1/run_pb.js";
import type { Plain } from "./plain.js";
import { Position } from "./position.js";
import type { CallOptions } from "./retry.js";
import type { RunInfo } from "./run_handle.js";
import { type Record, type TransitionsOptions, TransitionsReader } from "./transitions.js";

/** A registered pack without its document. */
export type Pack = Plain<WirePack>;

/** Selects runs; all fields that are set must hold. */
export type RunFilter = MessageInitShape<typeof RunFilterSchema>;

/** Reading packs and runs. */
export class BaseClient {
  protected readonly connection: Connection;

  constructor(transport: Transport, options: ClientOptions) {
    this.connection = new Connection(transport, options);
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
   * Records of all runs under a filter, in the order of the journal. As
   * `Run.transitions`, but from a cursor (`Record.cursor`). With `follow` it never ends
   * by itself.
   */
  transitions(
    filter?: RunFilter,
    options: TransitionsOptions & { readonly afterCursor?: string } = {},
  ): AsyncGenerator<Record, void, undefined> {
    const position = new Position("", 0n, options.afterCursor ?? "");
    const source = { namespace: this.connection.namespace, position, filter };
    return follow(this.connection.runs, new TransitionsReader(source, options), options);
  }
}
