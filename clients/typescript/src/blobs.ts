/** Large content that is stored beside the runs, addressed by the digest of its bytes. */

import { createHash } from "node:crypto";
import type { Connection } from "./connection.js";
import { PawlError } from "./errors.js";
import { attempt, type CallOptions, newId } from "./retry.js";

/** A stored blob. */
export interface BlobHead {
  /** "blob:sha256:<64 hex>"; write it into an artifact or a tool's result. */
  readonly ref: string;
  /** Size in bytes. */
  readonly size: number;
  /** True means that the same bytes were stored before. */
  readonly duplicate: boolean;
}

/** A blob that was downloaded. */
export interface BlobContent {
  readonly data: Uint8Array;
  /** Media type that the first upload of these bytes named; may be empty. */
  readonly mediaType: string;
}

/** Size of one piece in bytes; the contract accepts up to 1 MiB. */
const PIECE_BYTES = 512 * 1024;

/**
 * Returns the reference of some bytes, which `putBlob` returns for them as well.
 *
 *     const known = await client.getBlob(blobRef(bytes)).catch(() => undefined);
 */
export function blobRef(data: Uint8Array): string {
  return `blob:sha256:${createHash("sha256").update(data).digest("hex")}`;
}

/** Stores a blob; an upload that loses its connection continues from the server's position. */
export async function putBlob(
  connection: Connection,
  data: Uint8Array,
  options: CallOptions & { readonly mediaType?: string },
): Promise<BlobHead> {
  const { namespace, runs, retryWindow } = connection;
  const upload = {
    namespace,
    uploadId: newId(),
    mediaType: options.mediaType ?? "",
    blobRef: blobRef(data),
  };
  let started = false;
  const stored = await attempt(
    async (rpc) => {
      const known = started ? await runs.putBlob(one({ ...upload }), rpc) : undefined;
      started = true;
      return known?.blobRef
        ? known
        : runs.putBlob(pieces(upload, data, Number(known?.size ?? 0)), rpc);
    },
    retryWindow,
    options,
  );
  return { ref: stored.blobRef, size: Number(stored.size), duplicate: stored.duplicate };
}

async function* one<T>(item: T): AsyncGenerator<T, void, undefined> {
  yield item;
}

async function* pieces<T extends object>(upload: T, data: Uint8Array, from: number) {
  let offset = from;
  do {
    const piece = data.subarray(offset, offset + PIECE_BYTES);
    const last = offset + piece.length >= data.length;
    yield { ...upload, offset: BigInt(offset), data: piece, last };
    offset += piece.length;
  } while (offset < data.length);
}

/** Reads a whole blob, over as many connections as it takes, and checks its digest. */
export async function getBlob(
  connection: Connection,
  ref: string,
  options: CallOptions,
): Promise<BlobContent> {
  const { namespace, runs, retryWindow } = connection;
  const read: Uint8Array[] = [];
  let size = 0;
  let mediaType = "";
  await attempt(
    async (rpc) => {
      for await (const piece of runs.getBlob(
        { namespace, blobRef: ref, offset: BigInt(size) },
        rpc,
      )) {
        read.push(piece.data);
        size += piece.data.length;
        mediaType = piece.mediaType || mediaType;
      }
    },
    retryWindow,
    options,
  );
  const data = Buffer.concat(read, size);
  if (blobRef(data) !== ref) {
    throw new PawlError("server", `${ref}: the received data has another digest`, {
      reason: "BLOB_DIGEST",
    });
  }
  return { data: new Uint8Array(data.buffer, data.byteOffset, data.byteLength), mediaType };
}
