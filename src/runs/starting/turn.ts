/** Starting a turn: the first of a session, or the next one. One commit saves the state with the input and claims the branch. */
import { SavepointError } from "../../errors.js";
import {
  type CheckpointRow,
  emptyJournal,
  unlistedEntries,
  encodeInbox,
  inboxKey,
  inputKey,
  type RunPosition,
  type StreamPosition,
} from "../../records/index.js";
import {
  type Author,
  type CommitParts,
  loadShadow,
  parseSaveOptions,
  type SaveExtension,
} from "../../sessions/index.js";
import { enforceRetention } from "../../retention/index.js";
import { parseValue, shadowToValue } from "../../state/index.js";
import type { Put } from "../../store/index.js";
import { callAgent, migrateAgentState } from "./agent-code.js";
import {
  type BranchWork,
  buildClaimEntry,
  buildClaimParts,
  buildRunningRecord,
  checkClaimable,
  type Claim,
  type ClaimedBranch,
  type RunSnapshot,
  type TurnInput,
} from "../claims/index.js";
import { hashText } from "../journal/index.js";
import { currentMoment } from "../leases/index.js";

/** Starts a session with its first turn. Throws `CONFLICT` if the branch has changed since the snapshot. */
export async function startFirstTurn(
  work: BranchWork,
  snapshot: RunSnapshot,
  input: TurnInput,
): Promise<ClaimedBranch> {
  const { agent, reader } = work;
  const value = parseValue(input.input, reader.context.registry);
  const state = await callAgent(agent, "initial", () => agent.definition.initial(value));
  return saveTurn(work, snapshot, state, input, 1, "start");
}

/**
 * Starts the next turn of a session. Throws `CONFLICT` if the branch has changed since the snapshot.
 *
 * @param from the checkpoint whose state receives the input: the head, or an ancestor of it
 */
export async function startNextTurn(
  work: BranchWork,
  snapshot: RunSnapshot,
  from: CheckpointRow,
  input: TurnInput,
): Promise<ClaimedBranch> {
  const { agent, reader, cursor } = work;
  const { registry } = reader.context;
  const number = snapshot.heads.session?.record.number as number;
  const shadow = cursor.shadowOf(number, from) ?? (await loadShadow(reader, number, from));
  const before = shadowToValue(shadow, registry);
  const current = await migrateAgentState(agent, reader.sessionId, before, from.version);
  const value = parseValue(input.input, registry);
  const received = await callAgent(agent, "receive", () => agent.definition.receive?.(current, value));
  return saveTurn(work, snapshot, received ?? current, input, (snapshot.run?.turn ?? 0) + 1, "input");
}

/** Saves the state that a turn starts with, and claims the branch in the same commit. */
async function saveTurn(
  work: BranchWork,
  snapshot: RunSnapshot,
  state: unknown,
  input: TurnInput,
  turn: number,
  trigger: string,
): Promise<ClaimedBranch> {
  const { agent, reader, branch, leases, cursor } = work;
  const { sessionId, context } = reader;
  const { heads } = snapshot;
  const before = heads.branch?.record;
  const parts = checkClaimable(reader, branch, snapshot, leases.owner);
  const epoch = (before?.epoch ?? 0) + 1;
  const lease = await leases.prepareClaim();
  const preparedAt = currentMoment(context);
  const queueEntry = buildClaimEntry(work, snapshot);
  const inboxChange = removeFromInbox(sessionId, branch, snapshot, input);
  const { step = 0, usage = { tokens: 0, cost: 0 } } = before?.head ?? {};
  let claimed: Pick<Claim, "run" | "journal" | "queueEntry"> | undefined;
  const extension: SaveExtension = {
    hidden: false,
    epoch,
    held: true,
    tapes: snapshot.journal ? 0 : 1,
    build: ({ number, seq, tape }): CommitParts & { run: RunPosition } => {
      const { tape: journalTape = tape, first = 0, count = 0, worked = 0 } = snapshot.journal ?? {};
      // Effects of a turn that was abandoned.
      const history = unlistedEntries(snapshot.journal, before?.head);
      const stream = startStream(snapshot.journal?.stream, epoch);
      const journal = { ...emptyJournal(number, journalTape, seq), epoch, first: first + count, worked, stream };
      const hash = hashText(input.input);
      const run = buildRunningRecord(work, snapshot, { number, turn, input: hash, key: input.key, stepsBefore: step });
      claimed = { run, journal, queueEntry };
      const { puts, deletes, wakes } = buildClaimParts(work, snapshot, claimed, lease, input.key);
      return {
        ...parts,
        // The inbox is always checked: its inputs are turns after this one.
        checks: [...(parts.checks ?? []), snapshot.inboxCheck],
        puts: [...puts, ...inboxChange.puts],
        deletes: [...deletes, ...inboxChange.deletes],
        wakes,
        run: { boundary: seq, journal: undefined, history, midStep: false, turn, output: undefined },
      };
    },
  };
  const fields = parseSaveOptions({ kind: "automatic", trigger, step, usage }, context.registry);
  const author: Author = {
    agent: agent.name,
    admit: (now) => {
      const isSame =
        now.branch?.value === heads.branch?.value && now.session?.record.number === heads.session?.record.number;
      if (!isSame) throw new SavepointError("CONFLICT", "Another process has changed the branch.");
    },
  };
  const row = await cursor.exclusive(async () => {
    // The commit checks that they are unchanged.
    cursor.adopt(heads);
    await cursor.save({ live: state }, { ...fields, version: agent.definition.migrations.length }, author, extension);
    return cursor.head as CheckpointRow;
  });
  await enforceRetention(reader, cursor, row);
  // A new session was created with this checkpoint.
  const createdAt = heads.session?.record.createdAt ?? row.createdAt;
  const records = claimed as NonNullable<typeof claimed>;
  const { number } = records.run;
  return { claim: { ...records, number, preparedAt, createdAt, tape: row.tape, boundary: row } };
}

/** The deltas of a new turn: none yet, behind those of the turn before. */
function startStream(before: StreamPosition | undefined, epoch: number): StreamPosition | undefined {
  return before && { epoch, first: before.first + before.count, count: 0, isEnded: false };
}

/** The changes that remove an input from the inbox. */
function removeFromInbox(
  sessionId: string,
  branch: string,
  { inbox }: RunSnapshot,
  { number }: TurnInput,
): { puts: Put[]; deletes: string[] } {
  if (number === undefined || !inbox) return { puts: [], deletes: [] };
  return {
    puts: [{ key: inboxKey(sessionId, branch), value: encodeInbox({ first: number + 1, next: inbox.next }) }],
    deletes: [inputKey(sessionId, branch, number)],
  };
}
