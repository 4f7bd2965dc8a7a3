/** Functions by which a model leaves a state or asks the person; they are no tools of the pack. */

import { parseExact } from "./exact_json.js";
import { toJsonText } from "./json_text.js";
import type { Offer } from "./model_prompt.js";
import type { ModelCall } from "./model_step.js";
import { faultOf } from "./normalize_answer.js";
import { asProperty } from "./output_schema.js";
import type { Json } from "./plain_message.js";
import type { Turn } from "./turn.js";
import { type ArtifactLike, json } from "./values.js";

const EXIT = "leave_state";
const ASK = "ask_user";

/** Returns a name, with underscores added while a tool of the prompt has the same name. */
function free(name: string, { tools }: Pick<Turn, "tools">): string {
  return tools.some((tool) => tool.name === name) ? free(`${name}_`, { tools }) : name;
}

/** How a model left the state, or the error of its arguments, for the model. */
export type Left =
  | {
      readonly event: string;
      readonly artifacts: { readonly [name: string]: ArtifactLike };
      /** The value, if the function has one. */
      readonly output?: Json;
    }
  | { readonly fault: string };

type Slot = Turn["artifactSlots"][number];
type Schema = { [key: string]: Json };

/**
 * The only function that moves the run. Its enum has the state's allowed events, and its arguments
 * contain the artifacts to write, except binary ones, which a model cannot write.
 */
export class ExitTools {
  readonly name: string;
  readonly #events: readonly string[];
  readonly #slots: ReadonlyMap<string, Slot>;
  /** Schema of the value that the call contains. Undefined means none. */
  readonly #output: Json | undefined;

  constructor({ tools, allowedEvents, artifactSlots }: Turn, output?: Json) {
    this.name = free(EXIT, { tools });
    this.#output = output;
    this.#events = allowedEvents;
    const written = artifactSlots.filter((slot) => isText(slot) || isJson(slot));
    this.#slots = new Map(written.map((slot) => [slot.name, slot]));
  }

  /** False means that the model cannot choose an event in this state. */
  get possible(): boolean {
    return this.#events.length > 0;
  }

  /** Returns the function as the request to the model contains it. */
  tool(): Offer {
    const properties: Schema = { event: { type: "string", enum: [...this.#events] } };
    if (this.#slots.size > 0) {
      const writes = [...this.#slots.values()].map((slot) => [slot.name, schemaOf(slot)]);
      properties.artifacts = {
        type: "object",
        properties: Object.fromEntries(writes),
        additionalProperties: false,
      };
    }
    if (this.#output !== undefined) {
      properties.output = asProperty(this.#output, "output");
    }
    const description = "Ends this state. Choose the event that says how it went.";
    const parameters = {
      type: "object",
      properties,
      required: this.#output === undefined ? ["event"] : ["event", "output"],
      additionalProperties: false,
    };
    return { name: this.name, description, parameters };
  }

  /** Reads the arguments of a call. */
  read(call: ModelCall): Left {
    const given = argumentsOf(call);
    if (typeof given === "string") {
      return { fault: given };
    }
    const own = ["event", "artifacts", ...(this.#output === undefined ? [] : ["output"])];
    const stray = Object.keys(given).find((name) => !own.includes(name));
    if (stray !== undefined) {
      const place = this.#slots.has(stray) ? "; it belongs under artifacts" : "";
      return { fault: `${stray}: no property of ${this.name}, only ${own.join(" and ")}${place}` };
    }
    const { event, artifacts: writes = {}, output } = given;
    if (typeof event !== "string" || !this.#events.includes(event)) {
      const shown = shownOf(event);
      return { fault: `event: one of ${this.#events.join(", ")}, not ${shown}` };
    }
    if (!isObject(writes ?? {})) {
      return { fault: "artifacts: not an object" };
    }
    if (this.#output !== undefined && output === undefined) {
      return { fault: "output: it is required" };
    }
    const left = this.#writes(event, (writes ?? {}) as { [name: string]: Json });
    return "fault" in left || output === undefined ? left : { ...left, output };
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
        return { fault: `artifacts.${name}: a string, not ${shownOf(value)}` };
      }
      artifacts[name] = isText(slot) ? value : json(value);
    }
    return { event, artifacts };
  }
}

/** The question of a model to the person, or the error of its arguments, for the model. */
export type ExitQuestion = { readonly question: string } | { readonly fault: string };

/** The function by which a model asks the person and waits for the answer. */
export class Asking {
  readonly name: string;

  constructor(turn: Turn) {
    this.name = free(ASK, turn);
  }

  /** Returns the function as the request to the model contains it. */
  tool(): Offer {
    return {
      name: this.name,
      description: "Asks the person a question; the answer is their next message.",
      parameters: {
        type: "object",
        properties: { question: { type: "string", minLength: 1 } },
        required: ["question"],
        additionalProperties: false,
      },
    };
  }

  /** Reads the arguments of a call. */
  read(call: ModelCall): ExitQuestion {
    const given = argumentsOf(call);
    if (typeof given === "string") {
      return { fault: given };
    }
    const stray = Object.keys(given).find((name) => name !== "question");
    if (stray !== undefined) {
      return { fault: `${stray}: no property of ${this.name}, only question` };
    }
    const { question } = given;
    return typeof question === "string" && question !== ""
      ? { question }
      : { fault: `question: a string, not empty, not ${shownOf(question)}` };
  }
}

/** Returns the arguments of a call as an object, or the error of the model's text. */
export function argumentsOf(call: ModelCall): { readonly [key: string]: Json } | string {
  const wrote = call.brokenArguments || call.arguments;
  const fault = faultOf(wrote);
  if (fault !== undefined) {
    return fault;
  }
  const value = parseExact(wrote || "{}");
  return isObject(value) ? value : "the arguments are no object";
}

/** Returns a value as the model sees it in an error. */
function shownOf(value: Json | undefined): string {
  return value === undefined ? "nothing" : toJsonText(value, "the value");
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
