/** Reads the limits that providers report in the headers of a response or an error. */

import type { ProviderLimits } from "./model_step.js";

/**
 * Names of the headers for the remaining requests and tokens, and for the time at which all are
 * available again (reset).
 */
const NAMES = [
  (what: string, of: string) => `x-ratelimit-${what}-${of}`,
  (what: string, of: string) => `anthropic-ratelimit-${of}-${what}`,
];

/** Returns the limits in the headers. Undefined means that the headers have none. */
export function limitsIn(headers: unknown): ProviderLimits | undefined {
  if (!(headers instanceof Headers)) {
    return undefined;
  }
  for (const name of NAMES) {
    const requests = left(headers, name, "requests");
    const tokens = left(headers, name, "tokens");
    if (requests || tokens) {
      return {
        ...(requests && { requests: requests.count, requestsResetMs: requests.resetMs }),
        ...(tokens && { tokens: tokens.count, tokensResetMs: tokens.resetMs }),
      };
    }
  }
  return undefined;
}

interface Left {
  readonly count: number;
  readonly resetMs: number;
}

function left(headers: Headers, name: (typeof NAMES)[number], of: string): Left | undefined {
  const count = headers.get(name("remaining", of)) ?? "";
  const resetMs = resetIn(headers.get(name("reset", of)) ?? "");
  // The contract accepts 63 bits; no provider reports more.
  return resetMs === undefined || !/^\d+$/.test(count)
    ? undefined
    : { count: Number(count.slice(0, 18)), resetMs };
}

const UNITS: { readonly [unit: string]: number } = { h: 3_600_000, m: 60_000, s: 1_000, ms: 1 };
const SPAN = /^(?:\d+(?:\.\d+)?(?:h|ms|m|s))+$/;
const SECONDS = /^[+-]?\d+(?:\.\d*)?$/;
const MOMENT = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)$/;

/** Returns a time of RFC 3339, "6m0s", or seconds as milliseconds from now. */
function resetIn(text: string): number | undefined {
  if (SPAN.test(text)) {
    const parts = [...text.matchAll(/(\d+(?:\.\d+)?)(h|ms|m|s)/g)];
    return within(
      parts.reduce((sum, [, n, unit]) => sum + Number(n) * (UNITS[unit ?? ""] ?? 0), 0),
    );
  }
  if (SECONDS.test(text)) {
    return within(Number(text) * 1_000);
  }
  const moment = MOMENT.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(moment) ? undefined : within(moment - Date.now());
}

/** Limits a time to what the contract accepts: from 0 to a day. */
function within(ms: number): number {
  return Math.min(Math.max(ms, 0), 86_400_000);
}
