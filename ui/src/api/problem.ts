/** Errors of the gateway, which sends google.rpc.Status as JSON. */

export interface Detail {
  "@type"?: string;
  reason?: string;
  metadata?: Record<string, string>;
  fieldViolations?: { field?: string; description?: string }[];
}

/** An error of the gateway, or a failed connection (status 0). */
export class Problem extends Error {
  constructor(
    /** HTTP status; 0: no answer arrived. */
    readonly status: number,
    message: string,
    /** The stable reason of the contract; empty: none. */
    readonly reason: string = "",
    readonly metadata: Record<string, string> = {},
    /** All details of the error, unchanged. */
    readonly details: readonly Detail[] = [],
  ) {
    super(message);
    this.name = "Problem";
  }

  /** True: the same request may succeed later. */
  get transient(): boolean {
    return this.status === 0 || this.status === 503 || this.status === 429;
  }

  /** True: the caller must authenticate. */
  get signedOut(): boolean {
    return this.status === 401;
  }
}

export function problemOf(status: number, body: unknown): Problem {
  const { message, details } = (body ?? {}) as { message?: string; details?: Detail[] };
  const info = details?.find((d) => d["@type"]?.endsWith("google.rpc.ErrorInfo"));
  return new Problem(status, message ?? `HTTP ${status}`, info?.reason, info?.metadata, details);
}

export function asProblem(error: unknown): Problem {
  if (error instanceof Problem) {
    return error;
  }
  return new Problem(0, error instanceof Error ? error.message : String(error));
}
