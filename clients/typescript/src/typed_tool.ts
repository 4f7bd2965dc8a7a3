/** Typed tools, whose arguments are checked before they are called. */

import { INVALID_ARGUMENTS, RESULT_INVALID } from "./errors.js";
import type { ToolHandler } from "./handlers.js";
import type { Json } from "./plain_message.js";
import { fitting, type StandardSchema } from "./standard_schema.js";

/** Schemas of a tool's arguments and result, of zod or another Standard Schema. */
export interface ToolSchemas<Arguments, Result = Json> {
  /** Schema of the arguments. A payload that does not fit is the tool's error INVALID_ARGUMENTS. */
  readonly input: StandardSchema<unknown, Arguments>;
  /**
   * Schema of the result, which may convert it. A result that does not fit is the tool's error
   * RESULT_INVALID. Default: any JSON.
   */
  readonly output?: StandardSchema<Result, Json>;
}

/**
 * Returns a tool that is called with the payload as its schema converts it, for `tools` of
 * `PawlClient.run`; `Worker.tool` accepts the schemas themselves.
 *
 *     const input = z.object({ a: z.number(), b: z.number() });
 *     const add = pawl.typedTool({ input }, ({ a, b }) => a + b);
 *     await client.run("my-pack", () => ({ event: "Done" }), { tools: { add } });
 */
export function typedTool<Arguments, Result = Json>(
  schemas: ToolSchemas<Arguments, Result>,
  handler: ToolHandler<Arguments, NoInfer<Result>>,
): ToolHandler<Json, Json> {
  const { input, output } = schemas;
  return async (payload, call) => {
    const what = `arguments of tool ${call.tool}`;
    const given = await fitting(input, payload, INVALID_ARGUMENTS, what);
    const result = await handler(given, call);
    // Without a schema the result is JSON, which is checked when it is sent.
    return output
      ? fitting(output, result, RESULT_INVALID, `result of tool ${call.tool}`)
      : (result as Json);
  };
}
