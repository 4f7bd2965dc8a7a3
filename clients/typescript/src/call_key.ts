/** Passes the key of a tool call on to the services that the tool calls. */

type Keyed = { readonly idempotencyKey: string };

/**
 * Returns the HTTP header by which a service recognizes a repeated request.
 *
 *     worker.tool("pay", async (payload, call) => {
 *       const headers = { "Content-Type": "application/json", ...pawl.callHeaders(call) };
 *       const body = JSON.stringify(payload);
 *       const answer = await fetch("https://shop.example/charges", { method: "POST", headers, body });
 *       return { status: answer.status };
 *     });
 */
export const callHeaders = ({ idempotencyKey }: Keyed): Record<string, string> => ({
  "Idempotency-Key": idempotencyKey,
});

/**
 * Returns the same key for the `_meta` of a tools/call of an MCP server.
 *
 *     worker.tool("pay", async (payload, call) => {
 *       const params = { name: "pay", arguments: payload, _meta: pawl.callMeta(call) };
 *       const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params });
 *       const answer = await fetch("https://shop.example/mcp", { method: "POST", body });
 *       return { status: answer.status };
 *     });
 */
export const callMeta = ({ idempotencyKey }: Keyed): Record<string, string> => ({
  "dev.pawl/idempotency-key": idempotencyKey,
});
