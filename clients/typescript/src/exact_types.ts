/** Types of handlers of a pack, and the check that their replies have only declared fields. */

import type { LanguageModel } from "./language_model.js";
import type { Reply } from "./reply.js";
import type { Handler } from "./turn.js";
import type { IsLoose, NameOf, PackTypes, TurnOf, TurnTypes } from "./types.js";

// TypeScript lets a function return more properties than its type has, so the inferred type of the
// returned value is checked.

type KeysOf<T> = T extends unknown ? keyof T : never;

type Made<H> = H extends (...given: never[]) => infer R ? Awaited<R> : never;

type UnknownArtifacts<R, A> = R extends { readonly artifacts?: infer Given }
  ? IsLoose<NonNullable<Given>> extends true
    ? never
    : Exclude<KeysOf<NonNullable<Given>>, keyof A>
  : never;

type Undeclared<R, T extends TurnTypes> =
  | Exclude<KeysOf<R>, keyof Reply>
  | UnknownArtifacts<R, T["artifacts"]>;

/** The undeclared fields that a handler returns; never: it returns none. */
export type ExactReply<H, T extends TurnTypes> = [Undeclared<Made<H>, T>] extends [never]
  ? unknown
  : { readonly "not declared": Undeclared<Made<H>, T> };

/**
 * One handler or model for all turns, or a handler for each prompt; "*" executes the other prompts.
 */
export type HandlersOf<P extends PackTypes> =
  | Handler<P["turns"]>
  | LanguageModel
  | (IsLoose<P["prompts"]> extends true
      ? Readonly<{ [prompt: string]: Handler<P["turns"]> }>
      : { readonly [N in NameOf<P["prompts"]>]?: Handler<TurnOf<P, N>> });

/** As `Exact`, for one handler, or one for each prompt. */
export type ExactHandlers<H, P extends PackTypes> = H extends (...given: never[]) => unknown
  ? ExactReply<H, P["turns"]>
  : H extends LanguageModel
    ? unknown
    : {
        readonly [N in keyof H]: N extends NameOf<P["prompts"]>
          ? ExactReply<H[N], TurnOf<P, N>>
          : never;
      };
