/** Tool calls of the AI SDK as recorded steps, which the sidecar permits, holds and counts. */

import { asSchema, type ToolSet } from "ai";
import type { Journal } from "./ai_journal.js";
import type { ModelCalls } from "./ai_model.js";
import { toolName } from "./ai_pack.js";
import { recordableText } from "./ai_record.js";
import { currentScope, Scope, within } from "./ai_scope.js";
import { INVALID_ARGUMENTS, PawlError } from "./errors.js";
import { StepStatus } from "./gen/pawl/v1/record_pb.js";
import type { StepOutcome } from "./gen/pawl/v1/run_pb.js";
import { isMistake } from "./handler_fault.js";
import { toJsonText } from "./json_text.js";
import { type Json, type Plain, sourceOf } from "./plain_message.js";
import type { ToolCall } from "./tool_call.js";
import { deniedBy, type Step, type StepCall } from "./turn.js";
import { JsonText } from "./values.js";

/** The options with which the SDK calls `execute`. */
interface ExecuteOptions {
  readonly toolCallId: string;
  readonly abortSignal?: AbortSignal;
  readonly [option: string]: unknown;
}

type Execute = (input: unknown, options: ExecuteOptions) => unknown;

/** A tool call that the program has made, and that the sidecar sends back to be executed. */
interface Made {
  readonly payload: string;
  readonly input: unknown;
  readonly options: ExecuteOptions;
}

/** Executes the tool calls that the sidecar sends, for all executions of one program. */
export class ToolBodies {
  readonly #tools: ToolSet;
  readonly #made = new Map<string, Made>();
  readonly #waiting = new Map<string, (made: Made) => void>();

  constructor(tools: ToolSet) {
    this.#tools = tools;
  }

  /** The functions by name, for the run. */
  functions(): { readonly [tool: string]: (payload: Json, call: ToolCall) => Promise<Json> } {
    const names = Object.entries(this.#tools)
      .filter(([, { execute }]) => typeof execute === "function")
      .map(([name]) => name);
    return Object.fromEntries(
      names.map((name) => [toolName(name), (payload, call) => this.#execute(name, payload, call)]),
    );
  }

  /** The program makes a call; it may arrive here before. */
  expect(key: string, made: Made): void {
    this.#made.set(key, made);
    this.#waiting.get(key)?.(made);
  }

  async #execute(name: string, payload: Json, call: ToolCall): Promise<Json> {
    const tool = this.#tools[name];
    const execute = tool?.execute as Execute | undefined;
    if (!tool || !execute) {
      throw new PawlError("handler", `tool ${name} has no execute`, { reason: "NO_HANDLER" });
    }
    const made = isOwn(call.key) ? await this.#arrival(call) : undefined;
    const text = textOf(payload);
    const input = made?.payload === text ? made.input : await parsed(name, tool, text);
    const signals = [call.signal, made?.options.abortSignal].filter((one) => !!one);
    const options = {
      toolCallId: call.key,
      messages: [],
      ...made?.options,
      abortSignal: AbortSignal.any(signals),
    };
    const scope = new Scope(`${call.key}/`, call);
    const result = await within(scope, async () => last(await execute(input, options)));
    return (result ?? null) as Json;
  }

  /** Waits until the program, which may have been restarted, makes the call. */
  #arrival({ key, signal }: ToolCall): Promise<Made> {
    const made = this.#made.get(key);
    return made
      ? Promise.resolve(made)
      : new Promise((resolve, reject) => {
          const stop = () => reject(signal.reason);
          signal.addEventListener("abort", stop, { once: true });
          this.#waiting.set(key, (arrived) => {
            signal.removeEventListener("abort", stop);
            this.#waiting.delete(key);
            resolve(arrived);
          });
        });
  }
}

/** Prefix of the keys of a program's calls; the sidecar's own calls have others. */
export const ROOT = "ai/";

function isOwn(key: string): boolean {
  return key.startsWith(ROOT);
}

/** Returns the last value of a tool that yields values; the value of any other tool. */
async function last(result: unknown): Promise<unknown> {
  if (typeof result !== "object" || result === null || !(Symbol.asyncIterator in result)) {
    return result;
  }
  let value: unknown;
  for await (const one of result as AsyncIterable<unknown>) {
    value = one;
  }
  return value;
}

/** Returns the arguments as the tool's schema converts them. */
async function parsed(name: string, tool: ToolSet[string], text: string): Promise<unknown> {
  const value: unknown = JSON.parse(text);
  const checked = await asSchema(tool.inputSchema).validate?.(value);
  if (checked && !checked.success) {
    const message = `arguments of tool ${name}: ${checked.error.message}`;
    throw new PawlError("schema", message, { reason: INVALID_ARGUMENTS, cause: checked.error });
  }
  return checked ? checked.value : value;
}

/** Returns arguments as compact text, to compare them. */
function textOf(payload: unknown): string {
  return recordableText(JSON.parse(toJsonText(payload, "payload")));
}

/** Most calls of one request: the contract's limit. */
const MAX_TOGETHER = 64;

/** A call that is to be requested. */
interface Asked {
  readonly call: StepCall;
  readonly resolve: (outcome: Plain<StepOutcome>) => void;
  readonly reject: (error: unknown) => void;
}

/** The tool calls of one execution of a program. */
export class ToolCalls {
  readonly #journal: Journal;
  readonly #models: ModelCalls;
  readonly #bodies: ToolBodies;
  readonly #root: Scope;
  /** Sees an error that is no answer of a tool, and that ends the program. */
  readonly #mistaken: (error: unknown) => void;
  /** Calls that are requested next, together. */
  readonly #together: Asked[] = [];

  constructor(
    journal: Journal,
    models: ModelCalls,
    bodies: ToolBodies,
    root: Scope,
    mistaken: (error: unknown) => void,
  ) {
    this.#journal = journal;
    this.#models = models;
    this.#bodies = bodies;
    this.#root = root;
    this.#mistaken = mistaken;
  }

  /** Returns the tools with calls that are recorded; those without `execute` are unchanged. */
  durable<T extends ToolSet>(tools: T, approved: readonly string[]): T {
    const made = Object.entries(tools).map(([name, tool]) => {
      if (typeof tool.execute !== "function") {
        return [name, tool];
      }
      const execute = (input: unknown, options: ExecuteOptions) => {
        return this.#call(name, tool, input, options);
      };
      const { needsApproval, ...rest } = tool;
      const asking =
        needsApproval === undefined || approved.includes(toolName(name)) ? {} : { needsApproval };
      return [name, { ...rest, ...asking, execute }];
    });
    return Object.fromEntries(made) as T;
  }

  async #call(
    name: string,
    tool: ToolSet[string],
    input: unknown,
    options: ExecuteOptions,
  ): Promise<unknown> {
    const { key, call } = await this.#stepOf(name, tool, input, options);
    this.#bodies.expect(key, { payload: textOf(call.payload), input, options });
    const outcome = await this.#requested(call).catch((error: unknown) => {
      // No answer of the tool: the model must not see it, since it is not recorded.
      this.#mistaken(error);
      throw error;
    });
    const refused = deniedBy(outcome);
    if (refused && isMistake(refused)) {
      this.#mistaken(refused);
    }
    if (refused || !outcome.step) {
      throw refused ?? new PawlError("server", `the answer has no outcome for a call of ${name}`);
    }
    const result = resultIn(outcome.step, name);
    this.#models.result(options.toolCallId, outcome.step.step, result);
    return result;
  }

  /** Requests a call, together with those that the program makes at the same time. */
  #requested(call: StepCall): Promise<Plain<StepOutcome>> {
    return new Promise((resolve, reject) => {
      if (this.#together.length === 0) {
        setImmediate(() => this.#request());
      }
      this.#together.push({ call, resolve, reject });
    });
  }

  #request(): void {
    const batch = this.#together.splice(0, MAX_TOGETHER);
    if (this.#together.length > 0) {
      setImmediate(() => this.#request());
    }
    const outcomes = this.#journal.callEach(batch.map(({ call }) => call));
    for (const [index, { resolve, reject }] of batch.entries()) {
      outcomes[index]?.then(resolve, reject);
    }
  }

  /** Returns the step of a call: that of the model's recorded call, or one of the program's own. */
  async #stepOf(
    name: string,
    tool: ToolSet[string],
    input: unknown,
    { toolCallId }: ExecuteOptions,
  ): Promise<{ readonly key: string; readonly call: StepCall }> {
    const known = this.#models.take(toolCallId, name, recordableText(input));
    const text = known?.arguments;
    const fits =
      text !== undefined && (await parsed(name, tool, text).catch(() => undefined)) !== undefined;
    const payload = fits
      ? (new JsonText(JSON.parse(text), text) as unknown as Json)
      : (input as Json);
    if (known) {
      const { modelStep, index, key } = known;
      return { key, call: { tool: toolName(name), payload, call: { modelStep, index } } };
    }
    const { key } = (currentScope() ?? this.#root).next(`tool.${name}`);
    return { key, call: { tool: toolName(name), payload, key } };
  }
}

/** Returns the recorded result of a call, or throws its recorded error. */
function resultIn(step: Step, name: string): unknown {
  if (step.status === StepStatus.OK) {
    const text = sourceOf(step, "result");
    return text === undefined ? step.result : JSON.parse(text);
  }
  if (step.status === StepStatus.ERROR) {
    const { code = "ERROR", message = "" } = step.error ?? {};
    const kind = code === "DENIED" && step.approval ? "step_denied" : "step_failed";
    throw new PawlError(kind, message || `tool ${name}: ${code}`, {
      reason: code,
      retryable: false,
    });
  }
  throw new PawlError("step_cancelled", `the call of ${name} was cancelled: the run has ended`);
}
