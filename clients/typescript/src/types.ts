/** What `pawl codegen` makes of a pack: the parameters of the classes of the API. */

import type { ArtifactData, Json } from "./plain_message.js";
import type { ArtifactLike, Artifacts, JsonText } from "./values.js";

/** Tools by name: what they take, and what they give. */
export interface ToolTypes {
  readonly [name: string]: { readonly arguments: unknown; readonly result: unknown };
}

/** What the turns of one prompt are. */
export interface TurnTypes {
  readonly events: string;
  readonly artifacts: object;
  readonly variables: unknown;
  readonly tools: ToolTypes;
}

/** What a pack is; the interface that `pawl codegen` writes fits it. */
export interface PackTypes {
  /** Events of all states. */
  readonly events: string;
  /** Artifacts of the workflow. */
  readonly artifacts: object;
  /** Variables of the pack's own entry. */
  readonly variables: object;
  /** Variables of the entries of agents. */
  readonly agents: object;
  readonly tools: ToolTypes;
  /** A turn of any prompt. */
  readonly turns: TurnTypes;
  readonly prompts: { readonly [name: string]: TurnTypes };
}

interface AnyTools {
  readonly [name: string]: { readonly arguments: Json; readonly result: Json };
}

/** Turns without known types. */
export interface AnyTurn {
  readonly events: string;
  readonly artifacts: { readonly [name: string]: ArtifactLike };
  readonly variables: Json | undefined;
  readonly tools: AnyTools;
}

/** A pack without known types. */
export interface AnyPack {
  readonly events: string;
  readonly artifacts: { readonly [name: string]: ArtifactLike };
  readonly variables: Readonly<{ [name: string]: Json }>;
  readonly agents: { readonly [name: string]: Readonly<{ [name: string]: Json }> };
  readonly tools: AnyTools;
  readonly turns: AnyTurn;
  readonly prompts: { readonly [name: string]: AnyTurn };
}

declare const types: unique symbol;

/** The name of a pack, a string, which carries the pack's types: `pawl codegen` makes it. */
export type PackName<P> = string & { readonly [types]?: P };

/** What a step of an agent is answered with: docs/guides/a2a.md, "Delegation". */
export type AgentResult = {
  readonly status: string;
  readonly reason?: string;
  readonly output?: Json;
  readonly artifacts?: { readonly [name: string]: Json };
  readonly task_id?: string;
  readonly card_url?: string;
};

/** Whether some names are unknown. */
export type IsLoose<T> = string extends keyof T ? true : false;

type NamesOf<T> = keyof T & string;

/** Artifacts to write, by name. */
export type Writes<A> = [A[keyof A]] extends [never]
  ? { readonly [name: string]: never }
  : IsLoose<A> extends true
    ? Artifacts
    : { readonly [K in keyof A]?: A[K] | JsonText };

/** Artifacts as they are read, by name; one that was not written is not there. */
export type Values<A> =
  IsLoose<A> extends true
    ? Readonly<{ [name: string]: ArtifactData }>
    : { readonly [K in keyof A]?: A[K] };

type Rest<A, Options> =
  Record<never, never> extends A
    ? [payload?: A, options?: Options]
    : [payload: A, options?: Options];

/** What `Turn.step` may be called with. */
export type StepCalls<T extends TurnTypes, Options> = {
  [N in NamesOf<T["tools"]>]: [tool: N, ...rest: Rest<T["tools"][N]["arguments"], Options>];
}[NamesOf<T["tools"]>];

/** The turns of a prompt; "*": of any. */
export type TurnOf<P extends PackTypes, N> = N extends keyof P["prompts"]
  ? P["prompts"][N]
  : P["turns"];

/** What a tool takes; "*": what any does. */
export type ArgumentsOf<P extends PackTypes, N> = N extends keyof P["tools"]
  ? P["tools"][N]["arguments"]
  : P["tools"][keyof P["tools"]]["arguments"];

/** The names of the prompts or tools of a pack, and "*". */
export type NameOf<T> = NamesOf<T> | "*";

/** A name, where the names are unknown. */
export type LooseName<T> = IsLoose<T> extends true ? string : never;

/** How a run is started: at the pack's entry, as an agent, or at a state. */
export type Entry<P extends PackTypes> =
  IsLoose<P["agents"]> extends true
    ? {
        readonly agent?: string | undefined;
        readonly state?: string | undefined;
        readonly variables?: P["variables"] | undefined;
      }
    :
        | {
            readonly agent?: undefined;
            readonly state?: undefined;
            readonly variables?: P["variables"];
          }
        | {
            [N in NamesOf<P["agents"]>]: {
              readonly agent: N;
              readonly state?: undefined;
              readonly variables?: P["agents"][N];
            };
          }[NamesOf<P["agents"]>]
        | {
            readonly agent?: undefined;
            readonly state: string;
            readonly variables?: Partial<P["turns"]["variables"]>;
          };
