/** What went wrong in a handler, as the contract takes it. */

import { PawlError } from "./errors.js";

/** What an error says of the turn or step whose handler threw it. */
interface HandlerFault {
  readonly code: string;
  readonly message: string;
  /** Whether another attempt may help. */
  readonly retryable: boolean;
  /** Whether the agent refuses the work. */
  readonly reject: boolean;
}

/** What a handler's error says of its turn, and whether a retry may help. */
export function faultOf(error: unknown): HandlerFault {
  if (error instanceof PawlError) {
    const code = error.reason || error.kind.toUpperCase();
    const { retryable, reject } = error;
    return { ...bounded(code, error.message), retryable, reject };
  }
  const known = error instanceof Error;
  const words = bounded(known ? error.name : "Error", known ? error.message : String(error));
  return { ...words, retryable: true, reject: false };
}

const MOST_CODE = 128;
const MOST_MESSAGE = 4096;

/** Cut to what the contract takes: 128 bytes, 16 KiB (at most 4 bytes a character). */
function bounded(code: string, message: string): { code: string; message: string } {
  const word = code.replace(/[^\x20-\x7e]/g, "?").slice(0, MOST_CODE);
  return { code: word || "ERROR", message: message.slice(0, MOST_MESSAGE) };
}
