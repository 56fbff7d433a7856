/** What the routes of one inspector share. */
import { randomUUID } from "node:crypto";
import type { Savepoint } from "../index.js";
import { PagedLists } from "./data/paged-lists.js";
import { SessionIndex } from "./data/session-index.js";
import { SessionLists } from "./data/session-list.js";
import { StateCache } from "./data/state-cache.js";
import type { InspectorSettings } from "./options.js";

export class Services {
  readonly sp: Savepoint;
  readonly settings: InspectorSettings;
  /** Identifies this inspector: a client that is reconnected to another one has missed events. */
  readonly instance = randomUUID();
  readonly index: SessionIndex;
  readonly lists: SessionLists;
  readonly pages = new PagedLists();
  readonly states: StateCache;

  constructor(sp: Savepoint, settings: InspectorSettings) {
    this.sp = sp;
    this.settings = settings;
    this.index = new SessionIndex(sp);
    this.lists = new SessionLists(this.index);
    this.states = new StateCache(sp);
  }

  /** Notes that a session was changed through this inspector. */
  async changed(sessionId: string): Promise<void> {
    await this.index.reload(sessionId);
  }

  async close(): Promise<void> {
    this.index.close();
    await this.pages.close();
  }
}
