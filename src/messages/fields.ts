/** Any object whose fields are unknown. */
export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}

/** The same value under each of these names, which are separated by spaces: entries of a Map. */
export function named<Value>(value: Value, names: string): [name: string, value: Value][] {
  return names.split(" ").map((name) => [name, value]);
}

export function isWebAddress(value: unknown): value is string {
  return typeof value === "string" && /^https?:\/\//i.test(value);
}
