/** Beginning to work on a branch: with a first input, a further one, or where it was left. */
import { isSavepointError, SavepointError } from "../../errors.js";
import { MAIN, type CheckpointRow, turnKey } from "../../records/index.js";
import { readResult, type RunResult, decideWorkStatus } from "../status/index.js";
import { agentMismatch, branchNotFound, describeBranch, type SessionReader } from "../../sessions/index.js";
import { stringifyValue } from "../../state/index.js";
import {
  type Claim,
  finishCancel,
  readOldestInput,
  readRunSnapshot,
  claimBranch,
  type RunSnapshot,
  type BranchWork,
} from "../claims/index.js";
import { encodeNamed, hashText } from "../journal/index.js";
import { startFirstTurn, startNextTurn } from "./turn.js";

/** What somebody wants of a branch. */
export interface TurnRequirements {
  /** The input, as a text; without one, what is there is gone on with. */
  readonly input: string | undefined;
  readonly key: string | undefined;
  readonly restartStep: boolean;
  /** Go on with what has failed or was halted. */
  readonly resume: boolean;
}

/** Work that is this process's to do; or how the work stands, where there is nothing to do. */
export type ClaimOrResult = { readonly claim: Claim } | { readonly result: RunResult | undefined };

/** Takes the branch and says where to go on; or says how it stands, if there is nothing to do. */
export async function claimRun(work: BranchWork, request: TurnRequirements): Promise<ClaimOrResult> {
  const { agent, reader, branch } = work;
  for (let tries = 1; ; tries++) {
    const view = await readRunSnapshot(reader, branch);
    const { session, branch: known } = view.heads;
    const owner = session?.record.agent;
    if (owner !== undefined && owner !== agent.name) throw agentMismatch(reader.sessionId, owner, agent.name);
    const head = known?.record.head;
    let begun: ClaimOrResult | undefined;
    if (!head) {
      if (branch !== MAIN) throw branchNotFound(reader.sessionId, branch);
      const { input, key } = request;
      // One that was left for whoever has time goes first: it is what the session is there for.
      const left = await readOldestInput(work, view);
      if (left && input !== undefined && hashText(left.input) !== hashText(input)) {
        throw inputMismatch(reader.sessionId, branch);
      }
      const next = left ?? (input === undefined ? undefined : { input, key });
      if (!next) return { result: undefined };
      begun = await tryTo(() => startFirstTurn(work, view, next));
    } else {
      begun = await goOn(work, view, head, request);
    }
    if (begun) return begun;
    if (tries === MAX_TRIES) throw claimContended(reader.sessionId, branch);
  }
}

/** Each time another process was faster; more often than that, something else is wrong. */
export const MAX_TRIES = 100;

export function claimContended(sessionId: string, branch: string): SavepointError {
  return new SavepointError(
    "BUSY",
    `${describeBranch(sessionId, branch)} could not be taken: something about it changed each of ${MAX_TRIES} times.`,
  );
}

async function goOn(
  work: BranchWork,
  view: RunSnapshot,
  head: CheckpointRow,
  request: TurnRequirements,
): Promise<ClaimOrResult | undefined> {
  const { agent, reader, branch, leases, cursor } = work;
  const number = view.heads.session?.record.number as number;
  const earlier = request.key === undefined ? undefined : await findTurn(reader, branch, request.key, number);
  const { status, isCurrent } = decideWorkStatus(view.heads, view.run);
  checkInput(reader, branch, view, request, isCurrent, earlier);
  const ended = status === "completed" || status === "failed" || status === "halted";
  const over = status === "completed" || (ended && !request.resume && view.run?.code === undefined);
  const turn = view.run?.turn ?? 0;
  if (earlier !== undefined && (earlier < turn || (earlier === turn && over))) {
    const row = await findEndOfTurn(reader, number, head, earlier);
    if (!row) throw turnResultMissing(reader.sessionId, branch, request.key ?? "");
    return { result: await readResult(reader, number, branch, row, { status: endOf(row), reason: row.reason }) };
  }
  const { receive } = agent.definition;
  if (status === "completed" && receive) {
    const left = await readOldestInput(work, view);
    // One that was left, or taken, before is not taken now.
    const { input, key } = request;
    const next = left ?? (input === undefined || earlier !== undefined ? undefined : { input, key });
    if (next) return tryTo(() => startNextTurn(work, view, head, next));
  }
  if (over) {
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
  if (await finishCancel(work, view)) return undefined;
  const claim = await claimBranch(reader, branch, view, leases, cursor, taking);
  return claim && { claim };
}

function checkInput(
  reader: SessionReader,
  branch: string,
  { run, heads }: RunSnapshot,
  request: TurnRequirements,
  isCurrent: boolean,
  earlier: number | undefined,
): void {
  if (request.input === undefined || !run || (!isCurrent && !heads.branch?.record.held)) return;
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

export function turnResultMissing(sessionId: string, branch: string, key: string): SavepointError {
  return new SavepointError(
    "CHECKPOINT_NOT_FOUND",
    `${describeBranch(sessionId, branch)} took an input under the key ${JSON.stringify(key)} before, and the checkpoint that it ended with is not there any more. Give another input another key.`,
  );
}

/** The turn that began with this key, if one did. */
export async function findTurn(
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
export async function findEndOfTurn(
  reader: SessionReader,
  number: number,
  head: CheckpointRow,
  turn: number,
): Promise<CheckpointRow | undefined> {
  for await (const row of reader.lineage(number, head)) {
    if ("unreadable" in row) continue;
    const ended = row.status === "completed" || row.status === "failed" || row.status === "halted";
    if (row.run?.turn === turn && ended) return row;
    if (row.run && row.run.turn < turn) return undefined;
  }
  return undefined;
}

function endOf(row: CheckpointRow): "completed" | "failed" | "halted" {
  return row.status === "failed" || row.status === "halted" ? row.status : "completed";
}

/** `undefined` where somebody else was faster: then it has to be looked at again. */
export async function tryTo(take: () => Promise<Claim>): Promise<ClaimOrResult | undefined> {
  try {
    return { claim: await take() };
  } catch (error) {
    if (isSavepointError(error, "CONFLICT")) return undefined;
    throw error;
  }
}

/** An input as it is kept and compared. */
export function encodeInput(input: unknown, reader: SessionReader): string {
  return encodeNamed("The input", () => stringifyValue(input, reader.context.registry));
}
