/** What the routes of one inspector share. */
import { randomUUID } from "node:crypto";
import type { Savepoint, Stats } from "../index.js";
import { encodeId } from "./api.js";
import { PagedLists } from "./data/paged-lists.js";
import { SessionIndex } from "./data/session-index.js";
import { SessionLists } from "./data/session-list.js";
import { StateCache } from "./data/state-cache.js";
import { Work } from "./data/work.js";
import { Cached } from "./data/cached.js";
import { Damage } from "./data/damage.js";
import { measureSessions } from "./data/largest.js";
import { badRequest } from "./http/errors.js";
import { decodeId } from "./http/router.js";
import { LiveHub, QueueTopic, SessionsTopic, SessionTopic, StoreTopic, type Topic } from "./live/index.js";
import type { InspectorSettings } from "./options.js";

/** How long counts and sizes are kept at least, in milliseconds. */
const MIN_AGE = 1000;

export class Services {
  readonly sp: Savepoint;
  readonly settings: InspectorSettings;
  /** Identifies this inspector. A client that reconnects to another one has missed events. */
  readonly instance = randomUUID();
  readonly index: SessionIndex;
  readonly lists: SessionLists;
  readonly pages = new PagedLists();
  readonly states: StateCache;
  readonly work: Work;
  readonly damage: Damage;
  readonly live: LiveHub;
  readonly stats: Cached<{ readonly value: Stats; readonly at: number }>;
  /** The stored bytes of the largest sessions. */
  readonly sizes: Cached<ReadonlyMap<string, number>>;

  constructor(sp: Savepoint, settings: InspectorSettings) {
    this.sp = sp;
    this.settings = settings;
    this.index = new SessionIndex(sp);
    this.lists = new SessionLists(this.index);
    this.states = new StateCache(sp);
    this.work = new Work(sp, this.index);
    this.damage = new Damage(sp);
    this.live = new LiveHub(this.instance, (name) => this.#createTopic(name));
    this.stats = new Cached(MIN_AGE, async () => ({ value: await sp.stats(), at: Date.now() }));
    this.sizes = new Cached(MIN_AGE, () => measureSessions(sp, this.index));
  }

  /**
   * Notes that a session was changed through this inspector.
   *
   * @param seqs checkpoints that were changed
   */
  async changed(sessionId: string, seqs: readonly number[] = []): Promise<void> {
    this.work.clear();
    const name = `session:${encodeId(sessionId)}`;
    const topic = this.live.find(name);
    if (topic instanceof SessionTopic) topic.note(seqs);
    this.live.poke(name);
    this.live.poke("queue");
    await this.index.reload(sessionId);
  }

  #createTopic(name: string): Topic {
    if (name === "sessions") return new SessionsTopic(this.index, this.lists);
    if (name === "queue") return new QueueTopic(this.work);
    if (name === "store") return new StoreTopic(this.damage, this.stats);
    const id = name.startsWith("session:") ? decodeId(name.slice("session:".length)) : "";
    if (id === "" || name !== `session:${encodeId(id)}`) throw badRequest(`There is no topic ${JSON.stringify(name)}.`);
    return new SessionTopic(name, this.sp, id, (each) => this.index.reload(each));
  }

  async close(): Promise<void> {
    await this.live.close();
    this.index.close();
    await this.damage.close();
    await this.pages.close();
  }
}
