/** Any object whose fields are unknown. */
export type Fields = Readonly<Record<string, unknown>>;

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null;
}

export function isWebAddress(value: unknown): value is string {
  return typeof value === "string" && /^https?:\/\//i.test(value);
}
