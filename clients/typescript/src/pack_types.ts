/** The types of a pack that a program defines. */

import type { Json } from "./plain_message.js";
import type { StandardSchema } from "./standard_schema.js";
import type { ToolCall } from "./tool_call.js";

/** A JSON Schema, as an object. */
export interface JsonSchema {
  readonly [word: string]: Json;
}

/**
 * The type of the values of a JSON Schema that is written `as const`. It reads type, properties,
 * required, items, enum and const; other keywords are checked at run time only.
 */
export type FromSchema<S> = S extends { readonly const: infer T }
  ? T
  : S extends { readonly enum: readonly (infer T)[] }
    ? T
    : S extends { readonly type: "string" }
      ? string
      : S extends { readonly type: "number" | "integer" }
        ? number
        : S extends { readonly type: "boolean" }
          ? boolean
          : S extends { readonly type: "null" }
            ? null
            : S extends { readonly type: "array" }
              ? readonly (S extends { readonly items: infer I } ? FromSchema<I> : Json)[]
              : S extends { readonly properties: infer Properties }
                ? Members<Properties, RequiredOf<S>>
                : S extends { readonly type: "object" }
                  ? { readonly [name: string]: Json }
                  : Json;

type RequiredOf<S> = S extends { readonly required: readonly (infer N)[] } ? N : never;

type Members<Properties, Required> = {
  readonly [N in keyof Properties as N extends Required ? N : never]: FromSchema<Properties[N]>;
} & {
  readonly [N in keyof Properties as N extends Required ? never : N]?: FromSchema<Properties[N]>;
};

/** A tool of a pack, which `tool` makes. */
export interface PackTool<Arguments> {
  /** What the model reads about the tool. */
  readonly description: string;
  /** The JSON Schema of its arguments. */
  readonly parameters: JsonSchema;
  /** The keys of `x_pawl.tools.NAME`. */
  readonly options: { readonly [option: string]: Json };
  /** The function, as `Worker.tool` and `tools` of `PawlClient.run` take it. */
  readonly run: (payload: Arguments, call: ToolCall) => Json | Promise<Json>;
}

/** The media type of an artifact, or a schema of a JSON artifact. */
export type ArtifactKind = string | Appended | StandardSchema;

/** The type of an artifact that collects values; `append` makes it. */
export interface Appended {
  readonly type: string;
  readonly mode: "append";
}

/** A state, with its prompt. The names are those of the pack format: docs/guides/packs.md. */
export interface StateDefinition {
  /** Template of the system prompt: `{{NAME}}` is a variable, `{{artifacts.NAME}}` an artifact. */
  readonly prompt: string;
  /** Names of the tools that the model may call. Default: none. */
  readonly tools?: readonly string[];
  /** Artifacts that the state writes or reads. Default: none. */
  readonly artifacts?: { readonly [name: string]: ArtifactKind };
  /** Variables of the prompt; a start of a run has to give each. Default: none. */
  readonly variables?: readonly string[];
  /** The events, with the states to which they lead. Default: none. */
  readonly on?: { readonly [event: string]: string };
  /** Most visits of the state in a run. Default: no limit. */
  readonly max_visits?: number;
  /** The state that the run enters in place of one visit more. */
  readonly on_max_visits?: string;
  /** Who moves the run. Default: internal. */
  readonly orchestration?: "internal" | "external" | "hybrid";
  /** True means that a run ends here. Default: false. */
  readonly terminal?: boolean;
}

/** A pack: its states, the first of which is the entry, its tools and its limits. */
export interface PackDefinition {
  /** A semantic version. Default: "1.0.0". */
  readonly version?: string;
  /** For people. Default: the id. */
  readonly name?: string;
  /** For people. Default: none. */
  readonly description?: string;
  readonly states: { readonly [name: string]: StateDefinition };
  /** Default: none. */
  readonly tools?: { readonly [name: string]: PackTool<never> };
  /**
   * Limits of the whole run: max_total_visits, max_tool_calls and max_wall_time_sec are those of the
   * format's budget, every other one is a key of `x_pawl`. Default: none.
   */
  readonly limits?: { readonly [limit: string]: Json };
}

type NamesOf<T> = keyof T & string;

type ToolsIn<D extends PackDefinition> = D["tools"] extends object ? D["tools"] : Empty;

type Empty = Readonly<Record<never, never>>;

/** What each state of a definition may name: states and tools of the same definition. */
export type Consistent<D extends PackDefinition> = {
  readonly states: {
    readonly [S in keyof D["states"]]: {
      readonly on?: { readonly [E in keyof D["states"][S]["on"]]: NamesOf<D["states"]> };
      readonly on_max_visits?: NamesOf<D["states"]>;
      readonly tools?: readonly NamesOf<ToolsIn<D>>[];
    };
  };
};

type EventsOf<S> = S extends { readonly on: infer On } ? NamesOf<On> : never;

type VariablesOf<S> = S extends { readonly variables: readonly (infer N extends string)[] }
  ? N
  : never;

type ListedBy<S> = S extends { readonly tools: readonly (infer N)[] } ? N : never;

type ArtifactsOf<S> = S extends { readonly artifacts: infer A } ? A : never;

type KeysOf<T> = T extends unknown ? keyof T : never;

type At<T, K> = T extends unknown ? (K extends keyof T ? T[K] : never) : never;

type ArtifactType<Kind> =
  Kind extends StandardSchema<unknown, infer T>
    ? T
    : Kind extends `text/${string}` | { readonly type: `text/${string}` }
      ? string
      : Kind extends "application/json" | Appended
        ? Json
        : Json | Uint8Array;

/** An object type without known names, as `pawl codegen` writes it. */
type Nothing = { readonly [name: string]: never };

type OrNothing<T> = [keyof T] extends [never] ? Nothing : T;

type AllArtifacts<D extends PackDefinition> = OrNothing<{
  readonly [A in KeysOf<ArtifactsOf<D["states"][keyof D["states"]]>> & string]: ArtifactType<
    At<ArtifactsOf<D["states"][keyof D["states"]]>, A>
  >;
}>;

type Texts<N extends string> = OrNothing<{ readonly [V in N]: string }>;

type AllTools<D extends PackDefinition> = {
  readonly [N in NamesOf<ToolsIn<D>>]: {
    readonly arguments: ToolsIn<D>[N] extends PackTool<infer A> ? A : never;
    readonly result: Json;
  };
};

type States<D extends PackDefinition> = D["states"][keyof D["states"]];

/** The types of the pack of a definition, as `pawl codegen` would write them. */
export type DefinedTypes<D extends PackDefinition> = {
  readonly events: EventsOf<States<D>>;
  readonly artifacts: AllArtifacts<D>;
  readonly variables: Texts<VariablesOf<States<D>>>;
  readonly agents: Empty;
  readonly tools: AllTools<D>;
  readonly turns: {
    readonly events: EventsOf<States<D>>;
    readonly artifacts: AllArtifacts<D>;
    readonly variables: Texts<VariablesOf<States<D>>>;
    readonly tools: AllTools<D>;
  };
  readonly prompts: {
    readonly [S in NamesOf<D["states"]>]: {
      readonly events: EventsOf<D["states"][S]>;
      readonly artifacts: AllArtifacts<D>;
      readonly variables: Texts<VariablesOf<D["states"][S]>>;
      readonly tools: Pick<AllTools<D>, ListedBy<D["states"][S]> & keyof AllTools<D>>;
    };
  };
};
