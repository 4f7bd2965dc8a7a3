/** Converts protobuf messages to plain read-only values. */

import type { DescField, DescMessage, MessageShape } from "@bufbuild/protobuf";
import { type Duration, durationMs, type Timestamp, timestampDate } from "@bufbuild/protobuf/wkt";
import { common } from "./brand.js";
import { type Json, parseExact } from "./exact_json.js";
import type { ArtifactValue } from "./gen/pawl/v1/record_pb.js";

import { replaceLoneSurrogatesIn } from "./unicode.js";

export type { Json } from "./exact_json.js";

/** Value of an artifact that was read: text, bytes or JSON, by its media type. */
export type ArtifactData = Json | Uint8Array;

type Name<K> = K extends "$typeName" | "$unknown" ? never : K extends `${infer N}Json` ? N : K;

type Field<K, T> = K extends `${string}Json` ? Json | undefined : Plain<T>;

/**
 * A protobuf message as a plain read-only value. 64-bit integers are numbers, timestamps are Date,
 * durations are milliseconds, `fooJson` is the parsed value `foo` (undefined: empty), and artifact
 * values are text, bytes or JSON. Enums stay the generated ones.
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

/** Converts a value of one type. */
type Read = (from: unknown) => unknown;

/** Converts a protobuf message. */
export function plain<D extends DescMessage>(
  schema: D,
  message: MessageShape<D>,
): Plain<MessageShape<D>> {
  return reader(schema)(message) as Plain<MessageShape<D>>;
}

/** Reads JSON text that a server sent; empty text is undefined. */
export function parseJson(text: string): Json | undefined {
  if (text === "") {
    return undefined;
  }
  const value = parseExact(text);
  return HALVES.test(text) ? replaceLoneSurrogatesIn(value) : value;
}

/** An escaped lone surrogate, which journals of earlier programs can contain. */
const HALVES = /\\ud[89a-f]/i;

/** Fields for other packages, which accept no bigint: schemas, settings, a provider's data. */
const ROUNDED = ["parameters_json", "settings_json", "provider_json", "tool_calls_json"];

/**
 * The source texts of JSON values, by their message. A handler of one copy of the package reads the
 * messages of another copy.
 */
const sources = common("sources", () => {
  return new WeakMap<object, { readonly [name: string]: string }>();
});

/** Returns the text from which a value of a message was parsed, byte for byte. */
export function sourceOf(message: object, name: string): string | undefined {
  return sources.get(message)?.[name];
}

/** Converters by type, each made from its descriptor once. */
const readers = new WeakMap<DescMessage, Read>();

function reader(schema: DescMessage): Read {
  const known = readers.get(schema);
  if (known) {
    return known;
  }
  const read = special(schema) ?? fieldwise(schema);
  readers.set(schema, read);
  return read;
}

function special(schema: DescMessage): Read | undefined {
  switch (schema.typeName) {
    case "google.protobuf.Timestamp":
      return (from) => timestampDate(from as Timestamp);
    case "google.protobuf.Duration":
      return (from) => durationMs(from as Duration);
    case "pawl.v1.ArtifactValue":
      return (from) => artifactData((from as ArtifactValue).value);
  }
  return undefined;
}

/** Converts all fields. A recursive type is looked up when it occurs. */
function fieldwise(schema: DescMessage): Read {
  const texts = schema.fields.filter(isJsonField);
  const members = schema.members.map((member) => {
    const from = member.localName;
    return member.kind === "oneof"
      ? { from, to: from, read: oneof(member.fields) }
      : { from, to: nameOf(member), read: optional(value(member)) };
  });
  return (message) => {
    const out: Shape = {};
    for (const { from, to, read } of members) {
      out[to] = read((message as Shape)[from]);
    }
    if (texts.length > 0) {
      const kept = texts.map((field) => [nameOf(field), (message as Shape)[field.localName]]);
      sources.set(out, Object.fromEntries(kept));
    }
    return out;
  };
}

function optional(read: Read): Read {
  return (from) => (from === undefined ? undefined : read(from));
}

function oneof(fields: readonly DescField[]): Read {
  const cases = new Map(fields.map((field) => [field.localName, value(field)]));
  return (given) => {
    const from = given as Oneof;
    const read = from.case === undefined ? undefined : cases.get(from.case);
    return read ? { case: from.case, value: read(from.value) } : { case: undefined };
  };
}

function artifactData(from: Oneof): unknown {
  return from.case === "json" ? parseJson(from.value as string) : from.value;
}

function isJsonField(field: DescField): boolean {
  return field.fieldKind === "scalar" && field.name.endsWith("_json");
}

function json(field: DescField): Read {
  return ROUNDED.includes(field.name)
    ? (from) => (from === "" ? undefined : JSON.parse(from as string))
    : (from) => parseJson(from as string);
}

function nameOf(field: DescField): string {
  return isJsonField(field) ? field.localName.slice(0, -"Json".length) : field.localName;
}

function value(field: DescField): Read {
  switch (field.fieldKind) {
    case "scalar":
      return isJsonField(field) ? json(field) : number;
    case "message":
      return (from) => reader(field.message)(from);
    case "list": {
      const read = element(field);
      return (from) => (from as unknown[]).map(read);
    }
    case "map": {
      const read = element(field);
      return (from) =>
        Object.fromEntries(Object.entries(from as Shape).map(([key, item]) => [key, read(item)]));
    }
    default:
      return (from) => from;
  }
}

function element(field: DescField & { fieldKind: "list" | "map" }): Read {
  const kind = field.fieldKind === "list" ? field.listKind : field.mapKind;
  if (kind === "message") {
    return (item) => reader(field.message as DescMessage)(item);
  }
  return kind === "scalar" ? number : (item) => item;
}

/** 64-bit integers of the contract are counts and sizes, far below 2^53. */
function number(from: unknown): unknown {
  return typeof from === "bigint" ? Number(from) : from;
}
