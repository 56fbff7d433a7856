/**
 * What a live value is, as far as storing it goes. One place decides it, so that encoding and comparing never disagree.
 */
import { types } from "node:util";
import type { ClassRegistry, StoredClass } from "./registry.js";

export type Kind = "array" | "object" | "dict" | "date" | "bytes" | "buffer" | "map" | "set" | "url" | StoredClass;

/** The kind of an object, or `undefined` for what cannot be stored. */
export function kindOf(value: object, registry: ClassRegistry): Kind | undefined {
  const prototype = Object.getPrototypeOf(value) as object | null;
  if (prototype === Object.prototype) return "object";
  if (prototype === Array.prototype) return Array.isArray(value) ? "array" : undefined;
  if (prototype === null) return "dict";
  const registered = registry.forInstance(prototype);
  if (registered) return registered;
  if (prototype === Buffer.prototype) return "buffer";
  return builtInKind(value, prototype);
}

/** Built-in classes, also those of another realm (a vm context, an iframe), but never a subclass: it would lose its class. */
function builtInKind(value: object, prototype: object): Kind | undefined {
  const name = (prototype.constructor as { name?: unknown } | undefined)?.name;
  if (types.isDate(value)) return name === "Date" ? "date" : undefined;
  if (types.isMap(value)) return name === "Map" ? "map" : undefined;
  if (types.isSet(value)) return name === "Set" ? "set" : undefined;
  if (types.isUint8Array(value)) return name === "Uint8Array" ? "bytes" : undefined;
  if (prototype === URL.prototype) return "url";
  if (Array.isArray(value)) return name === "Array" ? "array" : undefined;
  return name === "Object" && Object.getPrototypeOf(prototype) === null ? "object" : undefined;
}
