/** Answers of the AI SDK as a whole and as the parts of a stream, and one as the other. */

import type { StreamPart } from "./language_model.js";

/** The used part of the value of `doGenerate`. */
export interface Generated {
  readonly content: readonly ContentPart[];
  readonly finishReason?: StreamPart["finishReason"];
  readonly usage?: StreamPart["usage"];
  readonly providerMetadata?: unknown;
  readonly warnings?: StreamPart["warnings"];
  readonly response?: { readonly id?: string; readonly modelId?: string };
}

/** A part of an answer, in the form of the SDK's content or of its stream. */
interface ContentPart {
  readonly type: string;
  readonly text?: string;
  readonly providerMetadata?: unknown;
  readonly [word: string]: unknown;
}

/** The parts of the stream of an answer. */
export interface Streamed {
  readonly parts: readonly StreamPart[];
}

/** A text that grows. */
interface Growing {
  type: string;
  text: string;
  providerMetadata?: unknown;
}

/** Parts of a stream that have no place in an answer as a whole. */
const PASSING = ["tool-input-start", "tool-input-delta", "tool-input-end", "raw", "ping"];

/** Returns a streamed answer as a whole. */
export function generatedOf({ parts }: Streamed): Generated {
  const content: (ContentPart | Growing)[] = [];
  const open = new Map<string, Growing>();
  let about: Partial<Generated> = {};
  for (const part of parts) {
    const [, kind = "", what = ""] = /^(text|reasoning)-(start|delta|end)$/.exec(part.type) ?? [];
    const { type, ...rest } = part;
    const metadata =
      part.providerMetadata === undefined ? {} : { providerMetadata: part.providerMetadata };
    if (what === "start") {
      const made: Growing = { type: kind, text: "", ...metadata };
      content.push(made);
      open.set(`${kind} ${part.id}`, made);
    } else if (kind) {
      const made = open.get(`${kind} ${part.id}`);
      Object.assign(made ?? {}, { text: (made?.text ?? "") + (part.delta ?? "") }, metadata);
    } else if (type === "stream-start") {
      about = { ...about, warnings: part.warnings ?? [] };
    } else if (type === "response-metadata") {
      about = { ...about, response: rest };
    } else if (type === "finish") {
      const { finishReason, usage } = part;
      about = { ...about, finishReason, usage, ...metadata };
    } else if (!PASSING.includes(type)) {
      content.push(part as unknown as ContentPart);
    }
  }
  return { warnings: [], ...about, content: content as readonly ContentPart[] };
}

/** Returns an answer as a whole as the parts of a stream. */
export function streamedOf(generated: Generated): Streamed {
  const { content, finishReason, usage, providerMetadata, warnings = [], response } = generated;
  const parts = content.flatMap((part, index): object[] => {
    const { type, text, providerMetadata: metadata } = part;
    if (type !== "text" && type !== "reasoning") {
      return [part];
    }
    const own = {
      id: String(index),
      ...(metadata === undefined ? {} : { providerMetadata: metadata }),
    };
    return [
      { type: `${type}-start`, ...own },
      { type: `${type}-delta`, id: own.id, delta: text ?? "" },
      { type: `${type}-end`, id: own.id },
    ];
  });
  const finish = { type: "finish", finishReason, usage, providerMetadata };
  const about = response ? [{ type: "response-metadata", ...response }] : [];
  return {
    parts: [
      { type: "stream-start", warnings },
      ...about,
      ...parts,
      finish,
    ] as unknown as readonly StreamPart[],
  };
}
