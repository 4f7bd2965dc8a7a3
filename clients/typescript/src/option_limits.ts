/** Bounds of settings. */

/** What a timer takes. */
const MOST_MS = 2 ** 31 - 1;
/** What the length of a gRPC message takes. */
const MOST_BYTES = 2 ** 32 - 1;

/** A time in milliseconds from `least` on, or a RangeError that names the setting. */
export function milliseconds(name: string, value: number, least = 0): number {
  if (!(value >= least && value <= MOST_MS)) {
    throw new RangeError(`${name}: ${least} to ${MOST_MS} milliseconds, not ${value}`);
  }
  return value;
}

/** A size that a message may have, or a RangeError that names the setting. */
export function bytes(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > MOST_BYTES) {
    throw new RangeError(`${name}: 1 to ${MOST_BYTES} bytes, not ${value}`);
  }
  return value;
}

/** A number of things at once, or a RangeError that names the setting. */
export function capacity(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > 10_000) {
    throw new RangeError(`${name}: 1 to 10000, not ${value}`);
  }
  return value;
}
