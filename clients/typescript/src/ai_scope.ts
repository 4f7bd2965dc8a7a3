/** Where in a program a call is made: in its body, or in a tool call. */

import { AsyncLocalStorage } from "node:async_hooks";
import type { ToolCall } from "./tool_call.js";

/** The calls of the body of a program, or of one tool call. Their keys are the same each time. */
export class Scope {
  readonly #prefix: string;
  readonly #counts = new Map<string, number>();
  /** The tool call. Undefined means the body of the program. */
  readonly call: ToolCall | undefined;

  constructor(prefix: string, call?: ToolCall) {
    this.#prefix = prefix;
    this.call = call;
  }

  /** Returns the key of the next call of this name. */
  next(name: string): { readonly key: string; readonly ordinal: number } {
    const ordinal = (this.#counts.get(name) ?? 0) + 1;
    this.#counts.set(name, ordinal);
    return { key: `${this.#prefix}${name}.${ordinal}`, ordinal };
  }
}

const scopes = new AsyncLocalStorage<Scope>();

/** Executes a function within a scope. */
export function within<T>(scope: Scope, work: () => T): T {
  return scopes.run(scope, work);
}

/** Returns the scope of the caller. */
export function currentScope(): Scope | undefined {
  return scopes.getStore();
}

/**
 * Returns the tool call that the caller's `execute` makes; undefined outside of a durable tool. Give
 * its `idempotencyKey` to the service that the tool changes: it is the same in every attempt.
 *
 *     const refund = async ({ order }: { order: string }) => {
 *       const key = currentCall()?.idempotencyKey ?? "";
 *       return fetch(`https://bank.example/refunds/${order}`, { method: "POST", headers: { key } });
 *     };
 */
export function currentCall(): ToolCall | undefined {
  return scopes.getStore()?.call;
}
