/** Where those that a tool calls look for the key of the call. */

type Keyed = { readonly idempotencyKey: string };

/** The HTTP header by which services know a repeated request. */
export const callHeaders = ({ idempotencyKey }: Keyed): Record<string, string> => ({
  "Idempotency-Key": idempotencyKey,
});

/** The same for the `_meta` of an MCP server's tools/call. */
export const callMeta = ({ idempotencyKey }: Keyed): Record<string, string> => ({
  "dev.pawl/idempotency-key": idempotencyKey,
});
