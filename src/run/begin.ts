/** Beginning to work on a branch: with a first input, a further one, or where it was left. */
import { isSavepointError, SavepointError } from "../errors.js";
import type { Author, BranchCursor, SaveExtension } from "../model/branch-cursor.js";
import { loadShadow } from "../model/load-state.js";
import { dueKey, inboxKey, inputKey, journalKey, runKey, turnKey } from "../model/keys.js";
import { MAIN, type Row, type RowRun } from "../model/records.js";
import {
  decodeLeft,
  encodeInbox,
  encodeJournal,
  encodeRun,
  type JournalRecord,
  type RunRecord,
} from "../model/run-records.js";
import type { CommitParts } from "../model/session-commit.js";
import { agentMismatch, branchNotFound, describeBranch } from "../model/session-errors.js";
import type { SessionReader } from "../model/session-reader.js";
import { takeOptions } from "../model/save-options.js";
import { decodeText, encodeText } from "../state/text-value.js";
import { shadowToValue } from "../state/value.js";
import type { Check, Put } from "../store/store.js";
import type { Agent } from "./agent.js";
import { type Claim, encodeDue, mayTake, readView, takeBranch, type View } from "./claim.js";
import { callInitial, callReceive, migrateState } from "./agent-code.js";
import { hashText } from "./encoded-value.js";
import type { Leases } from "./leases.js";
import { readResult, type RunResult } from "./result.js";

/** What somebody wants of a branch. */
export interface Request {
  /** The input, as a text; without one, what is there is gone on with. */
  readonly input: string | undefined;
  readonly key: string | undefined;
  readonly restartStep: boolean;
  /** Go on with what has failed or was halted. */
  readonly resume: boolean;
}

/** Work that is this process's to do; or how the work stands, where there is nothing to do. */
export type Begun = { readonly claim: Claim } | { readonly result: RunResult | undefined };

export interface BeginHost {
  readonly leases: Leases;
  cursor(reader: SessionReader, branch: string): BranchCursor;
}

/** Takes the branch and says where to go on; or says how it stands, if there is nothing to do. */
export async function begin(
  host: BeginHost,
  reader: SessionReader,
  branch: string,
  agent: Agent,
  request: Request,
): Promise<Begun> {
  for (let tries = 1; ; tries++) {
    const view = await readView(reader, branch);
    const { session, branch: known } = view.heads;
    const owner = session?.record.agent;
    if (owner !== undefined && owner !== agent.name) throw agentMismatch(reader.sessionId, owner, agent.name);
    const head = known?.record.head;
    let begun: Begun | undefined;
    if (!head) {
      if (branch !== MAIN) throw branchNotFound(reader.sessionId, branch);
      if (request.input === undefined) return { result: undefined };
      begun = await tryTo(() => start(host, reader, branch, agent, view, request, request.input as string));
    } else {
      begun = await goOn(host, reader, branch, agent, view, head, request);
    }
    if (begun) return begun;
    if (tries === MAX_TRIES) throw neverTaken(reader.sessionId, branch);
  }
}

/** Each time another process was faster; more often than that, something else is wrong. */
const MAX_TRIES = 100;

function neverTaken(sessionId: string, branch: string): SavepointError {
  return new SavepointError(
    "BUSY",
    `${describeBranch(sessionId, branch)} could not be taken: something about it changed each of ${MAX_TRIES} times.`,
  );
}

async function goOn(
  host: BeginHost,
  reader: SessionReader,
  branch: string,
  agent: Agent,
  view: View,
  head: Row,
  request: Request,
): Promise<Begun | undefined> {
  const number = view.heads.session?.record.number as number;
  const earlier = request.key === undefined ? undefined : await findTurn(reader, branch, request.key, number);
  const { status, current } = standing(view, head);
  checkInput(reader, branch, view, request, current, earlier);
  const ended = status === "completed" || status === "failed" || status === "halted";
  const over = status === "completed" || (ended && !request.resume);
  const turn = view.run?.turn ?? 0;
  if (earlier !== undefined && (earlier < turn || (earlier === turn && over))) {
    const row = await rowOfTurn(reader, number, head, earlier);
    if (!row) throw turnForgotten(reader.sessionId, branch, request.key ?? "");
    if (row)
      return { result: await readResult(reader, number, branch, row, { status: endOf(row), reason: row.reason }) };
  }
  const { receive } = agent.definition;
  if (status === "completed" && receive) {
    const left = await oldestInput(reader, branch, view);
    // One that was left, or taken, before is not taken now.
    const { input, key } = request;
    const next = left ?? (input === undefined || earlier !== undefined ? undefined : { input, key });
    if (next) return tryTo(() => takeTurn(host, reader, branch, agent, view, head, next));
  }
  if (status === "completed" || (ended && !request.resume && view.run?.code === undefined)) {
    return {
      result: await readResult(reader, number, branch, head, { status, reason: view.run?.reason ?? head.reason }),
    };
  }
  const { questions = [], wakeAt } = view.run ?? {};
  if (status === "waiting" && !request.restartStep && (wakeAt === undefined || wakeAt > view.now)) {
    return { result: await readResult(reader, number, branch, head, { status, questions, wakeAt }) };
  }
  const { input, key, restartStep } = request;
  const hash = input === undefined ? undefined : hashText(input);
  const taking = { agent: agent.name, input: hash, key, restartStep };
  const claim = await takeBranch(reader, branch, view, host.leases, host.cursor(reader, branch), taking);
  return claim && { claim };
}

/** How the branch stands, and whether its run's own record is about what is there now. */
function standing({ heads, run }: View, head: Row): { status: Row["status"]; current: boolean } {
  if (run && heads.branch?.record.held) return { status: "running", current: true };
  if (run && run.head === head.seq) return { status: run.status, current: true };
  // What it waited for there is for this branch to find out again.
  return { status: head.status === "waiting" || head.status === "queued" ? "running" : head.status, current: false };
}

function checkInput(
  reader: SessionReader,
  branch: string,
  { run, heads }: View,
  request: Request,
  current: boolean,
  earlier: number | undefined,
): void {
  if (request.input === undefined || !run || (!current && !heads.branch?.record.held)) return;
  const over = run.status === "completed" && !heads.branch?.record.held;
  if (over || earlier !== undefined || run.input === "" || run.input === hashText(request.input)) return;
  throw inputMismatch(reader.sessionId, branch);
}

export function inputMismatch(sessionId: string, branch: string): SavepointError<"INPUT_MISMATCH"> {
  return new SavepointError(
    "INPUT_MISMATCH",
    `${describeBranch(sessionId, branch)} is not done with another input yet. Run it with that one, leave this one with sp.send(), or use another session.`,
    { details: { sessionId, branch } },
  );
}

function turnForgotten(sessionId: string, branch: string, key: string): SavepointError {
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `${describeBranch(sessionId, branch)} took an input under the key ${JSON.stringify(key)} before, and the checkpoint that it ended with is not there any more. Give another input another key.`,
  );
}

/** The turn that began with this key, if one did. */
async function findTurn(
  reader: SessionReader,
  branch: string,
  key: string,
  number: number,
): Promise<number | undefined> {
  const [record] = await reader.context.store.get([turnKey(reader.sessionId, branch, key)]);
  if (!record) return undefined;
  if (!("value" in record))
    throw new SavepointError("DAMAGED", `The turn with this key is damaged: ${record.unreadable}.`);
  const [ofSession, turn] = JSON.parse(record.value) as [number, number];
  return ofSession === number ? turn : undefined;
}

/** The checkpoint that ended a turn. */
async function rowOfTurn(reader: SessionReader, number: number, head: Row, turn: number): Promise<Row | undefined> {
  for await (const row of reader.line(number, head)) {
    if ("unreadable" in row) continue;
    const ended = row.status === "completed" || row.status === "failed" || row.status === "halted";
    if (row.run?.turn === turn && ended) return row;
    if (row.run && row.run.turn < turn) return undefined;
  }
  return undefined;
}

function endOf(row: Row): "completed" | "failed" | "halted" {
  return row.status === "failed" || row.status === "halted" ? row.status : "completed";
}

/** An input that is taken. */
interface NextInput {
  readonly input: string;
  readonly key: string | undefined;
  /** Its number, where it was left for the branch. */
  readonly number?: number;
}

async function oldestInput(reader: SessionReader, branch: string, { inbox }: View): Promise<NextInput | undefined> {
  if (!inbox || inbox.first >= inbox.next) return undefined;
  const [record] = await reader.context.store.get([inputKey(reader.sessionId, branch, inbox.first)]);
  if (!record || !("value" in record)) {
    throw new SavepointError(
      "DAMAGED",
      `An input that was left for session ${JSON.stringify(reader.sessionId)} is ${record ? `damaged: ${record.unreadable}` : "missing"}.`,
    );
  }
  return { ...decodeLeft(record.value), number: inbox.first };
}

/** Begins a session. */
async function start(
  host: BeginHost,
  reader: SessionReader,
  branch: string,
  agent: Agent,
  view: View,
  { key }: Request,
  input: string,
): Promise<Begun> {
  const state = await callInitial(agent, decodeText(input, reader.context.registry));
  return save(host, reader, branch, agent, view, state, { input, key }, 1, "start");
}

/** Takes a further input into the state of a session that is done with those before it. */
async function takeTurn(
  host: BeginHost,
  reader: SessionReader,
  branch: string,
  agent: Agent,
  view: View,
  head: Row,
  next: NextInput,
): Promise<Begun> {
  const { registry } = reader.context;
  const number = view.heads.session?.record.number as number;
  const before = shadowToValue(await loadShadow(reader, number, head), registry);
  const version = head.run?.version ?? agent.definition.migrations.length;
  const current = await migrateState(agent, reader.sessionId, before, version);
  const state = await callReceive(agent, current, decodeText(next.input, registry));
  return save(host, reader, branch, agent, view, state, next, (view.run?.turn ?? 0) + 1, "input");
}

/** Saves the state that the work begins with, and takes the branch in the same commit. */
async function save(
  host: BeginHost,
  reader: SessionReader,
  branch: string,
  agent: Agent,
  view: View,
  state: unknown,
  next: NextInput,
  turn: number,
  trigger: string,
): Promise<Begun> {
  const { sessionId, context } = reader;
  const at = context.now();
  const { heads } = view;
  const before = heads.branch?.record;
  const parts = mayTake(reader, branch, view, host.leases.owner);
  const epoch = (before?.epoch ?? 0) + 1;
  const renewal = await host.leases.renewal();
  const version = agent.definition.migrations.length;
  let claimed: Pick<Claim, "number" | "run" | "journal"> | undefined;
  const extension: SaveExtension = {
    hidden: false,
    epoch,
    held: true,
    tapes: view.journal ? 0 : 1,
    build: ({ number, seq, tape }): CommitParts & { run: RowRun } => {
      const journal = newJournal(view, { number, epoch, tape, boundary: seq });
      const run: RunRecord = {
        number,
        agent: agent.name,
        status: "running",
        reason: undefined,
        head: undefined,
        owner: host.leases.owner,
        turn,
        input: hashText(next.input),
        key: next.key,
        questions: [],
        wakeAt: undefined,
        startedAt: view.run?.startedAt ?? view.now,
        code: undefined,
      };
      claimed = { number, run, journal };
      const puts: Put[] = [
        { key: runKey(sessionId, branch), value: encodeRun(run, reader.context.registry) },
        { key: journalKey(sessionId, branch), value: encodeJournal(journal) },
        { key: dueKey(sessionId, branch), value: encodeDue({ agent: agent.name, due: 0 }) },
        renewal,
      ];
      if (next.key !== undefined) {
        puts.push({ key: turnKey(sessionId, branch, next.key), value: JSON.stringify([number, turn]) });
      }
      const taken = takeFromInbox(sessionId, branch, view, next);
      const rowRun: RowRun = { boundary: seq, journal: undefined, midStep: false, turn, version, output: undefined };
      return {
        ...parts,
        checks: [...(parts.checks ?? []), ...taken.checks],
        puts: [...puts, ...taken.puts],
        ...(taken.deletes.length > 0 && { deletes: taken.deletes }),
        run: rowRun,
      };
    },
  };
  const options = takeOptions(
    {
      kind: "automatic",
      trigger,
      step: before?.head?.step ?? 0,
      usage: before?.head?.usage ?? { tokens: 0, cost: 0 },
    },
    context.registry,
  );
  const author: Author = {
    agent: agent.name,
    admit: (now) => {
      const same =
        now.branch?.value === heads.branch?.value && now.session?.record.number === heads.session?.record.number;
      if (!same) throw new SavepointError("CONFLICT", "Another process was faster.");
    },
  };
  const cursor = host.cursor(reader, branch);
  const row = await cursor.exclusive(async () => {
    // Others may have worked on it since this process last did.
    author.admit(await cursor.refresh());
    await cursor.save({ live: state }, options, author, extension);
    return cursor.head as Row;
  });
  const { session } = await reader.heads(branch);
  const createdAt = session?.record.createdAt ?? view.now;
  const { tape } = row;
  return { claim: { ...(claimed as NonNullable<typeof claimed>), at, createdAt, tape, boundary: row, head: row } };
}

function newJournal(
  { journal }: View,
  now: Pick<JournalRecord, "number" | "epoch" | "tape" | "boundary">,
): JournalRecord {
  const first = journal ? journal.first + journal.count : 0;
  return {
    ...now,
    head: now.boundary,
    origin: now.boundary,
    tape: journal?.tape ?? now.tape,
    first,
    count: 0,
    failures: 0,
    worked: journal?.worked ?? 0,
    loop: "",
    cancel: undefined,
  };
}

function takeFromInbox(
  sessionId: string,
  branch: string,
  { inbox, inboxCheck }: View,
  { number }: NextInput,
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

/** `undefined` where somebody else was faster: then it has to be looked at again. */
async function tryTo(work: () => Promise<Begun>): Promise<Begun | undefined> {
  try {
    return await work();
  } catch (error) {
    if (isSavepointError(error, "CONFLICT")) return undefined;
    throw error;
  }
}

/** An input as it is kept and compared. */
export function takeInput(input: unknown, reader: SessionReader): string {
  return encodeText(input, reader.context.registry);
}
