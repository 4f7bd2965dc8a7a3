/** Maps that users write as objects. */

/**
 * What a name stands for in a map, else what "*" does. A name of Object.prototype, such as
 * "constructor", stands for nothing unless the map has it.
 */
export function ownOrAny<T>(map: Readonly<{ [name: string]: T }>, name: string): T | undefined {
  const key = [name, "*"].find((candidate) => Object.hasOwn(map, candidate));
  return key === undefined ? undefined : map[key];
}
