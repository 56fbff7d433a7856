/** Whether the SDK accepts the input of a tool call. An invalid call is not executed: it becomes a result that reports the error. */
import { isObject } from "./sdk.js";

/** Keys that the SDK rejects in any input. */
const UNSAFE_KEYS = /"(?:__proto__|constructor)"/;

/**
 * Validates the input of a call as the SDK does, if that is possible synchronously: returns `false` for an asynchronous schema, and
 * for one of an unknown kind.
 *
 * @param input JSON, as the model has written it
 * @param schema a Standard Schema, such as those of Zod, or the result of the SDK's `jsonSchema()`
 */
export function isValidInput(input: unknown, schema: unknown): boolean {
  if (typeof input !== "string" || UNSAFE_KEYS.test(input) || !isObject(schema)) return false;
  try {
    const value: unknown = JSON.parse(input.trim() === "" ? "{}" : input);
    const standard = schema["~standard"];
    if (isObject(standard)) return isValid((standard as unknown as StandardSchema).validate(value));
    if (!("jsonSchema" in schema)) return false;
    const { validate } = schema as Partial<SdkSchema>;
    return !validate || isValid(validate(value));
  } catch {
    return false;
  }
}

interface StandardSchema {
  validate(value: unknown): unknown;
}

/** The result of the SDK's `jsonSchema()`. It validates only if it got a function for that. */
interface SdkSchema {
  readonly validate: (value: unknown) => unknown;
}

function isValid(result: unknown): boolean {
  if (!isObject(result) || "then" in result) return false;
  return "success" in result ? result["success"] === true : result["issues"] === undefined;
}
