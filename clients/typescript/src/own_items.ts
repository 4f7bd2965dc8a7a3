/**
 * What a provider wants to have back with an answer, as `provider` has it: its own items in
 * their places among the text and the calls, which are recorded without them.
 */

import type { Said } from "./dialect.js";
import type { Json } from "./plain.js";

/** An item of the provider's own, "text" for the text, or the index of a call. */
export type Place = { readonly own: Json } | "text" | number;

/** Items as they are recorded; undefined: there is nothing but the text and the calls. */
export function placed(form: string, places: readonly Place[]): Json | undefined {
  return places.some((place) => typeof place === "object") ? { [form]: [...places] } : undefined;
}

/** The places of a message; those of another provider are left out. */
export function placesOf(form: string, message: Said, calls: number): readonly Place[] {
  const known = (message.provider as { readonly [form: string]: Json } | undefined)?.[form];
  return Array.isArray(known)
    ? (known as unknown as Place[])
    : ["text", ...Array.from({ length: calls }, (_, index) => index)];
}
