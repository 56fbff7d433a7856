/** Taking an input: the first of a session, or a further one. The state with it and the right to work on it are one commit. */
import { SavepointError } from "../../errors.js";
import {
  changeQueueEntry,
  emptyJournal,
  encodeInbox,
  encodeJournal,
  encodeRun,
  inboxKey,
  inputKey,
  journalKey,
  type CheckpointRow,
  type RunPosition,
  runKey,
  turnKey,
} from "../../records/index.js";
import {
  type Author,
  type CommitParts,
  loadShadow,
  type SaveExtension,
  parseSaveOptions,
} from "../../sessions/index.js";
import { enforceRetention } from "../../retention/index.js";
import { parseValue, shadowToValue } from "../../state/index.js";
import type { Check, Put } from "../../store/index.js";
import { callInitial, callReceive, migrateAgentState } from "./agent-code.js";
import {
  type Claim,
  buildClaimEntry,
  checkClaimable,
  type TurnInput,
  buildRunningRecord,
  type RunSnapshot,
  type BranchWork,
} from "../claims/index.js";
import { hashText } from "../journal/index.js";
import { currentMoment } from "../leases/index.js";

/** Begins a session. */
export async function startFirstTurn(work: BranchWork, view: RunSnapshot, next: TurnInput): Promise<Claim> {
  const state = await callInitial(work.agent, parseValue(next.input, work.reader.context.registry));
  return save(work, view, state, next, 1, "start");
}

/**
 * Takes a further input into the state of a session that is done with those before it.
 *
 * @param from the checkpoint whose state it is taken into: the head, or what the head has come from
 */
export async function startNextTurn(
  work: BranchWork,
  view: RunSnapshot,
  from: CheckpointRow,
  next: TurnInput,
): Promise<Claim> {
  const { agent, reader } = work;
  const { registry } = reader.context;
  const number = view.heads.session?.record.number as number;
  const before = shadowToValue(await loadShadow(reader, number, from), registry);
  const current = await migrateAgentState(agent, reader.sessionId, before, from.version);
  const state = await callReceive(agent, current, parseValue(next.input, registry));
  return save(work, view, state, next, (view.run?.turn ?? 0) + 1, "input");
}

/** Saves the state that the work begins with, and takes the branch in the same commit. */
async function save(
  work: BranchWork,
  view: RunSnapshot,
  state: unknown,
  next: TurnInput,
  turn: number,
  trigger: string,
): Promise<Claim> {
  const { agent, reader, branch, leases, cursor } = work;
  const { sessionId, context } = reader;
  const { heads } = view;
  const before = heads.branch?.record;
  const parts = checkClaimable(reader, branch, view, leases.owner);
  const epoch = (before?.epoch ?? 0) + 1;
  const lease = await leases.prepareClaim();
  const at = currentMoment(context);
  const due = buildClaimEntry(reader, view, agent.name, agent.definition.open ?? false, leases.owner);
  const dueChange = changeQueueEntry(sessionId, branch, view.queueEntry, due);
  let claimed: Pick<Claim, "number" | "run" | "journal"> | undefined;
  const extension: SaveExtension = {
    hidden: false,
    epoch,
    held: true,
    tapes: view.journal ? 0 : 1,
    build: ({ number, seq, tape }): CommitParts & { run: RunPosition } => {
      const { tape: known = tape, first = 0, count = 0, worked = 0 } = view.journal ?? {};
      const journal = { ...emptyJournal(number, known, seq), epoch, first: first + count, worked };
      const input = hashText(next.input);
      const run = buildRunningRecord(view, {
        number,
        agent: agent.name,
        owner: leases.owner,
        turn,
        input,
        key: next.key,
      });
      claimed = { number, run, journal };
      const puts: Put[] = [
        { key: runKey(sessionId, branch), value: encodeRun(run, reader.context.registry) },
        { key: journalKey(sessionId, branch), value: encodeJournal(journal) },
        ...dueChange.puts,
        ...lease.puts,
      ];
      if (next.key !== undefined) {
        puts.push({ key: turnKey(sessionId, branch, next.key), value: JSON.stringify([number, turn]) });
      }
      const taken = takeFromInbox(sessionId, branch, view, next);
      const deletes = [...dueChange.deletes, ...taken.deletes];
      const rowRun: RunPosition = { boundary: seq, journal: undefined, midStep: false, turn, output: undefined };
      return {
        ...parts,
        checks: [...(parts.checks ?? []), ...taken.checks],
        puts: [...puts, ...taken.puts],
        ...(deletes.length > 0 && { deletes }),
        ...(lease.wakes && { wakes: lease.wakes }),
        run: rowRun,
      };
    },
  };
  const taken = parseSaveOptions(
    {
      kind: "automatic",
      trigger,
      step: before?.head?.step ?? 0,
      usage: before?.head?.usage ?? { tokens: 0, cost: 0 },
    },
    context.registry,
  );
  const options = { ...taken, version: agent.definition.migrations.length };
  const author: Author = {
    agent: agent.name,
    admit: (now) => {
      const same =
        now.branch?.value === heads.branch?.value && now.session?.record.number === heads.session?.record.number;
      if (!same) throw new SavepointError("CONFLICT", "Another process was faster.");
    },
  };
  const row = await cursor.exclusive(async () => {
    // Others may have worked on it since this process last did.
    author.admit(await cursor.refresh());
    await cursor.save({ live: state }, options, author, extension);
    return cursor.head as CheckpointRow;
  });
  await enforceRetention(reader, cursor, row);
  // A session that begins here was made with its first checkpoint.
  const createdAt = heads.session?.record.createdAt ?? row.createdAt;
  const { tape } = row;
  return {
    ...(claimed as NonNullable<typeof claimed>),
    preparedAt: at,
    createdAt,
    tape,
    queueEntry: due,
    boundary: row,
  };
}

function takeFromInbox(
  sessionId: string,
  branch: string,
  { inbox, inboxCheck }: RunSnapshot,
  { number }: TurnInput,
): { checks: readonly Check[]; puts: Put[]; deletes: string[] } {
  // What is left meanwhile comes after this one, and counts on it.
  const checks = [inboxCheck];
  if (number === undefined || !inbox) return { checks, puts: [], deletes: [] };
  return {
    checks,
    puts: [{ key: inboxKey(sessionId, branch), value: encodeInbox({ first: number + 1, next: inbox.next }) }],
    deletes: [inputKey(sessionId, branch, number)],
  };
}
