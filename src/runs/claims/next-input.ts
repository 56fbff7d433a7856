/** The branch to claim, and the input that its next turn begins with. */
import { SavepointError } from "../../errors.js";
import type { BranchCursor, SessionReader } from "../../sessions/index.js";
import { decodeQueuedInput, inputKey } from "../../records/index.js";
import type { Agent } from "../agent/index.js";
import type { RunSnapshot } from "./claim.js";
import type { Leases } from "../leases/index.js";

/** The branch that a process works on, or wants to. */
export interface BranchWork {
  readonly agent: Agent;
  readonly reader: SessionReader;
  readonly branch: string;
  readonly leases: Leases;
  readonly cursor: BranchCursor;
}

/** The input of the next turn. */
export interface TurnInput {
  readonly input: string;
  readonly key: string | undefined;
  /** Its number in the inbox; `undefined` if it did not come from there. */
  readonly number?: number;
}

/** The oldest input in the inbox of a branch; `undefined` if the inbox is empty. */
export async function readOldestInput(
  { reader, branch }: BranchWork,
  { inbox }: RunSnapshot,
): Promise<TurnInput | undefined> {
  if (!inbox || inbox.first >= inbox.next) return undefined;
  const [record] = await reader.context.store.get([inputKey(reader.sessionId, branch, inbox.first)]);
  if (!record || !("value" in record)) {
    throw new SavepointError(
      "DAMAGED",
      `An input that was left for session ${JSON.stringify(reader.sessionId)} is ${record ? `damaged: ${record.unreadable}` : "missing"}.`,
    );
  }
  return { ...decodeQueuedInput(record.value), number: inbox.first };
}
