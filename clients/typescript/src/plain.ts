/** Messages of the wire as plain read-only values. */

import type { DescField, DescMessage, Message, MessageShape } from "@bufbuild/protobuf";
import { type Duration, durationMs, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import type { ArtifactValue } from "./gen/pawl/v1/record_pb.js";

/** Any JSON value. */
export type Json =
  | string
  | number
  | boolean
  | null
  | readonly Json[]
  | { readonly [key: string]: Json };

/** Value of an artifact as it is read: text, bytes, or JSON, by its media type. */
export type ArtifactData = Json | Uint8Array;

type Name<K> = K extends "$typeName" | "$unknown" ? never : K extends `${infer N}Json` ? N : K;

type Field<K, T> = K extends `${string}Json` ? Json | undefined : Plain<T>;

/**
 * A message as a plain read-only value: 64-bit integers as numbers, timestamps as
 * Date, durations as milliseconds, `fooJson` as the parsed value `foo` (undefined:
 * empty), artifact values as text, bytes or JSON. Enums stay the generated ones.
 */
export type Plain<T> = T extends bigint
  ? number
  : T extends Timestamp
    ? Date
    : T extends Duration
      ? number
      : T extends ArtifactValue
        ? ArtifactData
        : T extends Uint8Array
          ? Uint8Array
          : T extends readonly (infer E)[]
            ? readonly Plain<E>[]
            : T extends object
              ? { readonly [K in keyof T as Name<K>]: Field<K, T[K]> }
              : T;

type Shape = Record<string, unknown>;
type Oneof = { case?: string; value?: unknown };

/** Reads a message of the wire. */
export function plain<D extends DescMessage>(
  schema: D,
  message: MessageShape<D>,
): Plain<MessageShape<D>> {
  return shape(schema, message) as Plain<MessageShape<D>>;
}

/** Reads JSON text that a server sent; empty text is undefined. */
export function parseJson(text: string): Json | undefined {
  return text === "" ? undefined : (JSON.parse(text) as Json);
}

function shape(schema: DescMessage, message: Message): unknown {
  const from = message as unknown as Shape;
  switch (schema.typeName) {
    case "google.protobuf.Timestamp":
      return timestampDate(message as Timestamp);
    case "google.protobuf.Duration":
      return durationMs(message as Duration);
    case "pawl.v1.ArtifactValue":
      return artifactData((message as ArtifactValue).value);
  }
  const out: Shape = {};
  for (const member of schema.members) {
    if (member.kind === "oneof") {
      out[member.localName] = oneof(member.fields, from[member.localName] as Oneof);
    } else {
      out[nameOf(member)] = value(member, from[member.localName]);
    }
  }
  return out;
}

function oneof(fields: readonly DescField[], from: Oneof): Oneof {
  const field = fields.find((candidate) => candidate.localName === from.case);
  return field ? { case: from.case, value: value(field, from.value) } : { case: undefined };
}

function artifactData(from: Oneof): unknown {
  return from.case === "json" ? parseJson(from.value as string) : from.value;
}

function isJsonField(field: DescField): boolean {
  return field.fieldKind === "scalar" && field.name.endsWith("_json");
}

function nameOf(field: DescField): string {
  return isJsonField(field) ? field.localName.slice(0, -"Json".length) : field.localName;
}

function value(field: DescField, from: unknown): unknown {
  if (from === undefined) {
    return undefined;
  }
  switch (field.fieldKind) {
    case "scalar":
      return isJsonField(field) ? parseJson(from as string) : number(from);
    case "message":
      return shape(field.message, from as Message);
    case "list":
      return (from as unknown[]).map((item) => element(field, item));
    case "map":
      return Object.fromEntries(
        Object.entries(from as Shape).map(([key, item]) => [key, element(field, item)]),
      );
    default:
      return from;
  }
}

function element(field: DescField & { fieldKind: "list" | "map" }, item: unknown): unknown {
  const kind = field.fieldKind === "list" ? field.listKind : field.mapKind;
  if (kind === "message") {
    return shape(field.message as DescMessage, item as Message);
  }
  return kind === "scalar" ? number(item) : item;
}

/** 64-bit integers of the contract are counts and sizes, far below 2^53. */
function number(from: unknown): unknown {
  return typeof from === "bigint" ? Number(from) : from;
}
