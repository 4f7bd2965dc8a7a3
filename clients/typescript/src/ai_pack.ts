/** The pack of an agent of the AI SDK: one state, its tools and its limits. */

import { createHash } from "node:crypto";
import { asSchema, type ToolSet } from "ai";
import { Pack, tool as packTool } from "./pack.js";
import type { JsonSchema, PackDefinition } from "./pack_types.js";
import type { Json } from "./plain_message.js";

/** Limits of an agent, as `bounds` makes them. */
export interface Bounds {
  /** Keys of `x_pawl` and of the format's budget. */
  readonly limits: { readonly [limit: string]: Json };
  /** Keys of `x_pawl.tools.NAME`, by tool. */
  readonly tools: { readonly [tool: string]: { readonly [option: string]: Json } };
}

/** Prices of one million tokens of a model, in US dollars. */
export interface Price {
  readonly input: number;
  readonly output: number;
  /** Default: that of `input`. */
  readonly cached?: number;
}

/** What `bounds` takes. A limit that is not set does not hold, except for wall time and approvals. */
export interface BoundsOptions {
  /** Most tool calls of the run. */
  readonly maxToolCalls?: number;
  /** Most tokens that its model calls may consume. */
  readonly maxTokens?: number;
  /** Most that the run may cost, in US dollars. Each model needs a price. */
  readonly maxCostUsd?: number;
  /** Longest time from start to end, in seconds. */
  readonly maxWallTimeSec?: number;
  /** Prices of models by their id. Default: those of the operator (`serve --prices`). */
  readonly prices?: { readonly [model: string]: Price };
  /**
   * Which calls wait for a person: true for all calls of a tool, or a CEL expression over `payload`.
   * Default: calls of the tools with `needsApproval: true`.
   */
  readonly approve?: { readonly [tool: string]: boolean | string };
  /**
   * Tools that may be called again after an unknown outcome, up to three times: those that only
   * read, or that give the call's idempotency key to their service. Default: none; the run of a call
   * with an unknown outcome ends ESCALATED for a person.
   */
  readonly repeat?: readonly string[];
  /** Further keys of `x_pawl.tools.NAME`: attempts, on_unknown, cost, timeout_sec, dedupe, … */
  readonly tools?: { readonly [tool: string]: { readonly [option: string]: Json } };
  /** Further keys of `x_pawl`: on_budget, model_calls, retry, … */
  readonly engine?: { readonly [key: string]: Json };
}

/**
 * Returns the limits of an agent in the words of the pack format. The sidecar enforces them; no
 * prompt and no model can raise them.
 *
 *     const limits = bounds({
 *       maxToolCalls: 20,
 *       maxCostUsd: 0.5,
 *       approve: { refund: "payload.amount > 100.0" },
 *       repeat: ["search"],
 *       tools: { refund: { timeout_sec: 30 } },
 *     });
 */
export function bounds(options: BoundsOptions): Bounds {
  const { maxToolCalls, maxTokens, maxCostUsd, maxWallTimeSec, prices } = options;
  const { approve = {}, repeat = [], tools = {}, engine = {} } = options;
  const limits = {
    max_tool_calls: maxToolCalls,
    max_tokens: maxTokens,
    max_cost_usd: maxCostUsd,
    max_wall_time_sec: maxWallTimeSec,
    prices: prices as Json | undefined,
  };
  const set = Object.entries(limits).filter(([, limit]) => limit !== undefined);
  const rules = (name: string): { readonly [option: string]: Json } => {
    const rule = approve[name];
    const text = typeof rule === "string" ? rule : rule ? "always" : "never";
    return {
      ...(rule === undefined ? {} : { approve: text }),
      ...(repeat.includes(name) ? REPEATED : {}),
      ...tools[name],
    };
  };
  const names = new Set([...Object.keys(approve), ...repeat, ...Object.keys(tools)]);
  return {
    limits: { ...engine, ...(Object.fromEntries(set) as { [limit: string]: Json }) },
    tools: Object.fromEntries([...names].map((name) => [name, rules(name)])),
  };
}

/** What the pack of an agent is made of. */
export interface AgentPackOptions<T extends ToolSet = ToolSet> {
  /** Id of the pack: lower-case letters, digits and "-". */
  readonly name: string;
  /** The tools of the agent. Default: none. */
  readonly tools?: T;
  /** Its limits, from `bounds`. Default: none. */
  readonly bounds?: Bounds;
}

/** The pack of an agent, and the tools as it declares them. */
export interface AgentPack {
  readonly pack: Pack<PackDefinition>;
  /** The name under which runs start: "id@version". */
  readonly reference: string;
  /** Tools whose calls the sidecar may hold for a person, so the SDK does not ask by itself. */
  readonly approved: readonly string[];
}

/** How many calls of tools may be open at the same time. */
const MAX_PENDING = 1024;

/**
 * Returns the pack of an agent, which `agent` registers: one state with the tools and the limits.
 * Its version is a digest of its content, so a run keeps the pack with which it began. Rejects with
 * a RangeError for a name or a limit that no pack can have.
 *
 *     const { pack } = await agentPack({ name: "support", tools: {}, bounds: bounds({ maxTokens: 9000 }) });
 *     console.log(pack.json());
 */
export async function agentPack(options: AgentPackOptions): Promise<AgentPack> {
  const { name, tools = {}, bounds: { limits, tools: rules } = bounds({}) } = options;
  const unknown = Object.keys(rules).find((tool) => !Object.hasOwn(tools, tool));
  if (unknown !== undefined) {
    const known = Object.keys(tools).join(", ") || "none";
    throw new RangeError(`bounds: "${unknown}" is no tool of the agent ${name}; tools: ${known}`);
  }
  const durable = Object.entries(tools).filter(([, { execute }]) => typeof execute === "function");
  const named = new Map<string, string>();
  const declared = await Promise.all(
    durable.map(async ([key, tool]) => {
      const { description } = tool;
      const own = toolName(key);
      const other = named.get(own);
      if (other !== undefined) {
        throw new RangeError(`tools: "${other}" and "${key}" have one name in a pack, "${own}"`);
      }
      named.set(own, key);
      const about = {
        description: typeof description === "string" && description ? description : key,
        options: optionsOf(tool, rules[key]),
        parameters: await parametersOf(tool),
      };
      return [own, packTool(about, () => null)] as const;
    }),
  );
  const prompt = "The program of the AI SDK has the prompt.";
  const states = {
    agent: { prompt, tools: declared.map(([key]) => key), terminal: true },
  };
  const most = { max_pending_steps: MAX_PENDING, ...limits };
  const definition: PackDefinition = {
    states,
    tools: Object.fromEntries(declared),
    limits: most,
  };
  const draft = new Pack(name, definition);
  const digest = createHash("sha256").update(draft.json()).digest("hex").slice(0, 16);
  const version = `1.0.0-h${digest}`;
  const pack = new Pack<PackDefinition>(name, { ...definition, version });
  const approved = declared.filter(([, { options: own }]) => "approve" in own).map(([key]) => key);
  return { pack, reference: `${name}@${version}`, approved };
}

/** Returns the name of a tool in a pack, which has letters, digits and "_" only. */
export function toolName(name: string): string {
  return name.replace(/^(?=\d)|[^A-Za-z0-9_]/g, "_");
}

/** A tool that may be called again. */
const REPEATED = { attempts: 3, on_unknown: "retry" };

/** A tool that ends in an unknown way is not repeated by itself: a person has to look. */
const CAREFUL = { attempts: 1, on_unknown: "escalate" };

function optionsOf(
  { needsApproval }: ToolSet[string],
  rules: { readonly [option: string]: Json } = {},
): { readonly [option: string]: Json } {
  const approve: { readonly [option: string]: Json } =
    needsApproval === true ? { approve: "always" } : {};
  return { ...CAREFUL, ...approve, ...rules };
}

async function parametersOf({ inputSchema }: ToolSet[string]): Promise<JsonSchema> {
  const given = (await asSchema(inputSchema).jsonSchema) as JsonSchema;
  const words = Object.entries(given).filter(([word]) => word !== "$schema");
  // The pack format requires properties of an object.
  return { type: "object", properties: {}, ...Object.fromEntries(words) };
}
