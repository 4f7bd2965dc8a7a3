/**
 * What is used of a model of the AI SDK, written out, so that this package depends on no version
 * of it: the interfaces v3 (`ai` 6) and v4 (`ai` 7) are alike in all of this, but for files.
 */

import type { Json } from "./plain_message.js";

/** A model of a provider's package of the AI SDK: `openai("gpt-5-mini")`. */
export interface LanguageModel {
  readonly specificationVersion: string;
  /** Provider, for example "openai.responses". */
  readonly provider: string;
  readonly modelId: string;
  // The two interfaces name the options differently; what is given fits both.
  doStream(options: never): PromiseLike<{
    readonly stream: unknown;
    readonly response?: { readonly headers?: { readonly [name: string]: string } };
  }>;
}

/** Whether a value is a model of the AI SDK. */
export function isModel(value: unknown): value is LanguageModel {
  const { doStream, provider, modelId } = Object(value ?? null) as Partial<LanguageModel>;
  return [provider, modelId].every((word) => typeof word === "string") && !!doStream;
}

/** What a provider keeps with a part, by its name. */
export type ProviderData = { readonly [provider: string]: Json };

/** A part of a message, in the form of the SDK's prompts. */
export interface Block {
  readonly type: string;
  readonly text?: string;
  readonly toolCallId?: string;
  readonly toolName?: string;
  readonly input?: unknown;
  readonly output?: unknown;
  readonly providerExecuted?: boolean;
  readonly kind?: string;
  readonly mediaType?: string;
  readonly filename?: string;
  readonly data?: unknown;
  readonly providerOptions?: ProviderData;
}

/** A message of a prompt. */
export interface PromptMessage {
  readonly role: "system" | "user" | "assistant" | "tool";
  readonly content: string | readonly Block[];
}

/** A part of the stream of an answer, as far as it is read. */
export interface StreamPart {
  readonly type: string;
  readonly id?: string;
  readonly delta?: string;
  readonly toolCallId?: string;
  readonly toolName?: string;
  readonly input?: unknown;
  readonly result?: unknown;
  readonly isError?: boolean;
  readonly providerExecuted?: boolean;
  readonly kind?: string;
  readonly mediaType?: string;
  readonly data?: unknown;
  readonly modelId?: string;
  readonly providerMetadata?: ProviderData;
  readonly warnings?: readonly { readonly [word: string]: unknown }[];
  readonly finishReason?: { readonly unified?: string; readonly raw?: string };
  readonly usage?: {
    readonly inputTokens?: { readonly total?: number; readonly cacheRead?: number };
    readonly outputTokens?: { readonly total?: number; readonly reasoning?: number };
    readonly raw?: unknown;
  };
  readonly error?: unknown;
}
