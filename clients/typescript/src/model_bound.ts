/** What a call of a model may consume at most, as far as that can be known before. */

import type { Ask, Said } from "./dialect.js";
import { callsOf, textIn } from "./dialect.js";
import type { Usage } from "./reply.js";
import { toJsonText } from "./values.js";

/** Output of a call of which the pack has no `max_tokens`. */
const OUTPUT_TOKENS = 4096;
/** A part that is neither text nor JSON. */
const MEDIA_TOKENS = 1000;
const BYTES_PER_TOKEN = 4;

/**
 * What the call may consume: it reads what the last one read and said, and about a token for
 * four bytes of what is `fresh`; of a first call, of everything.
 */
export function boundOf(ask: Ask, last: Usage, fresh: readonly Said[]): Usage {
  const known = (last.inputTokens ?? 0) + (last.outputTokens ?? 0);
  const read = known > 0 ? known + tokensOf(fresh) : tokensOf(ask.messages, settingsOf(ask));
  return { inputTokens: read, outputTokens: mostOf(ask) };
}

/** What the pack says, else what the provider is told beside it. */
function mostOf({ parameters, extra }: Ask): number {
  const given = [
    parameters.max_tokens,
    extra.max_completion_tokens,
    extra.max_output_tokens,
    extra.max_tokens,
  ];
  return (
    (given.find((most) => Number.isSafeInteger(most) && Number(most) >= 0) as number | undefined) ??
    OUTPUT_TOKENS
  );
}

function settingsOf({ system, tools }: Ask): string {
  return tools.length > 0 ? system + toJsonText(tools, "tools") : system;
}

function tokensOf(messages: readonly Said[], settings = ""): number {
  let bytes = bytesOf(settings);
  let media = 0;
  for (const message of messages) {
    const texts = message.parts.map(textIn);
    media += texts.filter((text) => text === undefined).length;
    const calls = callsOf(message).map((call) => call.arguments);
    bytes += [...texts, ...calls].reduce((sum, text) => sum + bytesOf(text ?? ""), 0);
  }
  return Math.ceil(bytes / BYTES_PER_TOKEN) + media * MEDIA_TOKENS;
}

function bytesOf(text: string): number {
  return new TextEncoder().encode(text).length;
}
