/**
 * Shapes: descriptions of decoded JSON that are checked at run time. Stored data can have been written by anybody, so a
 * fitting checksum says nothing about its content.
 */

/** Returns whether a value has this shape. */
export type Shape = (value: unknown) => boolean;

export const isString: Shape = (value) => typeof value === "string";
export const isBoolean: Shape = (value) => typeof value === "boolean";
/** Any number of JSON, including fractions and negative ones. */
export const isNumber: Shape = (value) => typeof value === "number" && Number.isFinite(value);
/** A safe integer from 0 on: a counter, a position or a length. */
export const isCounter: Shape = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
export const isAnything: Shape = () => true;

/** One of these values. */
export function oneOf(...values: readonly unknown[]): Shape {
  return (value) => values.includes(value);
}

/** A value of one of these shapes. */
export function either(...shapes: readonly Shape[]): Shape {
  return (value) => shapes.some((shape) => shape(value));
}

/** The shape, or no value. JSON has no `undefined`, but fields can be missing. */
export function optional(shape: Shape): Shape {
  return (value) => value === undefined || shape(value);
}

export function listOf(shape: Shape): Shape {
  return (value) => Array.isArray(value) && value.every(shape);
}

/** A list with these shapes at its positions. Positions whose shape is optional may be missing, and nothing may follow. */
export function tupleOf(...shapes: readonly Shape[]): Shape {
  return (value) =>
    Array.isArray(value) && value.length <= shapes.length && shapes.every((shape, index) => shape(value[index]));
}

/** An object with these own fields. Other fields are ignored: a later version may have added them. */
export function objectOf(fields: Readonly<Record<string, Shape>>): Shape {
  const entries = Object.entries(fields);
  return (value) => {
    if (typeof value !== "object" || value === null || Array.isArray(value)) return false;
    // Decoded JSON has no inherited fields but those of Object.prototype.
    return entries.every(([name, shape]) =>
      shape(Object.hasOwn(value, name) ? (value as Record<string, unknown>)[name] : undefined),
    );
  };
}
