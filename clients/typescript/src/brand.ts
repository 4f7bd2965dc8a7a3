/**
 * Classes that are known by a mark instead of by their identity. A program can have this package
 * twice, as ES module and as CommonJS, or in two versions below its dependencies, and a value
 * that one copy made is as good for the others.
 */

/** Any class. */
type Class = { readonly prototype: object };

/** The key under which instances of a class have their mark, in every copy of the package. */
const keyOf = (name: string): symbol => Symbol.for(`pawl-client/${name}`);

/**
 * Marks the instances of a class, and lets `instanceof` ask for the mark. Called in a static
 * block of the class. `name` is the same in every version of the package.
 */
export function brand(type: Class, name: string): void {
  const key = keyOf(name);
  Object.defineProperty(type.prototype, key, { value: true });
  Object.defineProperty(type, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      // A class that extends it inherits this method, and is known by its identity.
      return this === type
        ? isMarked(value, key)
        : Function.prototype[Symbol.hasInstance].call(this, value);
    },
  });
}

/** Whether a value is an instance of the class that is marked with a name, of any copy. */
export function isBranded(value: unknown, name: string): boolean {
  return isMarked(value, keyOf(name));
}

/**
 * What the copies of the package in a process have together: the first one makes it. `make` is
 * to make the same in every version of the package.
 */
export function common<T extends object>(name: string, make: () => T): T {
  const place = globalThis as { [key: symbol]: T | undefined };
  const key = keyOf(name);
  place[key] ??= make();
  return place[key];
}

function isMarked(value: unknown, key: symbol): boolean {
  if (typeof value !== "object" || value === null) {
    return false;
  }
  try {
    return (value as { readonly [key: symbol]: unknown })[key] === true;
  } catch {
    return false; // Values of handlers can throw when they are read.
  }
}
