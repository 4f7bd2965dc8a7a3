/** Checks the limits of settings. */

/** Longest time of a timer, in milliseconds. */
const MAX_MS = 2 ** 31 - 1;
/** Largest size that the length of a gRPC message can express, in bytes. */
const MAX_BYTES = 2 ** 32 - 1;

/** Returns a time of at least `least` milliseconds. Throws a RangeError that names the setting. */
export function milliseconds(name: string, value: number, least = 0): number {
  if (!(value >= least && value <= MAX_MS)) {
    throw new RangeError(`${name}: must be from ${least} to ${MAX_MS} milliseconds, not ${value}`);
  }
  return value;
}

/** Returns the size of a message in bytes. Throws a RangeError that names the setting. */
export function bytes(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > MAX_BYTES) {
    throw new RangeError(`${name}: must be from 1 to ${MAX_BYTES} bytes, not ${value}`);
  }
  return value;
}

/** Returns a number of parallel executions. Throws a RangeError that names the setting. */
export function capacity(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1 || value > 10_000) {
    throw new RangeError(`${name}: must be from 1 to 10000, not ${value}`);
  }
  return value;
}
