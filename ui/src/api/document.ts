/** Reads a pack's document, which the gateway returns as bytes. */

import { parse } from "yaml";

export interface Budget {
  max_total_visits?: number;
  max_tool_calls?: number;
  max_wall_time_sec?: number;
}

/** A variable of a run's start, as a prompt declares it. */
export interface Variable {
  name: string;
  type?: string;
  required?: boolean;
  default?: unknown;
  description?: string;
  example?: unknown;
  validation?: {
    pattern?: string;
    min_length?: number;
    max_length?: number;
    minimum?: number;
    maximum?: number;
    enum?: unknown[];
  };
}

export interface Document {
  prompts?: Record<
    string,
    {
      name?: string;
      description?: string;
      system_template?: string;
      tools?: string[];
      variables?: Variable[];
    }
  >;
  tools?: Record<string, { description?: string }>;
  agents?: {
    entry?: string;
    members?: Record<
      string,
      {
        description?: string;
        state?: string;
        tags?: string[];
        input_modes?: string[];
        output_modes?: string[];
      }
    >;
  };
  workflow?: {
    entry?: string;
    engine?: { budget?: Budget; x_pawl?: Record<string, unknown> };
    states?: Record<
      string,
      { artifacts?: Record<string, { type?: string; mode?: string; description?: string }> }
    >;
  };
}

/** Decodes base64 to UTF-8 text. */
export function textOf(base64: string | undefined): string {
  const raw = atob(base64 ?? "");
  return new TextDecoder().decode(Uint8Array.from(raw, (c) => c.charCodeAt(0)));
}

export function base64Of(text: string): string {
  let raw = "";
  for (const byte of new TextEncoder().encode(text)) {
    raw += String.fromCharCode(byte);
  }
  return btoa(raw);
}

/** Parses the document of a registered pack, JSON or YAML, which the server has checked. */
export function documentOf(text: string): Document {
  try {
    return (parse(text) as Document | null) ?? {};
  } catch {
    return {};
  }
}
