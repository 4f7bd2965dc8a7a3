/** The types that `pawl codegen` generates for a pack, as parameters of the API's classes. */

import type { ArtifactData, Json } from "./plain_message.js";
import type { ArtifactLike, Artifacts, JsonText } from "./values.js";

/** Tools by name, with their arguments and results. */
export interface ToolTypes {
  readonly [name: string]: { readonly arguments: unknown; readonly result: unknown };
}

/** The types of the turns of one prompt. */
export interface TurnTypes {
  readonly events: string;
  readonly artifacts: object;
  readonly variables: unknown;
  readonly tools: ToolTypes;
}

/** The types of a pack; the interface that `pawl codegen` writes extends it. */
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

/** The name of a pack, a string with the pack's types, which `pawl codegen` writes. */
export type PackName<P> = string & { readonly [types]?: P };

/** The result of a step that called an agent: docs/guides/a2a.md, "Delegation". */
export type AgentResult = {
  readonly status: string;
  readonly reason?: string;
  readonly output?: Json;
  readonly artifacts?: { readonly [name: string]: Json };
  readonly task_id?: string;
  readonly card_url?: string;
};

/** Whether the names of a type are unknown. */
export type IsLoose<T> = string extends keyof T ? true : false;

type NamesOf<T> = keyof T & string;

/** Artifacts to write, by name. */
export type Writes<A> = [A[keyof A]] extends [never]
  ? { readonly [name: string]: never }
  : IsLoose<A> extends true
    ? Artifacts
    : { readonly [K in keyof A]?: A[K] | JsonText };

/** Values of artifacts that were read, by name; an artifact that was never written is missing. */
export type Values<A> =
  IsLoose<A> extends true
    ? Readonly<{ [name: string]: ArtifactData }>
    : { readonly [K in keyof A]?: A[K] };

type Rest<A, Options> =
  Record<never, never> extends A
    ? [payload?: A, options?: Options]
    : [payload: A, options?: Options];

/** The arguments of `Turn.step`. */
export type StepCalls<T extends TurnTypes, Options> = {
  [N in NamesOf<T["tools"]>]: [tool: N, ...rest: Rest<T["tools"][N]["arguments"], Options>];
}[NamesOf<T["tools"]>];

/** The turns of a prompt; "*": of any prompt. */
export type TurnOf<P extends PackTypes, N> = N extends keyof P["prompts"]
  ? P["prompts"][N]
  : P["turns"];

/** The arguments of a tool; "*": of any tool. */
export type ArgumentsOf<P extends PackTypes, N> = N extends keyof P["tools"]
  ? P["tools"][N]["arguments"]
  : P["tools"][keyof P["tools"]]["arguments"];

/** The names of the prompts or tools of a pack, and "*". */
export type NameOf<T> = NamesOf<T> | "*";

/** Any name, if the names are unknown. */
export type LooseName<T> = IsLoose<T> extends true ? string : never;

/** Where a run starts: at the pack's entry, at an agent, or at a state. */
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
