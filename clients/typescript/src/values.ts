/** Converts content and artifacts to protobuf messages. */

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

/** Bytes with their media type, or the address of them. */
export type MediaPart = {
  /** Default: by the kind of the content. */
  readonly mediaType?: string;
  /** Name to show. Default: none. */
  readonly filename?: string;
} & ({ readonly data: Uint8Array } | { readonly uri: string });

/** A piece of a message to send: text, bytes, media, or a JSON value. */
export type PartLike = string | Uint8Array | Json | JsonText | MediaPart;

/** Content of a message: one piece, or several in order. */
export type Content = string | Uint8Array | JsonText | readonly PartLike[];

/**
 * A JSON value where a string would otherwise be text. Created by `json`.
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
    /** JSON text that is sent byte for byte in place of the value. */
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

/** The value of an artifact to write. */
export type ArtifactLike = string | Uint8Array | Json | JsonText;

/** Values to write, by artifact name. */
export type Artifacts = Readonly<Record<string, ArtifactLike>>;

/** Declared media types of artifacts, as in `Turn.artifactSlots`. */
export type Slots = readonly { readonly name: string; readonly mediaType: string }[];

/** A message of a conversation to send. */
export interface MessageLike {
  readonly role: "user" | "assistant" | "tool" | "system";
  readonly content: Content;
  /** A model's own tool calls, sent unchanged. */
  readonly toolCalls?: Json;
  /** For the role "tool": id of the answered call. */
  readonly toolCallId?: string;
  /** Data that the model's provider needs back with the message, sent unchanged. */
  readonly provider?: Json;
  /** Why the model refused to answer. */
  readonly refusal?: string;
}

/** Returns the parts of a content. */
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

/** Whether the value has only the fields of bytes or an address. */
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
 * Returns the text of some parts and ignores the others.
 *
 *     console.log(textOf(turn.messages.at(-1)?.parts ?? []));
 */
export function textOf(parts: readonly Pick<Part, "content">[]): string {
  return parts.map((part) => (part.content.case === "text" ? part.content.value : "")).join("");
}

/** Returns a message as a protobuf message. */
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

/** Returns writes of artifacts. The declared types in `slots` decide the form of a value. */
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
