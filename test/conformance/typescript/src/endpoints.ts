/**
 * The verb `model`: a run whose turns a model executes, through the library of this language.
 *
 * One request is `{run_id, form, base_url, model, serve}`: the run, which was started for its caller;
 * `form` is the wire form of the endpoint (chat, messages or responses), `base_url` its address as
 * clients of that form take it, `model` its name there, `serve` the tools to serve. Each tool appends
 * `{run, tool, step, attempt, payload}` to the ledger as it is called, then: `broken` throws, `photo`
 * returns bytes, all others return `{"ok": true}`. The library makes no retries of its own. The
 * answer is `{status}`, or what the client threw.
 */

import { appendFileSync } from "node:fs";
import { createAnthropic } from "@ai-sdk/anthropic";
import { createOpenAI } from "@ai-sdk/openai";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import type { Json, Run, ToolCall } from "pawl-client";
import { modelHandler } from "pawl-client/models";
import { canon } from "./canon.js";
import { jsonOf } from "./lines.js";

/** Arguments of the verb. */
export interface ModelArgs {
  readonly form?: string;
  readonly base_url?: string;
  readonly model?: string;
  readonly serve?: readonly string[];
}

const PNG = new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

function handlerOf({ form, base_url: baseURL = "", model = "" }: ModelArgs) {
  const apiKey = "none";
  switch (form) {
    case "messages":
      return modelHandler(createAnthropic({ baseURL: `${baseURL}/v1`, apiKey })(model));
    case "responses":
      return modelHandler(createOpenAI({ baseURL, apiKey }).responses(model));
    default: {
      const endpoint = createOpenAICompatible({
        name: "endpoint",
        baseURL,
        apiKey,
        includeUsage: true,
      });
      return modelHandler(endpoint(model));
    }
  }
}

function toolOf(tool: string, ledger: string) {
  return (payload: Json, { runId: run, step, attempt }: ToolCall): Json => {
    // Written down outside, in one write.
    appendFileSync(ledger, `${jsonOf({ run, tool, step, attempt, payload })}\n`);
    if (tool === "broken") {
      throw new Error("the tool is broken");
    }
    return tool === "photo" ? (PNG as unknown as Json) : { ok: true };
  };
}

/** Executes a run until it ends. */
export async function execute(run: Run, args: ModelArgs, ledger: string): Promise<unknown> {
  const tools = Object.fromEntries((args.serve ?? []).map((name) => [name, toolOf(name, ledger)]));
  const done = await run.drive(handlerOf(args), { tools });
  return { status: (canon(done.run) as { status: unknown }).status };
}
