/** How sessions stand: what their runs say, and whether those who run them are still there. */
import { SavepointError } from "../errors.js";
import type { ClassRegistry } from "../state/registry.js";
import type { FoundRecord } from "../store/scan.js";
import type { Status } from "./checkpoint.js";
import type { Context } from "./context.js";
import { ownerKey, runKey } from "./keys.js";
import { isCertainlyDead } from "../store/process-identity.js";
import { decodeOwner, decodeRun, type OwnerRecord, type RunRecord } from "./run-records.js";
import type { Heads } from "./session-reader.js";

/** How the work on a branch stands, and why. */
export interface Standing {
  readonly status: Status;
  readonly reason: string | undefined;
  readonly run: RunRecord | undefined;
}

/** A branch of a session, with the records that its saves hang on. */
export interface StandingOf {
  readonly sessionId: string;
  readonly branch: string;
  readonly heads: Heads;
}

/** Whoever wants to go on with it learns more. */
const DAMAGED: Standing = { status: "interrupted", reason: "what is known about its run is damaged", run: undefined };

/** How these branches stand, one for one, read together. */
export async function readStandings(context: Context, branches: readonly StandingOf[]): Promise<Standing[]> {
  const { store, registry } = context;
  if (branches.length === 0) return [];
  const found = await store.get(branches.map(({ sessionId, branch }) => runKey(sessionId, branch)));
  const damaged = new Set<number>();
  const runs = branches.map(({ heads }, index) => {
    const record = found[index];
    if (record && "unreadable" in record) damaged.add(index);
    return damaged.has(index) ? undefined : runOf(record, heads, registry);
  });
  const held = [...new Set(branches.flatMap(({ heads }, at) => (heads.branch?.record.held && runs[at]?.owner) || []))];
  const owners = new Map<string, OwnerRecord | undefined>();
  const records = held.length > 0 ? await store.get(held.map(ownerKey)) : [];
  for (const [index, owner] of held.entries()) owners.set(owner, readOwner(records[index]));
  // Leases end by the store's clock.
  const now = held.length > 0 ? await store.now() : 0;
  return branches.map(({ heads }, index) => (damaged.has(index) ? DAMAGED : standing(heads, runs[index], owners, now)));
}

/** The run of a branch, if it is that of this very session. */
export function runOf(record: FoundRecord | undefined, heads: Heads, registry: ClassRegistry): RunRecord | undefined {
  if (!record) return undefined;
  if (!("value" in record)) {
    throw new SavepointError(
      "DAMAGED",
      `What is known about a run is damaged: ${record.unreadable}. Its checkpoints are not.`,
    );
  }
  const run = decodeRun(record.value, registry);
  return run.number === heads.session?.record.number ? run : undefined;
}

/** A missing or damaged record says that nobody is there: who is would have renewed it. */
export function readOwner(record: FoundRecord | undefined): OwnerRecord | undefined {
  return record && "value" in record ? decodeOwner(record.value) : undefined;
}

/** Does whoever has this record still hold its leases? */
export function isAlive(owner: OwnerRecord | undefined, now: number): boolean {
  return owner !== undefined && owner.until > now && !isCertainlyDead(owner.process);
}

function standing(
  { branch }: Heads,
  run: RunRecord | undefined,
  owners: ReadonlyMap<string, OwnerRecord | undefined>,
  now: number,
): Standing {
  const { head, held } = branch?.record ?? {};
  if (run && held) {
    return { status: isAlive(owners.get(run.owner), now) ? "running" : "interrupted", reason: undefined, run };
  }
  if (run && run.head === head?.seq && run.status !== "running") {
    return { status: run.status, reason: run.reason, run };
  }
  // Somebody else has moved the branch since: what it was moved to says how it stands.
  const status = head?.status ?? "running";
  const unfinished = status === "running" || status === "waiting" || status === "queued";
  return { status: head?.run && unfinished ? "interrupted" : status, reason: head?.reason, run };
}
