/** The one function by which a chat model leaves a state. */

import type { ChatCompletionTool } from "openai/resources/chat/completions";
import type { Json } from "./plain.js";
import type { Turn } from "./turn.js";
import { type ArtifactLike, json } from "./values.js";

/** Its name; underscores are added while a tool of the prompt has the same. */
const LEAVE = "leave_state";

/** How a model left, or what it is told is wrong with its arguments. */
export type Left =
  | { readonly event: string; readonly artifacts: { readonly [name: string]: ArtifactLike } }
  | { readonly fault: string };

type Slot = Turn["artifactSlots"][number];
type Schema = { [key: string]: unknown };

/**
 * The function whose enum is the state's allowed events and whose arguments carry the
 * artifact writes. Nothing else can move the run. Binary artifacts are left out: a model
 * cannot write them.
 */
export class Leave {
  readonly name: string;
  readonly #events: readonly string[];
  readonly #slots: ReadonlyMap<string, Slot>;

  constructor({ tools, allowedEvents, artifactSlots }: Turn) {
    let name = LEAVE;
    while (tools.some((tool) => tool.name === name)) {
      name += "_";
    }
    this.name = name;
    this.#events = allowedEvents;
    const written = artifactSlots.filter((slot) => isText(slot) || isJson(slot));
    this.#slots = new Map(written.map((slot) => [slot.name, slot]));
  }

  /** False: the state has no way out to choose. */
  get possible(): boolean {
    return this.#events.length > 0;
  }

  /** As the model is told of it. */
  tool(): ChatCompletionTool {
    const properties: Schema = { event: { type: "string", enum: [...this.#events] } };
    if (this.#slots.size > 0) {
      const writes = [...this.#slots.values()].map((slot) => [slot.name, schemaOf(slot)]);
      properties.artifacts = {
        type: "object",
        properties: Object.fromEntries(writes),
        additionalProperties: false,
      };
    }
    const description = "Ends this state. Choose the event that says how it went.";
    const parameters = {
      type: "object",
      properties,
      required: ["event"],
      additionalProperties: false,
    };
    return { type: "function", function: { name: this.name, description, parameters } };
  }

  /** Reads the arguments of a call. */
  read(text: string): Left {
    const given = objectOf(text);
    if (typeof given === "string") {
      return { fault: given };
    }
    const { event, artifacts: writes = {} } = given;
    if (typeof event !== "string" || !this.#events.includes(event)) {
      const shown = JSON.stringify(event) ?? "nothing";
      return { fault: `event: one of ${this.#events.join(", ")}, not ${shown}` };
    }
    if (!isObject(writes ?? {})) {
      return { fault: "artifacts: not an object" };
    }
    return this.#writes(event, (writes ?? {}) as { [name: string]: Json });
  }

  #writes(event: string, writes: { readonly [name: string]: Json }): Left {
    const artifacts: { [name: string]: ArtifactLike } = {};
    for (const [name, value] of Object.entries(writes)) {
      const slot = this.#slots.get(name);
      if (!slot) {
        const known = [...this.#slots.keys()].sort().join(", ");
        return { fault: `artifacts: one of ${known}, not ${JSON.stringify(name)}` };
      }
      if (isText(slot) && typeof value !== "string") {
        return { fault: `artifacts.${name}: a string, not ${JSON.stringify(value)}` };
      }
      artifacts[name] = isText(slot) ? value : json(value);
    }
    return { event, artifacts };
  }
}

/** The object in JSON text, or what is wrong with it. */
export function objectOf(text: string): { readonly [key: string]: Json } | string {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return `the arguments are no JSON: ${error instanceof Error ? error.message : error}`;
  }
  return isObject(value) ? value : "the arguments are no object";
}

function isObject(value: unknown): value is { readonly [key: string]: Json } {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText({ mediaType }: Slot): boolean {
  return mediaType.startsWith("text/");
}

function isJson({ mediaType }: Slot): boolean {
  return mediaType === "application/json" || mediaType.endsWith("+json");
}

function schemaOf(slot: Slot): Schema {
  const description = `${slot.description} (${slot.mediaType})`.trim();
  return isText(slot) ? { description, type: "string" } : { description };
}
