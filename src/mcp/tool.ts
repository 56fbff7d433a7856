/** What a tool is: one operation on the store, with what it takes and what comes back. */
import { z } from "zod";
import type { AgentScope } from "./scope.js";

export interface Tool {
  readonly name: string;
  readonly title: string;
  /** For a model: what it does, when to use it, what comes back. */
  readonly description: string;
  readonly input: z.ZodObject;
  readonly output: z.ZodObject;
  /** Does it change the store? Then it is offered only where that was asked for. */
  readonly writes: boolean;
  /** May what was there be gone afterwards? */
  readonly destructive: boolean;
  /** Does calling it again with the same arguments change nothing more? */
  readonly idempotent: boolean;
  run(input: Record<string, unknown>, scope: AgentScope): Promise<Record<string, unknown>>;
}

/** A tool, with its arguments and its result typed by their schemas. */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  definition: Omit<Tool, "input" | "output" | "run" | "destructive" | "idempotent"> & {
    readonly input: Input;
    readonly output: Output;
    /** @default false */
    readonly destructive?: boolean;
    /** @default only what reads is */
    readonly idempotent?: boolean;
    run(input: z.output<Input>, scope: AgentScope): Promise<z.output<Output>>;
  },
): Tool {
  const { destructive = false, idempotent = !definition.writes } = definition;
  return { ...definition, destructive, idempotent } as unknown as Tool;
}

// Arguments that several tools take. Nobody but JSON speaks to a tool, so what is unknown here is JSON.

export const AGENT = z.string().min(1).optional();

export const JSON_OBJECT = z.record(z.string(), z.unknown());

/** Any JSON, but something. */
export const JSON_VALUE = z.unknown().refine((value) => value !== undefined, "Required");

export const CHECKPOINT_REF = z
  .union([
    z.string().min(1),
    z.strictObject({ seq: z.int().min(0) }),
    z.strictObject({ step: z.int().min(0) }),
    z.strictObject({ label: z.string().min(1) }),
  ])
  .describe('A checkpoint of the session: its id, "session#seq", or { seq }, { step } or { label }.');

export const CHANGES = z
  .array(
    z.discriminatedUnion("op", [
      z.strictObject({ op: z.literal("add"), path: z.string(), value: JSON_VALUE }),
      z.strictObject({ op: z.literal("replace"), path: z.string(), value: JSON_VALUE }),
      z.strictObject({ op: z.literal("remove"), path: z.string() }),
    ]),
  )
  .min(1);

/** Times that callers give. */
export const TIME_ARGUMENT = z.union([
  z.number(),
  z.string().refine((text) => !Number.isNaN(Date.parse(text)), "Not a time. Write it like 2026-01-31T12:00:00Z"),
]);

export const POINTER = z
  .string()
  .optional()
  .describe('JSON pointer to the part that is wanted, such as "/messages/3". Default: everything.');

export const FROM = z
  .int()
  .min(0)
  .optional()
  .describe("Where a part that is too large to come at once goes on: `from` of an entry of `omitted`.");
