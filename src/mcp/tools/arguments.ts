/** Schemas of arguments that several tools have. Arguments arrive as JSON, so `unknown` means any JSON value. */
import { z } from "zod";

export const AGENT = z.string().min(1).optional();

export const JSON_OBJECT = z.record(z.string(), z.unknown());

/** Any JSON value, which must be present. */
export const JSON_VALUE = z.unknown().refine((value) => value !== undefined, "Required");

export const CHECKPOINT_REF = z
  .union([
    z.string().min(1),
    z.strictObject({ seq: z.int().min(0) }),
    z.strictObject({ step: z.int().min(0) }),
    z.strictObject({ label: z.string().min(1) }),
  ])
  .describe('A checkpoint of the session: its id, "session#seq", or { seq }, { step } or { label }.');

export const TIME_ARGUMENT = z.union([
  z.number(),
  z
    .string()
    .refine((text) => !Number.isNaN(Date.parse(text)), "Not a time. Expected a format like 2026-01-31T12:00:00Z"),
]);

export const POINTER = z
  .string()
  .optional()
  .describe('JSON pointer to a part, such as "/messages/3". Default: everything.');

export const FROM = z
  .int()
  .min(0)
  .optional()
  .describe("Where to continue in a part that was too large: `from` of an entry of `omitted`.");
