/** Blobs through a real sidecar. */

import { describe, expect, test } from "vitest";
import { blobRef } from "./blobs.js";
import { useSidecar } from "./fixture.js";
import { Cuttable } from "./fixture_cuttable.js";
import { PawlClient } from "./index.js";

const shared = useSidecar();

function bytes(length: number, seed: number): Uint8Array {
  return Uint8Array.from({ length }, (_, index) => (index * 31 + seed + (index >> 8)) & 0xff);
}

describe("a blob", () => {
  test.each([[0], [1], [512 * 1024], [1_300_000]])("of %i bytes comes back", async (length) => {
    const data = bytes(length, length);
    const put = await shared.client.putBlob(data, { mediaType: "image/png" });
    expect(put).toEqual({ ref: blobRef(data), size: length, duplicate: false });
    expect((await shared.client.putBlob(data)).duplicate).toBe(true);
    const got = await shared.client.getBlob(put.ref);
    expect(got.mediaType).toBe("image/png");
    expect(Buffer.compare(got.data, data)).toBe(0);
  });

  test("of text is its UTF-8", async () => {
    const { ref } = await shared.client.putBlob("ä");
    expect((await shared.client.getBlob(ref)).data).toEqual(Uint8Array.of(0xc3, 0xa4));
  });

  test("that is not there is not found; a bad reference is named", async () => {
    const missing = blobRef(bytes(3, 77));
    await expect(shared.client.getBlob(missing)).rejects.toMatchObject({ kind: "not_found" });
    await expect(shared.client.getBlob("blob:x")).rejects.toMatchObject({
      reason: "INVALID_REQUEST",
      field: "blob_ref",
    });
  });

  test("is stored over a connection that is cut in its midst", async () => {
    const transport = new Cuttable(shared.sidecar.address);
    const client = new PawlClient({ address: await transport.listen() });
    const data = bytes(3_000_000, 5);
    transport.cutAfter = 1_500_000;
    try {
      const { ref, size } = await client.putBlob(data);
      expect([ref, size, transport.cuts]).toEqual([blobRef(data), data.length, 1]);
      expect(Buffer.compare((await client.getBlob(ref)).data, data)).toBe(0);
    } finally {
      client.close();
      transport.close();
    }
  });

  test("is not sent after a signal", async () => {
    const signal = AbortSignal.abort();
    await expect(shared.client.putBlob("x", { signal })).rejects.toMatchObject({
      kind: "cancelled",
    });
  });
});
