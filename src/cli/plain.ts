/**
 * Values as JSON. What JSON has no form for gets one with a single key that begins with `$`, so that nothing is lost
 * without a word: `{"$date": "…"}`, `{"$bytes": "…base64…"}`, `{"$map": [[key, value]]}`, `{"$set": […]}`,
 * `{"$bigint": "1"}`, `{"$number": "NaN"}`, `{"$url": "…"}`. A field that is `undefined` is left
 * out; in a list it is `{"$undefined": true}`.
 */
export function toPlain(value: unknown): unknown {
  switch (typeof value) {
    case "bigint":
      return { $bigint: String(value) };
    case "number":
      if (Object.is(value, -0)) return { $number: "-0" };
      return Number.isFinite(value) ? value : { $number: String(value) };
    case "object":
      return value === null ? null : objectToPlain(value);
    default:
      return value;
  }
}

function objectToPlain(value: object): unknown {
  if (Array.isArray(value)) return value.map((each) => (each === undefined ? { $undefined: true } : toPlain(each)));
  if (value instanceof Date) return { $date: Number.isNaN(value.getTime()) ? null : value.toISOString() };
  if (value instanceof Map) return { $map: [...value].map(([key, each]) => [toPlain(key), toPlain(each)]) };
  if (value instanceof Set) return { $set: [...value].map(toPlain) };
  if (value instanceof URL) return { $url: value.href };
  if (value instanceof Uint8Array) {
    return { $bytes: Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString("base64") };
  }
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, toPlain(each)]));
}
