/** The definition of a tool: one operation on the store, with schemas for its arguments and its result. */
import { z } from "zod";
import type { AgentScope } from "../scope.js";

export interface Tool {
  readonly name: string;
  readonly title: string;
  /** For a model: what the tool does, when to use it, what it returns. */
  readonly description: string;
  readonly input: z.ZodObject;
  readonly output: z.ZodObject;
  /** Whether it changes the store. Such tools are offered only if the server may write. */
  readonly writes: boolean;
  /** Whether it may remove or overwrite data. */
  readonly destructive: boolean;
  /** Whether a second call with the same arguments changes nothing more. */
  readonly idempotent: boolean;
  run(input: Record<string, unknown>, scope: AgentScope): Promise<Record<string, unknown>>;
}

/** What tools that delete something have in common. */
export const DELETION = {
  output: z.object({ deleted: z.boolean() }),
  writes: true,
  destructive: true,
  idempotent: true,
} as const;

/** Defines a tool whose arguments and result are typed by its schemas. */
export function defineTool<Input extends z.ZodObject, Output extends z.ZodObject>(
  definition: Omit<Tool, "input" | "output" | "run" | "destructive" | "idempotent"> & {
    readonly input: Input;
    readonly output: Output;
    /** @default false */
    readonly destructive?: boolean;
    /** @default true for tools that do not write */
    readonly idempotent?: boolean;
    run(input: z.output<Input>, scope: AgentScope): Promise<z.output<Output>>;
  },
): Tool {
  const { destructive = false, idempotent = !definition.writes } = definition;
  return { ...definition, destructive, idempotent } as unknown as Tool;
}
