/**
 * JSON schemas of tools, without what says nothing. Clients load the schemas of all tools into the context of a model, so
 * their size is a cost of every conversation.
 */
import { z } from "zod";

type Json = Record<string, unknown>;

/** The schema of arguments: unknown arguments are rejected. */
export function toInputSchema(schema: z.ZodObject): Json {
  return compact(z.toJSONSchema(schema, { io: "input" })) as Json;
}

/**
 * The schema of a result as `tools/list` contains it: its fields and their types. What the fields contain is the same in
 * many tools and is not repeated; {@link toFullOutputSchema} has it.
 */
export function toOutputSchema(schema: z.ZodObject): Json {
  const { properties, ...rest } = toFullOutputSchema(schema) as { properties: Record<string, Json> };
  const fields = Object.entries(properties).map(([name, { type, description }]) => [
    name,
    { ...(type !== undefined && { type }), ...(description !== undefined && { description }) },
  ]);
  return { ...rest, properties: Object.fromEntries(fields) as Json };
}

/** The complete schema of a result. It allows further fields, as JSON schemas do by default. */
export function toFullOutputSchema(schema: z.ZodObject): Json {
  return compact(z.toJSONSchema(schema, { io: "output" }), (key) => key === "additionalProperties") as Json;
}

/** Removes keywords that hold for every value that JSON can represent. */
function compact(schema: unknown, isRedundant: (key: string, value: unknown) => boolean = () => false): unknown {
  if (Array.isArray(schema)) return schema.map((part) => compact(part, isRedundant));
  if (typeof schema !== "object" || schema === null) return schema;
  const entries = Object.entries(schema).flatMap(([key, value]) => {
    if (key === "properties") {
      const properties = Object.entries(value as Json).map(([name, part]) => [name, compact(part, isRedundant)]);
      return [[key, Object.fromEntries(properties)]];
    }
    if (isAlwaysTrue(key, value) || isRedundant(key, value)) return [];
    return [[key, compact(value, isRedundant)]];
  });
  return Object.fromEntries(entries) as Json;
}

function isAlwaysTrue(key: string, value: unknown): boolean {
  switch (key) {
    case "$schema": // The default of the protocol.
    case "propertyNames": // Keys are always strings.
      return true;
    case "maximum":
      return value === Number.MAX_SAFE_INTEGER;
    case "additionalProperties":
      return typeof value === "object" && Object.keys(value as Json).length === 0;
    default:
      return false;
  }
}
