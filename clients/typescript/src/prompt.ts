/** Requests to a model, in the form of the SDK's prompts. */

import { failTurn, type PawlError } from "./errors.js";
import type { Block, LanguageModel, PromptMessage, ProviderData } from "./language_model.js";
import type { Ask, ConversationMessage, Values } from "./model_prompt.js";
import { callsOf, textIn } from "./model_prompt.js";
import { faultOf } from "./normalize_answer.js";
import type { Json } from "./plain_message.js";
import { markRawJson } from "./raw_json.js";
import type { Part } from "./values.js";

const LIBRARY = "ai";
/** Supported versions of the SDK's interface. */
export const KNOWN = ["v3", "v4"];

/** Returns the message of an answer as it is recorded: `provider` of ModelAnswer. */
export function envelope({ specificationVersion }: LanguageModel, blocks: readonly Block[]): Json {
  const message = { role: "assistant", content: blocks } as unknown as Json;
  return { library: LIBRARY, version: specificationVersion, message };
}

/** Options of a call, in the form that both interfaces accept. */
export interface CallOptions {
  readonly prompt: readonly PromptMessage[];
  readonly [setting: string]: unknown;
}

/**
 * Builds the prompt of a conversation. A message of another library is rebuilt from its text and
 * calls; `strange` is called with the name of that library.
 */
export class Prompter {
  readonly #model: LanguageModel;
  readonly #strange: (library: string) => void;
  readonly #names: Names;
  readonly #read: (text: string) => unknown;

  /** `exact`: requests pass the repairing fetch, which writes arguments byte for byte. */
  constructor(model: LanguageModel, ask: Ask, exact: boolean, strange: (library: string) => void) {
    this.#model = model;
    this.#read = exact ? markRawJson : JSON.parse;
    this.#strange = strange;
    this.#names = new Names(ask.tools.map(({ name }) => name));
  }

  /** Returns the pack's tool for a name of the endpoint. */
  ours(name: string): string {
    return this.#names.ours(name);
  }

  /** Returns the options of a call. Throws failTurn for content that no provider accepts. */
  options(ask: Ask): CallOptions {
    const { prompt, settings } = { prompt: this.#prompt(ask), settings: ask.settings };
    const tools = ask.tools.map(({ name, description, parameters }) => {
      const wire = this.#names.wire(name);
      return { type: "function", name: wire, description, inputSchema: parameters };
    });
    return {
      ...parametersOf(ask.parameters),
      ...settings,
      ...(ask.most > 0 ? { maxOutputTokens: ask.most } : {}),
      ...(tools.length > 0 ? { tools, toolChoice: { type: ask.choice } } : {}),
      ...(ask.schema === undefined
        ? {}
        : { responseFormat: { type: "json", name: "answer", schema: ask.schema } }),
      prompt,
      providerOptions: this.#providerOptions(settings),
    };
  }

  /** The record contains the messages of models, so the provider is asked to store none. */
  #providerOptions({ providerOptions }: Values): Values | undefined {
    const given = providerOptions as Values | undefined;
    const [name = "", form] = this.#model.provider.split(".");
    return form === "responses"
      ? { ...given, [name]: { store: false, ...(given?.[name] as Values | undefined) } }
      : given;
  }

  #prompt({ system, messages }: Ask): PromptMessage[] {
    const names = new Map<string, string>();
    const head: PromptMessage[] = system ? [{ role: "system", content: system }] : [];
    return [...head, ...messages.map((entry) => this.#message(entry, names))];
  }

  #message(answer: ConversationMessage, names: Map<string, string>): PromptMessage {
    for (const { id, name } of callsOf(answer)) {
      names.set(id, this.#names.wire(name));
    }
    switch (answer.role) {
      case "assistant":
        return { role: "assistant", content: this.#answer(answer) };
      case "tool": {
        const output = { type: "text", value: answer.parts.map(textOfPart).join("\n") };
        const { toolCallId } = answer;
        const toolName = names.get(toolCallId) ?? "unknown";
        return { role: "tool", content: [{ type: "tool-result", toolCallId, toolName, output }] };
      }
      case "system":
        return { role: "system", content: answer.parts.map(textOfPart).join("\n") };
      default:
        return { role: "user", content: answer.parts.map((part) => this.#part(part)) };
    }
  }

  #answer(spoken: ConversationMessage): readonly Block[] {
    const blocks = this.#kept(spoken.provider) ?? anew(spoken);
    return blocks.map((block) => {
      if (block.type === "file" || block.type === "reasoning-file") {
        return { ...block, data: this.#data(String(block.data)) };
      }
      if (block.type !== "tool-call" && block.type !== "tool-result") {
        return block;
      }
      const toolName = this.#names.wire(block.toolName ?? "");
      const { input } = block;
      const providerOptions = signed(block.providerOptions);
      if (typeof input !== "string" || block.providerExecuted) {
        return {
          ...block,
          toolName,
          ...(typeof input === "string" ? { input: JSON.parse(input) } : {}),
        };
      }
      // Conversations that are older than MODEL steps may have arguments that are no object.
      const sound = faultOf(input) === undefined;
      const value = sound ? this.#read(input) : { arguments: input };
      return { ...block, toolName, input: value, ...(providerOptions && { providerOptions }) };
    });
  }

  /** Returns the recorded message, if this library can read it. */
  #kept(provider: Json | undefined): readonly Block[] | undefined {
    if (provider === undefined) {
      return undefined;
    }
    const { library, version, message } = Object(provider) as { [word: string]: Json };
    const { role, content } = Object(message ?? null) as { [word: string]: Json };
    const read = library === LIBRARY && KNOWN.includes(String(version)) && role === "assistant";
    if (read && Array.isArray(content) && content.every(isBlock)) {
      return content as unknown as readonly Block[];
    }
    this.#strange(`${library ?? "no library"} ${version ?? ""}`.trim());
    return undefined;
  }

  #part(part: Part): Block {
    const text = textIn(part);
    if (text !== undefined) {
      return { type: "text", text };
    }
    const { content, mediaType, filename } = part;
    const data = content.case === "data" ? content.value : fetchable(part);
    if (data === undefined) {
      throw unsupported(part);
    }
    const media = (mediaType.split(";")[0] ?? "").trim().toLowerCase();
    const named = filename ? { filename } : {};
    return { type: "file", mediaType: media, ...named, data: this.#data(data) };
  }

  /** Returns bytes, their text or an address in the form of the model's interface. */
  #data(data: Uint8Array | URL | string): unknown {
    if (this.#model.specificationVersion === "v3") {
      return data;
    }
    return data instanceof URL ? { type: "url", url: data } : { type: "data", data };
  }
}

/**
 * Converts the signature of reasoning for openai-compatible of `ai` 6, which reads it under another
 * name than it writes.
 */
function signed(data: ProviderData | undefined): ProviderData | undefined {
  const own = Object.values(data ?? {}).find((known) => Object(known).thoughtSignature);
  return own === undefined ? data : { google: own, ...data };
}

function isBlock(block: Json): boolean {
  return typeof (Object(block) as { type?: unknown }).type === "string";
}

function textOfPart(part: Part): string {
  const text = textIn(part);
  if (text === undefined) {
    throw unsupported(part);
  }
  return text;
}

/** Rebuilds a message from its text and calls. */
function anew(message: ConversationMessage): readonly Block[] {
  const texts = message.parts.map(textIn).flatMap((text) => (text ? [{ type: "text", text }] : []));
  const calls = callsOf(message).map(({ id, name, arguments: input }) => {
    return { type: "tool-call", toolCallId: id, toolName: name, input };
  });
  return [...texts, ...calls];
}

function fetchable({ content }: Part): URL | undefined {
  return content.case === "uri" && /^(https?:\/\/|data:)/.test(content.value)
    ? new URL(content.value)
    : undefined;
}

/** Returns the error of a part that no provider accepts. */
function unsupported(part: Part): PawlError {
  const media = part.mediaType || "application/octet-stream";
  const name = part.filename ? ` (${part.filename})` : "";
  const form = part.content.case === "uri" ? `the address ${part.content.value}` : "data";
  const text = `a part of ${media}${name} as ${form}: a model accepts data and http addresses`;
  return failTurn("MEDIA_UNSUPPORTED", text, { retryable: false });
}

/** Parameters of packs, and their names in the SDK. */
const PARAMETERS: { readonly [name: string]: string } = {
  temperature: "temperature",
  top_p: "topP",
  top_k: "topK",
  max_tokens: "maxOutputTokens",
  frequency_penalty: "frequencyPenalty",
  presence_penalty: "presencePenalty",
  seed: "seed",
  stop: "stopSequences",
};

/** Returns the parameter of packs for a setting of the SDK. */
export function parameterOf(setting: string): string | undefined {
  return Object.keys(PARAMETERS).find((name) => PARAMETERS[name] === setting);
}

function parametersOf(given: Values): Values {
  const entries = Object.entries(given).map(([name, value]): [string, Json] => {
    const own = Object.hasOwn(PARAMETERS, name) ? PARAMETERS[name] : undefined;
    if (own === undefined) {
      const known = Object.keys(PARAMETERS).sort().join(", ");
      const text = `parameters.${name}: the AI SDK has no such parameter, only ${known}`;
      throw failTurn("PARAMETER_UNSUPPORTED", text, { retryable: false });
    }
    return [own, own === "stopSequences" && typeof value === "string" ? [value] : value];
  });
  return Object.fromEntries(entries.filter(([name]) => name !== "maxOutputTokens"));
}

/** Names of tools that endpoints accept: letters, digits, _ and -, at most 64. */
class Names {
  readonly #wire = new Map<string, string>();
  readonly #ours = new Map<string, string>();

  constructor(names: readonly string[]) {
    for (const name of names) {
      let wire = plainName(name);
      for (let count = 2; this.#ours.has(wire); count += 1) {
        wire = `${plainName(name).slice(0, 60)}_${count}`;
      }
      this.#wire.set(name, wire);
      this.#ours.set(wire, name);
    }
  }

  wire(name: string): string {
    return this.#wire.get(name) ?? plainName(name);
  }

  ours(wire: string): string {
    return this.#ours.get(wire) ?? wire;
  }
}

function plainName(name: string): string {
  return name.replace(/[^a-zA-Z0-9_-]/g, "_").slice(0, 64) || "unknown";
}
