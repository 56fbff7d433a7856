/** Schemas of arguments that several tools have. Arguments arrive as JSON, so `unknown` means any JSON value. */
import { z } from "zod";
import type { CheckpointRef } from "../../index.js";

export const AGENT = z.string().min(1).optional();

export const SESSION = z.string().min(1);

export const JSON_OBJECT = z.record(z.string(), z.unknown());

/** Any JSON value, which must be present. */
export const JSON_VALUE = z.unknown().refine((value) => value !== undefined, "Required");

/** A checkpoint of a session. One object with exactly one key has a shorter JSON schema than one object per key. */
export const CHECKPOINT_REF: z.ZodType<CheckpointRef, CheckpointRef> = z
  .union([
    z.string().min(1),
    z
      .strictObject({
        seq: z.int().min(0).optional(),
        step: z.int().min(0).optional(),
        label: z.string().min(1).optional(),
      })
      .refine((ref) => Object.values(ref).filter((value) => value !== undefined).length === 1)
      .meta({ minProperties: 1, maxProperties: 1 }),
  ])
  .describe('Id, "session#seq", or one of seq, step, label.') as unknown as z.ZodType<CheckpointRef, CheckpointRef>;

export const TIME_ARGUMENT = z.union([
  z.number(),
  z
    .string()
    .refine((text) => !Number.isNaN(Date.parse(text)), "Not a time. Expected a format like 2026-01-31T12:00:00Z"),
]);

export function toDate(time: string | number | undefined): Date | undefined {
  return time === undefined ? undefined : new Date(time);
}

export const POINTER = z.string().optional().describe('JSON pointer to a part, such as "/messages/3".');

export const FROM = z.int().min(0).optional().describe("Where to continue in a large part: `from` of `omitted`.");
