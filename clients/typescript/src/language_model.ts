/**
 * The used part of a model of the AI SDK, declared here so that this package depends on no version
 * of it: the interfaces v3 (`ai` 6) and v4 (`ai` 7) agree on it, except for files.
 */

import type { Json } from "./plain_message.js";

/** A model of a provider's package of the AI SDK, for example `openai("gpt-5-mini")`. */
export interface LanguageModel {
  readonly specificationVersion: string;
  /** Name of the provider, for example "openai.responses". */
  readonly provider: string;
  readonly modelId: string;
  // The two interfaces name the options differently; the given options fit both.
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

/** Data that a provider keeps with a part, by the provider's name. */
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

/** A part of an answer's stream; only the used fields. */
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
