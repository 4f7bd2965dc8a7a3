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
 */

import OpenAI from "openai";
import { PawlError } from "./errors.js";
import { type ChatCall, Exchange } from "./exchange.js";
import type { Reply } from "./reply.js";
import type { Turn, UntypedHandler } from "./turn.js";

/** How a turn is executed by a chat model. */
export interface ChatOptions {
  /** Name of the model, as the endpoint knows it. Required. */
  readonly model: string;
  /**
   * Most answers of the model in one turn, before one more that is for leaving the state.
   * Default 16; the pack's tool_policy.max_rounds may lower it.
   */
  readonly maxRounds?: number;
}

const MAX_ROUNDS = 16;
/** What a model is told of its own tool call, and may correct. */
const TOLD = ["schema", "step_denied", "step_failed"];

/**
 * A turn handler that asks a chat model. `endpoint` holds the address, the key, and how
 * often the package itself repeats (`maxRetries`).
 *
 * A turn fails with one of these codes: REFUSED, CONTENT_FILTER, TRUNCATED,
 * STREAM_TRUNCATED, MAX_ROUNDS, MODEL_RATE_LIMITED, MODEL_UNREACHABLE, MODEL_ERROR, and
 * MODEL_<HTTP status>, which is retryable from 500 on. Throws a RangeError for options
 * that make no sense.
 *
 *     worker.prompt("coder", chatHandler(new OpenAI(), { model: "gpt-5-mini" }));
 */
export function chatHandler(endpoint: OpenAI, options: ChatOptions): UntypedHandler {
  const { model, maxRounds = MAX_ROUNDS } = options;
  if (!model) {
    throw new RangeError("model: a name, not empty");
  }
  if (!Number.isInteger(maxRounds) || maxRounds < 1) {
    throw new RangeError(`maxRounds: a whole number from 1 on, not ${maxRounds}`);
  }
  return async (turn) => {
    // The last round is for leaving the state.
    const exchange = new Exchange(turn, model, Math.min(maxRounds, roundsOf(turn)) + 1);
    return execute(endpoint, turn, exchange);
  };
}

function roundsOf({ settings }: Turn): number {
  const policy = (settings as { tool_policy?: { max_rounds?: number } } | undefined)?.tool_policy;
  return policy?.max_rounds || Number.POSITIVE_INFINITY;
}

async function execute(endpoint: OpenAI, turn: Turn, exchange: Exchange): Promise<Reply> {
  while (!exchange.reply) {
    await ask(endpoint, turn, exchange);
    for (const call of exchange.finish()) {
      await make(turn, exchange, call);
    }
  }
  return exchange.reply;
}

/** Asks once, and shows the text as it comes in. */
async function ask(endpoint: OpenAI, turn: Turn, exchange: Exchange): Promise<void> {
  const { signal } = turn;
  const request = exchange.request();
  const answer = endpoint.chat.completions.create(request, { signal });
  const stream = await answer.catch((error: unknown) => {
    signal.throwIfAborted();
    throw failureOf(error);
  });
  for await (const text of textsOf(stream, exchange, signal)) {
    await turn.output(text);
  }
  // The package ends the stream without a word when the signal is aborted.
  signal.throwIfAborted();
}

type Chunks = AsyncIterable<Parameters<Exchange["take"]>[0]>;

/** The texts of a stream; whatever breaks it, the connection included, fails the turn. */
async function* textsOf(stream: Chunks, exchange: Exchange, signal: AbortSignal) {
  const chunks = stream[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await next(chunks, signal);
      if (done) {
        return;
      }
      const text = exchange.take(value);
      if (text) {
        yield text;
      }
    }
  } finally {
    await chunks.return?.().catch(() => undefined);
  }
}

async function next<T>(chunks: AsyncIterator<T>, signal: AbortSignal): Promise<IteratorResult<T>> {
  try {
    return await chunks.next();
  } catch (error) {
    signal.throwIfAborted();
    throw brokenBy(error);
  }
}

async function make(turn: Turn, exchange: Exchange, call: ChatCall): Promise<void> {
  try {
    exchange.answered(call, await turn.step(call.tool, call.arguments, { key: call.key }));
  } catch (error) {
    if (!(error instanceof PawlError && TOLD.includes(error.kind))) {
      throw error;
    }
    exchange.refused(call, error);
  }
}

function brokenBy(error: unknown): PawlError {
  if (error instanceof OpenAI.APIError && error.status !== undefined) {
    return failureOf(error);
  }
  return failed("STREAM_TRUNCATED", error);
}

/** What an error of the endpoint says of the turn. */
function failureOf(error: unknown): PawlError {
  if (error instanceof OpenAI.RateLimitError) {
    return failed("MODEL_RATE_LIMITED", error);
  }
  if (error instanceof OpenAI.APIError && error.status !== undefined) {
    return failed(`MODEL_${error.status}`, error, error.status >= 500);
  }
  if (error instanceof OpenAI.APIConnectionError) {
    return failed("MODEL_UNREACHABLE", error);
  }
  return failed("MODEL_ERROR", error);
}

function failed(reason: string, cause: unknown, retryable = true): PawlError {
  const text = cause instanceof Error ? `${cause.name}: ${cause.message}` : String(cause);
  return new PawlError("fail_turn", text, { reason, retryable, cause });
}
