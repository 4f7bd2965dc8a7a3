/**
 * Turns executed by Anthropic's Messages, with the package `@anthropic-ai/sdk` (an optional
 * peer dependency: `npm install @anthropic-ai/sdk`). All else is as in `@pawl/client/openai`.
 *
 *     import Anthropic from "@anthropic-ai/sdk";
 *     import { PawlClient } from "@pawl/client";
 *     import { messagesHandler } from "@pawl/client/anthropic";
 *
 *     using client = new PawlClient();
 *     const handler = messagesHandler(new Anthropic(), { model: "claude-sonnet-4-5" });
 *     await client.run("my-pack", handler, { tools: { run_tests: () => ({ passed: true }) } });
 */

import type Anthropic from "@anthropic-ai/sdk";
import { MessagesDialect } from "./messages_dialect.js";
import { type ModelOptions, modelHandler } from "./model_handler.js";
import type { UntypedHandler } from "./turn.js";

export type { ModelOptions } from "./model_handler.js";

/**
 * A turn handler that asks a model by Messages. `endpoint` holds the address, the key, and how
 * often the package itself repeats (`maxRetries`). Where the pack has no `max_tokens` it is
 * 4096. Codes and the rest are as for `chatHandler`.
 *
 *     worker.prompt("coder", messagesHandler(new Anthropic(), { model: "claude-sonnet-4-5" }));
 */
export function messagesHandler(endpoint: Anthropic, options: ModelOptions): UntypedHandler {
  return modelHandler(new MessagesDialect(endpoint), options);
}
