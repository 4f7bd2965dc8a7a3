/** The variables of a run: their declarations in prompts, and the typed values. */

import type { Document, Variable } from "../api/document";
import type { Graph } from "../api/types";

/** Returns the variables of all prompts that an entry can reach, each name once. */
export function variablesOf(document: Document, graph: Graph | undefined): Variable[] {
  const prompts = new Set((graph?.nodes ?? []).map((n) => n.prompt ?? ""));
  const known = new Map<string, Variable>();
  for (const [key, prompt] of Object.entries(document.prompts ?? {})) {
    if (prompts.size > 0 && !prompts.has(key)) {
      continue;
    }
    for (const variable of Array.isArray(prompt.variables) ? prompt.variables : []) {
      const before = known.get(variable.name);
      known.set(variable.name, {
        ...variable,
        ...before,
        required: before?.required === true || variable.required === true,
      });
    }
  }
  return [...known.values()].sort(
    (a, b) => Number(b.required ?? false) - Number(a.required ?? false),
  );
}

/** Converts a text to the value of a variable; throws an error with a message for the form. */
export function typedValue(variable: Variable, text: string): unknown {
  switch (variable.type) {
    case "number":
    case "integer": {
      const n = Number(text);
      if (text.trim() === "" || !Number.isFinite(n)) {
        throw new Error("must be a number");
      }
      return n;
    }
    case "boolean":
      return text === "true";
    case "object":
    case "array": {
      let value: unknown;
      try {
        value = JSON.parse(text);
      } catch {
        throw new Error(`must be JSON: ${variable.type === "array" ? "[…]" : "{…}"}`);
      }
      if (Array.isArray(value) !== (variable.type === "array") || typeof value !== "object") {
        throw new Error(`must be ${variable.type === "array" ? "a list […]" : "an object {…}"}`);
      }
      return value;
    }
    default:
      return text;
  }
}

export interface Given {
  values: Record<string, unknown>;
  faults: Record<string, string>;
}

/** Converts all fields; an empty one is left out. */
export function givenOf(variables: readonly Variable[], texts: Record<string, string>): Given {
  const out: Given = { values: {}, faults: {} };
  for (const variable of variables) {
    const text = texts[variable.name] ?? "";
    if (text === "") {
      if (variable.required && variable.default === undefined) {
        out.faults[variable.name] = "is required";
      }
      continue;
    }
    try {
      out.values[variable.name] = typedValue(variable, text);
    } catch (error) {
      out.faults[variable.name] = (error as Error).message;
    }
  }
  return out;
}

/** Parses labels that a user typed, one `key=value` per line. */
export function labelsOf(text: string): { labels: Record<string, string>; fault: string } {
  const labels: Record<string, string> = {};
  for (const line of text.split("\n").map((l) => l.trim())) {
    const at = line.indexOf("=");
    if (line !== "" && at < 1) {
      return { labels, fault: `"${line}" is not key=value` };
    }
    if (line !== "") {
      labels[line.slice(0, at).trim()] = line.slice(at + 1).trim();
    }
  }
  return { labels, fault: "" };
}

/** Returns the faults of a refusal by field; "" has those that name no field. */
export function faultsOf(message: string, names: readonly string[]): Record<string, string> {
  const faults: Record<string, string> = {};
  // "REASON (field): first: text; second: text", as the sidecar joins them.
  for (const piece of message.replace(/^[A-Z_]+ (\([^)]*\): )?/, "").split("; ")) {
    const name = names.find(
      (n) => piece.startsWith(`${n}: `) || piece.startsWith(`variables.${n}: `),
    );
    const text = name === undefined ? piece : piece.slice(piece.indexOf(": ") + 2);
    const key = name ?? "";
    faults[key] = faults[key] ? `${faults[key]}; ${text}` : text;
  }
  return faults;
}
