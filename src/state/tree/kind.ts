/** The kind of a live value, which determines how it is stored. Decided in one place, so that copying and comparing agree. */
import { types } from "node:util";
import type { ClassRegistry, StoredClass } from "./class-registry.js";

/** How an object is stored: as one of the built-in kinds, or by its registered class. */
export type ValueKind = "array" | "object" | "dict" | "date" | "bytes" | "buffer" | "map" | "set" | "url" | StoredClass;

/** The kind of an object; `undefined` if it cannot be stored. */
export function kindOf(value: object, registry: ClassRegistry): ValueKind | undefined {
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype) return "object";
  if (prototype === Array.prototype) return Array.isArray(value) ? "array" : undefined;
  if (prototype === null) return "dict";
  const registered = registry.byPrototype(prototype);
  if (registered) return registered;
  if (prototype === Buffer.prototype) return "buffer";
  return builtInKind(value, prototype);
}

/** Recognises built-in classes, including those of another realm (a vm context), but no subclass: it would lose its class. */
function builtInKind(value: object, prototype: object): ValueKind | undefined {
  // Fake timers replace Date by a subclass, which then creates all dates, including those that are loaded.
  if (types.isDate(value)) return prototype === Date.prototype || isBuiltIn(prototype, "Date", 1) ? "date" : undefined;
  if (types.isMap(value)) return isBuiltIn(prototype, "Map", 1) ? "map" : undefined;
  if (types.isSet(value)) return isBuiltIn(prototype, "Set", 1) ? "set" : undefined;
  if (types.isUint8Array(value)) return isBuiltIn(prototype, "Uint8Array", 2) ? "bytes" : undefined;
  if (prototype === URL.prototype) return "url";
  if (Array.isArray(value)) return isBuiltIn(prototype, "Array", 1) ? "array" : undefined;
  return isBuiltIn(prototype, "Object", 0) ? "object" : undefined;
}

/** Compares the name and the number of prototypes above: a subclass may have the same name, but has one prototype more. */
function isBuiltIn(prototype: object, name: string, above: number): boolean {
  if ((prototype.constructor as { name?: unknown } | undefined)?.name !== name) return false;
  let at = Object.getPrototypeOf(prototype) as object | null;
  for (let left = above; at && left > 0; left--) at = Object.getPrototypeOf(at) as object | null;
  return at === null;
}
