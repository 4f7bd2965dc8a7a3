/** Bounds of settings. */

/** What a timer takes. */
const MAX_MS = 2 ** 31 - 1;
/** What the length of a gRPC message takes. */
const MAX_BYTES = 2 ** 32 - 1;

/** A time in milliseconds from `least` on, or a RangeError that names the setting. */
export function milliseconds(name: string, value: number, least = 0): number {
  if (!(value >= least && value <= MAX_MS)) {
    throw new RangeError(`${name}: must be from ${least} to ${MAX_MS} milliseconds, not ${value}`);
  }
  return value;
}

/** A size that a message may have, or a RangeError that names the setting. */
export function bytes(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > MAX_BYTES) {
    throw new RangeError(`${name}: must be from 1 to ${MAX_BYTES} bytes, not ${value}`);
  }
  return value;
}

/** A number of things at once, or a RangeError that names the setting. */
export function capacity(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > 10_000) {
    throw new RangeError(`${name}: must be from 1 to 10000, not ${value}`);
  }
  return value;
}
