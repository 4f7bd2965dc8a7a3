/** Tools that are typed: their arguments are checked before they are called. */

import { INVALID_ARGUMENTS, RESULT_INVALID } from "./errors.js";
import type { ToolHandler } from "./handlers.js";
import type { Json } from "./plain_message.js";
import { fitting, type StandardSchema } from "./standard_schema.js";

/** What a tool takes and gives, by schemas of zod or any other Standard Schema. */
export interface ToolSchemas<Arguments, Result = Json> {
  /** A payload that does not fit is the tool's error INVALID_ARGUMENTS. */
  readonly input: StandardSchema<unknown, Arguments>;
  /** A result that does not fit is the tool's error RESULT_INVALID. What it makes is told. */
  readonly output?: StandardSchema<Result, Json>;
}

/**
 * A tool that is called with what its schema makes of the payload, for `tools` of
 * `PawlClient.run`; `Worker.tool` takes the schemas themselves.
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
    // Without a schema of its own it is JSON, which is checked where it is sent.
    return output
      ? fitting(output, result, RESULT_INVALID, `result of tool ${call.tool}`)
      : (result as Json);
  };
}
