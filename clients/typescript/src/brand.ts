/**
 * Recognizes instances of classes by a mark instead of by their class. A program can contain this
 * package twice, as ES module and as CommonJS, or in two versions among its dependencies, and each
 * copy must accept the values of the others.
 */

/** Any class. */
type Class = { readonly prototype: object };

/** Returns the key of the mark of a class, which is the same in every copy of the package. */
const keyOf = (name: string): symbol => Symbol.for(`pawl-client/${name}`);

/**
 * Marks the instances of a class, and makes `instanceof` check the mark. Call it in a static block
 * of the class. `name` must be the same in every version of the package.
 */
export function brand(type: Class, name: string): void {
  const key = keyOf(name);
  Object.defineProperty(type.prototype, key, { value: true });
  Object.defineProperty(type, Symbol.hasInstance, {
    value(this: unknown, value: unknown): boolean {
      // A subclass inherits this method; its instances are recognized by their class.
      return this === type
        ? isMarked(value, key)
        : Function.prototype[Symbol.hasInstance].call(this, value);
    },
  });
}

/** Whether a value is an instance of the class with this mark, of any copy of the package. */
export function isBranded(value: unknown, name: string): boolean {
  return isMarked(value, keyOf(name));
}

/**
 * Returns the value that all copies of the package in a process share; the first copy creates it.
 * `make` must create the same in every version of the package.
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
    return false; // Reading a value that a handler threw can throw itself.
  }
}
