/** Consumers: named readers of the records of all runs, whose cursors the sidecar stores. */

import type { Connection } from "./connection.js";
import { follow } from "./follow.js";
import {
  AckConsumerResponseSchema,
  DeleteConsumerResponseSchema,
  ListConsumersResponseSchema,
  type Consumer as WireConsumer,
} from "./gen/pawl/v1/delivery_pb.js";
import type { Plain } from "./plain_message.js";
import type { CallOptions } from "./retry.js";
import { StreamPosition } from "./stream_position.js";
import {
  type Record,
  type Source,
  type TransitionsOptions,
  TransitionsReader,
} from "./transitions.js";

/** A named reader of all runs. `cursor` is the position that it acknowledged last. */
export type Consumer = Plain<WireConsumer>;

/** Selects the records that a consumer reads. */
export interface ConsumeOptions extends TransitionsOptions {
  /** Selects runs. Default: all. */
  readonly filter?: Source["filter"];
  /**
   * True means that a new consumer begins after the newest record. Default false: at the first one.
   */
  readonly fromNow?: boolean;
}

/**
 * Iterates over the records after the acknowledged position; after a lost connection it continues
 * where it was.
 */
export function consume(
  connection: Connection,
  consumer: string,
  options: ConsumeOptions,
): AsyncGenerator<Record, void, undefined> {
  const { namespace, runs } = connection;
  const { filter, fromNow } = options;
  const source = { namespace, position: new StreamPosition(""), filter, fromNow, consumer };
  return follow(runs, new TransitionsReader(source, options), options);
}

/** Acknowledges all records of a consumer up to a cursor. */
export async function ackConsumer(
  connection: Connection,
  consumer: string,
  cursor: string,
  options: CallOptions,
): Promise<void> {
  const request = { namespace: connection.namespace, consumer, cursor };
  await connection.call(
    AckConsumerResponseSchema,
    (rpc) => connection.deliveries.ackConsumer(request, rpc),
    options,
  );
}

/** Returns the caller's consumers by name. */
export async function listConsumers(
  connection: Connection,
  options: CallOptions,
): Promise<readonly Consumer[]> {
  const request = { namespace: connection.namespace };
  const { consumers } = await connection.call(
    ListConsumersResponseSchema,
    (rpc) => connection.deliveries.listConsumers(request, rpc),
    options,
  );
  return consumers;
}

/** Deletes a consumer and ends its stream. */
export async function deleteConsumer(
  connection: Connection,
  consumer: string,
  options: CallOptions,
): Promise<void> {
  const request = { namespace: connection.namespace, consumer };
  await connection.call(
    DeleteConsumerResponseSchema,
    (rpc) => connection.deliveries.deleteConsumer(request, rpc),
    options,
  );
}
