/** The handlers of a worker, by name. */

import { failTurn, PawlError, RESULT_INVALID } from "./errors.js";
import type { LeasedStep } from "./leased_step.js";
import type { LeasedTurn } from "./leased_turn.js";
import type { Json } from "./plain_message.js";
import { checkSchema } from "./schema.js";
import type { ToolCall } from "./tool_call.js";
import { traced } from "./tracing.js";
import type { Handler } from "./turn.js";

/**
 * Executes one tool call. An error that it throws is the error of the step.
 *
 *     worker.tool("add", ({ a, b }: { a: number; b: number }) => a + b, {
 *       result: { type: "number" },
 *     });
 */
export type ToolHandler<Payload = Json, Result = Json> = (
  payload: Payload,
  call: ToolCall,
) => Promise<Result> | Result;

/**
 * JSON Schemas of a tool. The sidecar has checked the payload against the pack's own schema before.
 */
export interface ToolOptions {
  /**
   * Schema of the payload. A payload that does not fit is the tool's error PAYLOAD_INVALID.
   * Default: none.
   */
  readonly parameters?: Json;
  /**
   * Schema of the result. A result that does not fit is the tool's error RESULT_INVALID. Default:
   * none.
   */
  readonly result?: Json;
}

interface ToolEntry extends ToolOptions {
  readonly handler: ToolHandler;
}

/** Handlers by name; "*" is for names without a handler. */
export class HandlerTable {
  readonly #prompts = new Map<string, Handler>();
  readonly #agents = new Map<string, Handler>();
  readonly #tools = new Map<string, ToolEntry>();

  /** Returns the sorted names for a registration. */
  names(): { prompts: string[]; agents: string[]; tools: string[] } {
    const sorted = (map: Map<string, unknown>) => [...map.keys()].sort();
    return {
      prompts: sorted(this.#prompts),
      agents: sorted(this.#agents),
      tools: sorted(this.#tools),
    };
  }

  prompt(name: string, handler: Handler): void {
    acceptsTurn(`handler of prompt ${name}`, handler);
    add(this.#prompts, name, handler);
  }

  agent(name: string, handler: Handler): void {
    acceptsTurn(`handler of agent ${name}`, handler);
    add(this.#agents, name, handler);
  }

  tool(name: string, handler: ToolHandler, options: ToolOptions): void {
    add(this.#tools, name, { ...options, handler });
  }

  /** Whether a tool has a handler. */
  executes(tool: string): boolean {
    return this.#tools.has(tool) || this.#tools.has("*");
  }

  /** Returns the handler of a turn. Throws failTurn (NO_HANDLER). */
  ofTurn(held: LeasedTurn): Handler {
    const handler =
      this.#prompts.get(held.info.prompt) ??
      this.#agents.get(held.agent) ??
      this.#prompts.get("*") ??
      this.#agents.get("*");
    if (!handler) {
      const known = [...this.#prompts.keys()].sort().join(", ");
      const text = `no handler for prompt ${held.info.prompt}; there are handlers for ${known || "none"}`;
      throw failTurn("NO_HANDLER", text);
    }
    return handler;
  }

  /**
   * Returns the name of a turn's handler for messages. Undefined means that the turn has no
   * handler.
   */
  nameOf(held: LeasedTurn): string | undefined {
    try {
      return this.ofTurn(held).name || "(anonymous)";
    } catch {
      return undefined;
    }
  }

  /** Makes a tool call and returns its result. An error that it throws is the error of the step. */
  async call(held: LeasedStep, limitMs: number): Promise<Json> {
    const { tool } = held.call;
    const entry = this.#tools.get(tool) ?? this.#tools.get("*");
    if (!entry) {
      throw failTurn("NO_HANDLER", `no handler for tool ${tool}`);
    }
    fits(held.payload, entry.parameters, "PAYLOAD_INVALID", `payload of ${tool}`);
    const work = () => traced(held.traceparent, async () => entry.handler(held.payload, held.call));
    const result = (await held.execute(limitMs, work)) ?? null;
    fits(result, entry.result, RESULT_INVALID, `result of ${tool}`);
    return result;
  }
}

/** Throws a TypeError for a handler that requires more arguments than a Turn. */
export function acceptsTurn(what: string, handler: Handler): void {
  if (handler.length > 1) {
    throw new TypeError(
      `${what}: must be callable with one argument, a Turn, not with ${handler.length} arguments`,
    );
  }
}

function add<T>(map: Map<string, T>, name: string, handler: T): void {
  if (map.has(name)) {
    throw new RangeError(`${name} has a handler already; register one handler for each name`);
  }
  map.set(name, handler);
}

function fits(value: Json, schema: Json | undefined, reason: string, what: string): void {
  if (schema === undefined) {
    return;
  }
  try {
    checkSchema(value, schema, what);
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    throw new PawlError("schema", text, { reason, cause: error });
  }
}
