/** Opening a turn of a session: a new one, the one that is unfinished, or one that was completed before. */
import { SavepointError } from "../../errors.js";
import { checkId, MAIN, type CheckpointRow } from "../../records/index.js";
import { agentMismatch, branchNotFound, describeBranch } from "../../sessions/index.js";
import { decideWorkStatus } from "../status/index.js";
import {
  findTurn,
  MAX_TRIES,
  claimContended,
  findEndOfTurn,
  encodeInput,
  tryTo,
  turnResultMissing,
} from "./claim-run.js";
import {
  type Claim,
  finishCancel,
  readRunSnapshot,
  claimBranch,
  type RunSnapshot,
  type BranchWork,
} from "../claims/index.js";
import { hashText } from "../journal/index.js";
import type { OpenRunOptions } from "../agent/index.js";
import { startFirstTurn, startNextTurn } from "./turn.js";

/** Options with what they leave open filled in; what makes no sense is told before anything is read. */
export function parseOpenRunOptions(options: OpenRunOptions): TakenOptions {
  const given: unknown = options;
  if (typeof given !== "object" || given === null) throw invalid("needs options: sp.openRun({ session, initial })");
  const { session, agent, branch = MAIN, turn, abandon = false, initial } = options;
  checkId(session, "session id");
  checkId(branch, "branch name");
  if (agent !== undefined) checkId(agent, "agent id");
  if (turn !== undefined) checkId(turn, "name of a turn");
  if (typeof abandon !== "boolean") throw invalid("takes abandon: true or false");
  if (typeof initial !== "function") throw invalid("needs a function initial, which makes the state to begin with");
  return { session, agent, branch, turn, abandon, initial };
}

type TakenOptions = Required<Omit<OpenRunOptions, "agent" | "turn">> & {
  readonly agent: string | undefined;
  readonly turn: string | undefined;
};

function invalid(why: string): SavepointError {
  return new SavepointError("INVALID_ARGUMENT", `sp.openRun() ${why}.`);
}

/** Which turn is wanted. */
export interface TurnRequest {
  readonly turn: string | undefined;
  readonly abandon: boolean;
}

/** A turn that is this process's to work on; or the checkpoint that one ended with which is over. */
export type OpenTurnResult = { readonly claim: Claim } | { readonly finished: CheckpointRow; readonly number: number };

/** Takes the branch for a turn. */
export async function claimOpenTurn(work: BranchWork, request: TurnRequest): Promise<OpenTurnResult> {
  const { agent, reader, branch } = work;
  const input = encodeInput(request.turn ?? null, reader);
  for (let tries = 1; tries <= MAX_TRIES; tries++) {
    const view = await readRunSnapshot(reader, branch);
    const owner = view.heads.session?.record.agent;
    if (owner !== undefined && owner !== agent.name) throw agentMismatch(reader.sessionId, owner, agent.name);
    const head = view.heads.branch?.record.head;
    if (!head && branch !== MAIN) throw branchNotFound(reader.sessionId, branch);
    const opened = head
      ? await openAt(work, view, head, request, input)
      : await claimed(() => startFirstTurn(work, view, { input, key: request.turn }));
    if (opened) return opened;
  }
  throw claimContended(reader.sessionId, branch);
}

async function openAt(
  work: BranchWork,
  view: RunSnapshot,
  head: CheckpointRow,
  { turn: key, abandon }: TurnRequest,
  input: string,
): Promise<OpenTurnResult | undefined> {
  const { agent, reader, branch, leases, cursor } = work;
  const number = view.heads.session?.record.number as number;
  const { status } = decideWorkStatus(view.heads, view.run);
  const current = view.run?.turn ?? head.run?.turn ?? 0;
  const earlier = key === undefined ? undefined : await findTurn(reader, branch, key, number);
  if (earlier !== undefined && (earlier < current || status === "completed")) {
    const row = await findEndOfTurn(reader, number, head, earlier);
    if (!row) throw turnResultMissing(reader.sessionId, branch, key ?? "");
    return { finished: row, number };
  }
  if (await finishCancel(work, view)) return undefined;
  const next = { input, key };
  if (status === "completed") return claimed(() => startNextTurn(work, view, head, next));
  // On a branch that was forked nobody has named the turn yet.
  const same = key === undefined || earlier === current || !view.run;
  if (status === "failed" && (key === undefined || !same)) return claimed(() => startNextTurn(work, view, head, next));
  if (abandon && (key === undefined || !same)) {
    const from = await beginningOf(work, view, head, number);
    return claimed(() => startNextTurn(work, view, from, next));
  }
  if (!same) throw unfinishedTurn(reader.sessionId, branch, view.run?.key, key ?? "");
  const taking = { agent: agent.name, input: hashText(input), key, restartStep: false, open: true };
  const claim = await claimBranch(reader, branch, view, leases, cursor, taking);
  return claim && { claim };
}

/** The checkpoint that the unfinished turn began with. */
async function beginningOf(
  { reader }: BranchWork,
  view: RunSnapshot,
  head: CheckpointRow,
  number: number,
): Promise<CheckpointRow> {
  const seq = view.journal?.head === head.seq ? view.journal.boundary : (head.run?.boundary ?? head.seq);
  if (seq === head.seq) return head;
  const row = await reader.row(number, seq);
  if (row && !("unreadable" in row)) return row;
  throw new SavepointError(
    "DAMAGED",
    `Checkpoint ${reader.sessionId}#${seq}, with which the unfinished turn began, ${row ? `is damaged: ${row.unreadable}` : "is gone"}. Rewind to another one, and go on from there.`,
  );
}

async function claimed(take: () => Promise<Claim>): Promise<OpenTurnResult | undefined> {
  const begun = await tryTo(take);
  return begun && "claim" in begun ? begun : undefined;
}

function unfinishedTurn(
  sessionId: string,
  branch: string,
  current: string | undefined,
  wanted: string,
): SavepointError {
  const which = current === undefined ? "a turn without a name" : `turn ${JSON.stringify(current)}`;
  return new SavepointError(
    "UNFINISHED_TURN",
    `${describeBranch(sessionId, branch)} is not done with ${which}, so ${JSON.stringify(wanted)} cannot begin. Open that one and finish it, or give it up with { abandon: true }.`,
    { details: { sessionId, branch, unfinished: current, wanted } },
  );
}
