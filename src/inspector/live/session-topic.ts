/** One session with all of its branches, as a topic. */
import { type BranchInfo, isSavepointError, type Savepoint, type SessionInfo } from "../../index.js";
import type { CheckpointView, LiveEvents } from "../api.js";
import { omitUndefined, toBranchView, toCheckpointView, toQuestionView, toSessionRow } from "../data/views.js";
import type { Emit, Topic } from "./topic.js";

/** New checkpoints in one event. */
const MAX_CHECKPOINTS = 100;
/** Branches whose current step is read, those that were changed last first. */
const MAX_JOURNALS = 8;

type SessionEvent = LiveEvents["session"];

/** What was read of the session. */
interface Snapshot {
  readonly event: SessionEvent;
  /** Describes the session without its journals. */
  readonly fingerprint: string;
  /** Describes the current step of each branch that has one. */
  readonly journals: ReadonlyMap<string, string>;
}

export class SessionTopic implements Topic {
  readonly name: string;
  readonly event = "session";
  readonly pace = { fast: 100, slow: 1000 };
  readonly #sp: Savepoint;
  readonly #id: string;
  readonly #onChanged: (id: string) => Promise<void>;
  #last: Snapshot | undefined;
  #changed: number[] = [];

  /** @param onChanged called when the session has changed, so that the list shows it */
  constructor(name: string, sp: Savepoint, id: string, onChanged: (id: string) => Promise<void>) {
    this.name = name;
    this.#sp = sp;
    this.#id = id;
    this.#onChanged = onChanged;
  }

  /** Notes that older checkpoints were changed through this inspector. */
  note(seqs: readonly number[]): void {
    this.#changed.push(...seqs);
  }

  current(): SessionEvent | undefined {
    return this.#last?.event;
  }

  async poll(emit: Emit): Promise<boolean> {
    const last = this.#last;
    const changed = this.#changed.splice(0);
    const info = await this.#sp.sessions.load(this.#id);
    const read = info ? await this.#read(info, last) : deleted(this.#id);
    const { checkpoints, ...snapshot } = read;
    this.#last = snapshot;
    if (!last) {
      emit(snapshot.event);
      return true;
    }
    const journals = [...new Set([...snapshot.journals.keys(), ...last.journals.keys()])].filter(
      (branch) => snapshot.journals.get(branch) !== last.journals.get(branch),
    );
    const hasChanged = snapshot.fingerprint !== last.fingerprint;
    if (!hasChanged && journals.length === 0 && changed.length === 0) return false;
    emit({ ...snapshot.event, checkpoints, journals, changed } satisfies SessionEvent);
    if (hasChanged) await this.#onChanged(this.#id);
    return true;
  }

  async #read(
    info: SessionInfo,
    last: Snapshot | undefined,
  ): Promise<Snapshot & { readonly checkpoints: readonly CheckpointView[] }> {
    const session = this.#sp.session(this.#id);
    const branches = await session.branches().all();
    const newest = Math.max(-1, ...branches.map(({ head }) => head?.seq ?? -1));
    const before = last?.event.newest ?? newest;
    const fresh =
      newest > before ? await session.history({ allBranches: true, after: before, limit: MAX_CHECKPOINTS }).all() : [];
    const event: SessionEvent = {
      id: this.#id,
      session: toSessionRow(info),
      questions: info.questions.map(toQuestionView),
      checkpoints: [],
      newest: Math.max(newest, 0),
      branches: branches.map(toBranchView),
      journals: [],
      changed: [],
    };
    return {
      event,
      fingerprint: JSON.stringify([event, info.error?.message]),
      journals: await this.#readJournals(branches),
      checkpoints: fresh.map(toCheckpointView),
    };
  }

  /** The current steps of the branches that were changed last. The journal of a branch without a run is empty. */
  async #readJournals(branches: readonly BranchInfo[]): Promise<Map<string, string>> {
    const newest = [...branches].sort((a, b) => (b.head?.seq ?? 0) - (a.head?.seq ?? 0)).slice(0, MAX_JOURNALS);
    const journals = new Map<string, string>();
    for (const { name } of newest) {
      try {
        const effects = await this.#sp.session(this.#id, { branch: name }).journal({ values: "none" }).all();
        const shown = effects.map(({ index, outcome, attempts, claims, executedAt }) => [
          index,
          outcome,
          attempts,
          claims.length,
          executedAt,
        ]);
        if (shown.length > 0) journals.set(name, JSON.stringify(shown));
      } catch (error) {
        // The route of the journal reports it.
        if (!isSavepointError(error, "DAMAGED")) throw error;
        journals.set(name, "damaged");
      }
    }
    return journals;
  }
}

function deleted(id: string): Snapshot & { readonly checkpoints: readonly CheckpointView[] } {
  const none = { questions: [], checkpoints: [], newest: 0, branches: [], journals: [], changed: [] };
  return { event: omitUndefined({ id, ...none }), fingerprint: "deleted", journals: new Map(), checkpoints: [] };
}
