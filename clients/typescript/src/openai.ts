/**
 * Turns executed by any OpenAI-compatible endpoint, with the package `openai` (an
 * optional peer dependency: `npm install openai`).
 *
 *     import OpenAI from "openai";
 *     import { PawlClient } from "@pawl/client";
 *     import { chatHandler } from "@pawl/client/openai";
 *
 *     using client = new PawlClient();
 *     const handler = chatHandler(new OpenAI(), { model: "gpt-5-mini" });
 *     await client.run("my-pack", handler, { tools: { run_tests: () => ({ passed: true }) } });
 *
 * A handler is for `PawlClient.run` and for workers alike. The model gets the rendered
 * system prompt, the conversation and the prompt's tools, each of which is a durable
 * step. It leaves the state by calling one function whose enum is the state's allowed
 * events and whose arguments carry the artifacts; nothing else can move the run.
 *
 * Each answer of the model is a record: a turn that is executed again, after whatever loss,
 * is answered from the record, and asks only what was not answered.
 */

import type OpenAI from "openai";
import { ChatDialect } from "./chat_dialect.js";
import { type ModelOptions, modelHandler } from "./model_handler.js";
import { ResponsesDialect } from "./responses_dialect.js";
import type { UntypedHandler } from "./turn.js";

/** How a turn is executed by a chat model. */
export type ChatOptions = ModelOptions;

/**
 * A turn handler that asks a chat model. `endpoint` holds the address, the key, and how
 * often the package itself repeats (`maxRetries`).
 *
 * A call of the model that fails is made again as the pack says, by one of these codes:
 * REFUSED, CONTENT_FILTER, TRUNCATED, STREAM_TRUNCATED, ANSWER_INVALID, MODEL_RATE_LIMITED,
 * MODEL_UNREACHABLE, MODEL_TIMEOUT, MODEL_ERROR, and MODEL_<HTTP status>. Below 500 a status
 * fails the turn for good, but for 408, 409, 425 and 429; so do MEDIA_UNSUPPORTED,
 * PARAMETER_UNSUPPORTED, OVERRIDE_UNSUPPORTED and ANSWER_TOO_LARGE. MAX_ROUNDS fails the
 * attempt. Throws a RangeError for options that make no sense.
 *
 *     worker.prompt("coder", chatHandler(new OpenAI(), { model: "gpt-5-mini" }));
 */
export function chatHandler(endpoint: OpenAI, options: ChatOptions): UntypedHandler {
  return modelHandler(new ChatDialect(endpoint), options);
}

/**
 * A turn handler that asks a model by OpenAI's Responses. Unless they are made in the
 * `background` nothing is stored at the provider's: what the model thought comes back
 * encrypted, is recorded with the answer, and is told again (`extra: { include: [] }` for
 * models that have nothing of the kind). A failed response is
 * MODEL_<its code>. The rest is as for `chatHandler`.
 *
 *     worker.prompt("coder", responsesHandler(new OpenAI(), { model: "gpt-5-mini" }));
 */
export function responsesHandler(endpoint: OpenAI, options: ResponsesOptions): UntypedHandler {
  const { background = false, ...manner } = options;
  const dialect = new ResponsesDialect(endpoint, background);
  return modelHandler(dialect, manner, background ? { background } : undefined);
}

/** How a turn is executed by OpenAI's Responses. */
export interface ResponsesOptions extends ModelOptions {
  /**
   * True: responses are made in the background, and stored at the provider's. One whose stream
   * or whose worker was lost is fetched by its id, and paid for once. Default false.
   */
  readonly background?: boolean;
}
