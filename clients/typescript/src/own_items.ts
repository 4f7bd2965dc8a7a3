/**
 * What a provider wants to have back with an answer, as `provider` has it. The Python client
 * writes and reads the same, so that a turn may move between workers of both.
 */

import type { Said } from "./dialect.js";
import type { Json } from "./plain.js";

/** An item of the provider's own, "text" for the text, or the index of a call. */
export type Place = { readonly own: Json } | "text" | number;

/**
 * Items as they are recorded, by the provider's name; undefined: there are none. `places` says
 * where they are among the text and the calls, unless they all come first.
 */
export function placed(provider: string, places: readonly Place[]): Json | undefined {
  const own = places.flatMap((place) => (typeof place === "object" ? [place.own] : []));
  if (own.length === 0) {
    return undefined;
  }
  const first = places.slice(0, own.length).every((place) => typeof place === "object");
  const order = places.map((place) => (typeof place === "object" ? "own" : place));
  return first ? { [provider]: own } : { [provider]: own, places: order };
}

/** The places of a message; items of another provider are left out. */
export function placesOf(provider: string, message: Said, calls: number): readonly Place[] {
  const known = message.provider as { readonly [name: string]: Json } | undefined;
  const kept = known?.[provider];
  const own = Array.isArray(kept) ? kept.map((item: Json): Place => ({ own: item })) : [];
  if (own.length > 0 && Array.isArray(known?.places)) {
    const order = known.places as readonly ("own" | "text" | number)[];
    return order.flatMap((place) => (place === "own" ? own.splice(0, 1) : [place]));
  }
  return [...own, "text", ...Array.from({ length: calls }, (_, index) => index)];
}
