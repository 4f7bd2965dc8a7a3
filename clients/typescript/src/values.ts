/** Content and artifacts on the way to the wire. */

import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { brand } from "./brand.js";
import type {
  ArtifactValueSchema,
  ArtifactWriteSchema,
  MessageSchema,
  Part as WirePart,
} from "./gen/pawl/v1/record_pb.js";
import { PartSchema } from "./gen/pawl/v1/record_pb.js";
import { toJsonText, wholeText } from "./json_text.js";
import type { Json, Plain } from "./plain_message.js";

/** One piece of a message. */
export type Part = Plain<WirePart>;

/** Bytes with their type, or where they are. */
export type MediaPart = {
  /** Default: by the form of the content. */
  readonly mediaType?: string;
  /** Name to show. Default: none. */
  readonly filename?: string;
} & ({ readonly data: Uint8Array } | { readonly uri: string });

/** One piece of a message as it is given: text, bytes, media, or a JSON value. */
export type PartLike = string | Uint8Array | Json | JsonText | MediaPart;

/** Content of a message: one piece, or several in order. */
export type Content = string | Uint8Array | JsonText | readonly PartLike[];

/**
 * A JSON value, where a string would otherwise be taken as text. Made by `json`.
 *
 *     const value = json("x");
 *     console.log(value instanceof JsonText, value.value);
 */
export class JsonText {
  static {
    brand(JsonText, "JsonText");
  }

  constructor(
    readonly value: Json,
    /** The value as JSON text, where it is to be told in those very bytes. */
    readonly text?: string,
  ) {}
}

/**
 * Marks a value as JSON: `json("x")` is the JSON string, not the text.
 *
 *     await run.setArtifacts({ verdict: json("ok") });
 */
export function json(value: Json): JsonText {
  return new JsonText(value);
}

/** Value of an artifact as it is given. */
export type ArtifactLike = string | Uint8Array | Json | JsonText;

/** Values to write, by artifact name. */
export type Artifacts = Readonly<Record<string, ArtifactLike>>;

/** Declared media types of artifacts, as in `Turn.artifactSlots`. */
export type Slots = readonly { readonly name: string; readonly mediaType: string }[];

/** A message of a conversation as it is given. */
export interface MessageLike {
  readonly role: "user" | "assistant" | "tool" | "system";
  readonly content: Content;
  /** A model's own tool calls, kept as they are. */
  readonly toolCalls?: Json;
  /** For role "tool": which call this answers. */
  readonly toolCallId?: string;
  /** What the model's provider wants to have back with the message, kept as it is. */
  readonly provider?: Json;
  /** Why the model would not answer. */
  readonly refusal?: string;
}

/** Parts of the wire for some content. */
export function partsOf(content: Content | undefined): WirePart[] {
  if (content === undefined) {
    return [];
  }
  const items = Array.isArray(content) ? content : [content];
  return items.map((item, index) => create(PartSchema, partOf(item, index)));
}

function partOf(item: PartLike, index: number): MessageInitShape<typeof PartSchema> {
  if (typeof item === "string") {
    return { content: { case: "text", value: wholeText(item, `parts[${index}]`) } };
  }
  if (item instanceof Uint8Array) {
    return { content: { case: "data", value: item } };
  }
  if (isMedia(item)) {
    const { mediaType = "", filename = "" } = item;
    const content =
      "data" in item
        ? { case: "data" as const, value: item.data }
        : { case: "uri" as const, value: item.uri };
    return { content, mediaType, filename };
  }
  return { content: { case: "json", value: toJsonText(item, `parts[${index}]`) } };
}

const MEDIA_KEYS = ["data", "uri", "mediaType", "filename"];

/** Whether it is bytes or an address, and has no other field. */
function isMedia(item: PartLike): item is MediaPart {
  if (typeof item !== "object" || item === null) {
    return false;
  }
  const { data, uri } = item as { data?: unknown; uri?: unknown };
  return (
    data instanceof Uint8Array !== (typeof uri === "string") &&
    Object.keys(item).every((key) => MEDIA_KEYS.includes(key))
  );
}

/**
 * The text of some parts, those that are no text left out.
 *
 *     console.log(textOf(turn.messages.at(-1)?.parts ?? []));
 */
export function textOf(parts: readonly Pick<Part, "content">[]): string {
  return parts.map((part) => (part.content.case === "text" ? part.content.value : "")).join("");
}

/** A message of the wire. */
export function messageOf(message: MessageLike): MessageInitShape<typeof MessageSchema> {
  return {
    role: message.role,
    parts: partsOf(message.content),
    toolCallsJson:
      message.toolCalls === undefined ? "" : toJsonText(message.toolCalls, "toolCalls"),
    toolCallId: message.toolCallId ?? "",
    providerJson: message.provider === undefined ? "" : toJsonText(message.provider, "provider"),
    refusal: message.refusal ?? "",
  };
}

/** Writes of the wire. The declared types in `slots` decide the form of a value. */
export function writesOf(
  artifacts: Artifacts | undefined,
  slots: Slots = [],
): MessageInitShape<typeof ArtifactWriteSchema>[] {
  return Object.entries(artifacts ?? {}).map(([name, value]) => ({
    name,
    value: { value: formOf(name, value, slots.find((slot) => slot.name === name)?.mediaType) },
  }));
}

function formOf(
  name: string,
  value: ArtifactLike,
  mediaType: string | undefined,
): MessageInitShape<typeof ArtifactValueSchema>["value"] {
  if (value instanceof Uint8Array) {
    return { case: "data", value };
  }
  const isJson = mediaType === "application/json" || mediaType?.endsWith("+json");
  if (typeof value === "string" && !isJson) {
    return { case: "text", value: wholeText(value, `artifacts.${name}`) };
  }
  return { case: "json", value: toJsonText(value, `artifacts.${name}`) };
}
