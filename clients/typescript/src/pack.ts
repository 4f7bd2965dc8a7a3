/**
 * Packs written in TypeScript: states, events, limits, and tools from typed functions. The types of
 * events, artifacts and tools follow from the definition, without generated code.
 *
 *     import { PawlClient } from "pawl-client";
 *     import { definePack, tool } from "pawl-client/pack";
 *     import { z } from "zod";
 *
 *     const input = z.object({ order: z.string() });
 *     const shop = definePack("shop", {
 *       tools: {
 *         charge: tool({ description: "Charges an order.", input }, ({ order }) => `charged ${order}`),
 *       },
 *       states: {
 *         sell: { prompt: "Charge what is ordered.", tools: ["charge"], on: { Sold: "sold" } },
 *         sold: { prompt: "Tell the customer what was charged.", terminal: true },
 *       },
 *       limits: { max_tool_calls: 3, max_cost_usd: 0.5 },
 *     });
 *
 *     await shop.write("shop.pack.json");
 *     using client = new PawlClient();
 *     await client.registerPack(shop.json());
 *     await client.run(shop.id, (turn) => (turn.terminal ? {} : { event: "Sold" }), {
 *       tools: shop.tools,
 *     });
 */

import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { brand } from "./brand.js";
import { PawlError } from "./errors.js";
import { toJsonText } from "./json_text.js";
import { jsonSchemaOf } from "./output_schema.js";
import type {
  Appended,
  ArtifactKind,
  Consistent,
  DefinedTypes,
  FromSchema,
  JsonSchema,
  PackDefinition,
  PackTool,
  StateDefinition,
} from "./pack_types.js";
import type { Json } from "./plain_message.js";
import { sidecarPath } from "./sidecar_path.js";
import type { StandardSchema } from "./standard_schema.js";
import type { ToolCall } from "./tool_call.js";
import type { Tools } from "./tools.js";
import { typedTool } from "./typed_tool.js";
import type { PackName, PackTypes } from "./types.js";

export type {
  Appended,
  ArtifactKind,
  FromSchema,
  JsonSchema,
  PackDefinition,
  PackTool,
  StateDefinition,
} from "./pack_types.js";

const ID = /^[a-z][a-z0-9-]*$/;
const STATE = /^[a-z][a-z0-9_]*$/;
const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/;
const MEDIA = /^[\w.+-]+\/[\w.+-]+$/;
const BUDGET = ["max_total_visits", "max_tool_calls", "max_wall_time_sec"];

/** The part of a tool besides its arguments and its function. */
export interface ToolAbout {
  /** What the model reads about the tool. */
  readonly description: string;
  /**
   * The keys of `x_pawl.tools.NAME`: timeout_sec, attempts, on_error, on_unknown, approve, and so
   * on. Default: none.
   */
  readonly options?: { readonly [option: string]: Json };
}

/**
 * The types of a pack, to annotate handlers with:
 *
 *     const hello = pack.definePack("hello", {
 *       states: { ask: { prompt: "Greet.", on: { Greeted: "end" } }, end: { prompt: "x", terminal: true } },
 *     });
 *     type Hello = pack.TypesOf<typeof hello>;
 *     const ask: pawl.Handler<Hello["prompts"]["ask"]> = () => ({ event: "Greeted" });
 */
export type TypesOf<P extends { readonly id: string }> =
  P["id"] extends PackName<infer T> ? (T extends PackTypes ? T : never) : never;

type InputOf<S> = S extends StandardSchema<infer Input, unknown> ? Input : never;
type OutputOf<S> = S extends StandardSchema<unknown, infer Output> ? Output : never;

/**
 * Returns a tool of a pack. `input` is the schema of its arguments, of zod or of another library
 * with Standard JSON Schema; `parameters` is a JSON Schema in its place. Throws a RangeError for a
 * tool without a description, and for a schema that has no JSON Schema.
 *
 *     const { tool } = pack;
 *     const add = tool(
 *       { description: "Adds.", input: z.object({ a: z.number(), b: z.number() }) },
 *       ({ a, b }) => a + b,
 *     );
 *     const parameters = { type: "object", properties: { a: { type: "number" } } } as const;
 *     const twice = tool({ description: "Doubles.", parameters }, ({ a = 0 }) => 2 * a);
 */
export function tool<const S extends StandardSchema>(
  about: ToolAbout & { readonly input: S },
  run: (payload: OutputOf<S>, call: ToolCall) => Json | Promise<Json>,
): PackTool<InputOf<S>>;
/** As above, with a JSON Schema. */
export function tool<const S extends JsonSchema>(
  about: ToolAbout & { readonly parameters: S },
  run: (payload: FromSchema<S>, call: ToolCall) => Json | Promise<Json>,
): PackTool<FromSchema<S>>;
/** The implementation of both forms. */
export function tool(
  about: ToolAbout & { readonly input?: StandardSchema; readonly parameters?: JsonSchema },
  run: (payload: never, call: ToolCall) => Json | Promise<Json>,
): PackTool<never> {
  const { description, options = {}, input, parameters } = about;
  if (!description) {
    throw new RangeError("tool: a description is missing; the model reads it");
  }
  if (input) {
    const schema = jsonSchemaOf(input, "input") as JsonSchema;
    const checked = typedTool({ input }, run as (payload: unknown, call: ToolCall) => Json);
    return { description, options, parameters: schema, run: checked };
  }
  if (!parameters) {
    throw new RangeError("tool: input or parameters is missing: the schema of its arguments");
  }
  return { description, options, parameters, run };
}

/**
 * Returns the type of an artifact that collects values instead of replacing the last one.
 *
 *     const { append } = pack;
 *     const artifacts = { log: append(), lines: append("text/plain") };
 */
export function append<const T extends string = "application/json">(
  type = "application/json" as T,
): Appended & { readonly type: T } {
  return { type, mode: "append" };
}

/**
 * Returns a pack from its definition. The first state is the entry. A name of an event, a state, a
 * tool or an artifact that the definition does not have is an error of the compiler; for a program
 * in JavaScript it is a RangeError.
 *
 *     const hello = pack.definePack("hello", {
 *       states: {
 *         ask: { prompt: "Greet.", on: { Greeted: "done" }, max_visits: 3, on_max_visits: "done" },
 *         done: { prompt: "Say goodbye.", terminal: true },
 *       },
 *     });
 *     await client.registerPack(hello.json());
 */
export function definePack<const D extends PackDefinition>(
  id: string,
  definition: D & Consistent<D>,
): Pack<D> {
  return new Pack<D>(id, definition);
}

/**
 * A pack that a program defines.
 *
 *     const states = { done: { prompt: "Say hello.", terminal: true } } as const;
 *     const hello = new pack.Pack("hello", { states });
 *     console.log(hello.id, hello.document());
 */
export class Pack<D extends PackDefinition> {
  static {
    brand(Pack, "Pack");
  }

  /** The name under which runs start; it carries the types of the pack. */
  readonly id: PackName<DefinedTypes<D>>;
  /** The functions of the tools, for `PawlClient.run`. */
  readonly tools: Tools<DefinedTypes<D>>;
  readonly #definition: PackDefinition;

  /** Throws a RangeError that names the mistake. */
  constructor(id: string, definition: D) {
    if (!ID.test(id)) {
      throw new RangeError(
        `pack "${id}": an id is lower-case letters, digits and "-", and begins with a letter`,
      );
    }
    checked(id, definition);
    this.id = id;
    this.#definition = definition;
    const tools = Object.entries(definition.tools ?? {}).map(([name, { run }]) => [name, run]);
    this.tools = Object.fromEntries(tools);
  }

  /** Returns the pack as a JSON object. */
  document(): { readonly [name: string]: Json } {
    const { version = "1.0.0", name = this.id, description, states } = this.#definition;
    const tools = Object.entries(this.#definition.tools ?? {});
    const engine = this.#engine();
    const document = {
      id: this.id,
      name,
      ...(description ? { description } : {}),
      version,
      template_engine: { version: "v1", syntax: "{{variable}}" },
      prompts: mapped(states, (state, key) => promptOf(key, version, state)),
      ...(tools.length > 0
        ? {
            tools: Object.fromEntries(
              tools.map(([key, { description, parameters }]) => {
                return [key, { name: key, description, parameters }];
              }),
            ),
          }
        : {}),
      workflow: {
        version: 2,
        entry: Object.keys(states)[0] ?? "",
        ...(Object.keys(engine).length > 0 ? { engine } : {}),
        states: mapped(states, stateOf),
      },
    };
    return JSON.parse(toJsonText(document, `pack ${this.id}`));
  }

  /**
   * Returns the pack as JSON text, as `PawlClient.registerPack` takes it. Throws a PawlError
   * (INVALID_JSON) for a limit or an option that has no JSON form.
   */
  json(): string {
    return `${JSON.stringify(this.document(), undefined, 2)}\n`;
  }

  /**
   * Checks the pack as `pawl validate` does and returns the warnings. `binary` is the program;
   * default: `sidecarPath()`. Throws a PawlError (PACK_INVALID) with all findings if there is an
   * error, and one of kind "sidecar" if there is no program.
   */
  async check(options: { readonly binary?: string } = {}): Promise<string[]> {
    const directory = await mkdtemp(join(tmpdir(), "pawl-pack-"));
    try {
      const file = join(directory, `${this.id}.pack.json`);
      await writeFile(file, this.json());
      return await validated(this.id, options.binary ?? sidecarPath(), file);
    } finally {
      await rm(directory, { recursive: true, force: true });
    }
  }

  /** Checks the pack and writes it to a file, JSON, which is YAML too. Throws as `check`. */
  async write(path: string, options: { readonly binary?: string } = {}): Promise<void> {
    await this.check(options);
    await writeFile(path, this.json());
  }

  #engine(): { readonly [name: string]: Json } {
    const limits = Object.entries(this.#definition.limits ?? {});
    const of = (inBudget: boolean) =>
      Object.fromEntries(limits.filter(([limit]) => BUDGET.includes(limit) === inBudget));
    const [budget, extra] = [of(true), of(false)];
    const options = Object.entries(this.#definition.tools ?? {})
      .filter(([, { options }]) => Object.keys(options).length > 0)
      .map(([name, { options }]) => [name, options]);
    if (options.length > 0) {
      extra.tools = { ...(extra.tools as object | undefined), ...Object.fromEntries(options) };
    }
    return {
      ...(Object.keys(budget).length > 0 ? { budget } : {}),
      ...(Object.keys(extra).length > 0 ? { x_pawl: extra } : {}),
    };
  }
}

function mapped<T>(
  object: { readonly [name: string]: T },
  make: (value: T, name: string) => Json,
): { readonly [name: string]: Json } {
  return Object.fromEntries(Object.entries(object).map(([name, item]) => [name, make(item, name)]));
}

function promptOf(name: string, version: string, state: StateDefinition): Json {
  const { prompt, variables = [], tools = [] } = state;
  const declared = variables.map((variable) => {
    return { name: variable, type: "string", required: true };
  });
  return {
    id: name,
    name,
    version,
    system_template: prompt,
    ...(declared.length > 0 ? { variables: declared } : {}),
    ...(tools.length > 0 ? { tools } : {}),
  };
}

function stateOf(state: StateDefinition, name: string): Json {
  const { max_visits, on_max_visits, orchestration, terminal, artifacts = {}, on = {} } = state;
  return {
    prompt_task: name,
    ...(max_visits ? { max_visits } : {}),
    ...(on_max_visits ? { on_max_visits } : {}),
    ...(Object.keys(artifacts).length > 0 ? { artifacts: mapped(artifacts, artifactOf) } : {}),
    ...(orchestration ? { orchestration } : {}),
    ...(terminal ? { terminal } : {}),
    ...(Object.keys(on).length > 0 ? { on_event: on } : {}),
  };
}

function artifactOf(kind: ArtifactKind): { readonly [name: string]: string } {
  if (typeof kind === "string") {
    return { type: kind };
  }
  return "~standard" in kind ? { type: "application/json" } : { type: kind.type, mode: kind.mode };
}

/** Throws a RangeError for a name that is not valid or not declared, and for wrong limits. */
function checked(id: string, { states, tools = {} }: PackDefinition): void {
  const names = Object.keys(states);
  if (names.length === 0) {
    throw new RangeError(`pack ${id}: it has no state; add one to states`);
  }
  for (const name of Object.keys(tools)) {
    checkName("tool", name);
  }
  for (const [name, state] of Object.entries(states)) {
    checkState(name, state);
    const known = (target: string, what: string) => {
      if (!names.includes(target)) {
        const text = `state ${name}: ${what} leads to "${target}", which is no state`;
        throw new RangeError(`${text}: ${names.join(", ")}`);
      }
    };
    for (const [event, target] of Object.entries(state.on ?? {})) {
      checkName("event", event);
      known(target, `the event "${event}"`);
    }
    if (state.on_max_visits !== undefined) {
      known(state.on_max_visits, "on_max_visits");
    }
    for (const one of state.tools ?? []) {
      if (!(one in tools)) {
        throw new RangeError(`state ${name}: "${one}" is no tool of the pack; add it to tools`);
      }
    }
  }
}

const ORCHESTRATIONS = ["internal", "external", "hybrid"];

function checkState(name: string, state: StateDefinition): void {
  const { max_visits, on_max_visits, orchestration, terminal, artifacts = {}, on = {} } = state;
  if (!STATE.test(name)) {
    throw new RangeError(
      `state "${name}": a name is lower-case letters, digits and "_", and begins with a letter`,
    );
  }
  const limited = max_visits !== undefined || on_max_visits !== undefined;
  if (limited && !(Number.isInteger(max_visits) && (max_visits as number) > 0)) {
    throw new RangeError(
      `state ${name}: max_visits must be positive where it or on_max_visits is set, not ${max_visits}`,
    );
  }
  if (orchestration !== undefined && !ORCHESTRATIONS.includes(orchestration)) {
    const text = `state ${name}: orchestration must be internal, external or hybrid`;
    throw new RangeError(`${text}, not "${orchestration}"`);
  }
  const [event] = Object.keys(on);
  if (terminal && event !== undefined) {
    throw new RangeError(`state ${name}: a terminal state has no events; not "${event}"`);
  }
  for (const [artifact, kind] of Object.entries(artifacts)) {
    const { type = "" } = artifactOf(kind);
    if (!MEDIA.test(type)) {
      const text = `state ${name}: the artifact ${artifact} has the media type "${type}"`;
      throw new RangeError(`${text}; give one like text/plain, or a schema`);
    }
  }
}

function checkName(what: string, name: string): void {
  if (!NAME.test(name)) {
    throw new RangeError(
      `${what} "${name}": a name is letters, digits and "_", and does not begin with a digit`,
    );
  }
}

interface Report {
  readonly files: readonly {
    readonly diagnostics: readonly { code: string; pointer: string; message: string }[];
  }[];
}

/** Returns the findings of `pawl validate`. Throws if it refuses the pack or cannot run. */
function validated(id: string, binary: string, file: string): Promise<string[]> {
  return new Promise((resolve, reject) => {
    execFile(binary, ["validate", "--output", "json", file], (error, stdout, stderr) => {
      let report: Report;
      try {
        report = JSON.parse(stdout);
      } catch {
        const text = `pack ${id}: ${binary} did not check it: ${stderr.trim() || error?.message}`;
        reject(new PawlError("sidecar", text, { cause: error }));
        return;
      }
      const findings = report.files
        .flatMap(({ diagnostics }) => diagnostics)
        .map(({ code, pointer, message }) => `${code} at ${pointer || "/"}: ${message}`);
      if (error) {
        const text = `pack ${id}:\n${findings.join("\n")}`;
        reject(new PawlError("request", text, { reason: "PACK_INVALID" }));
      } else {
        resolve(findings);
      }
    });
  });
}
