// Random operations on a SavepointSessionStore, compared with the SDK's own store in memory after each of them.
//
// The SDK's store keeps a repeated uuid twice, although the contract asks stores to ignore it. So it gets only the entries that are new.
import { type SessionStoreEntry, InMemorySessionStore } from "@anthropic-ai/claude-agent-sdk";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type SessionKey, SavepointSessionStore } from "../../src/integrations/claude/index.js";
import { DURABLE_STORES, useStore } from "../langgraph/durable-stores.js";
import { runs } from "../support/runs.js";

const PROJECTS = ["-home-ada-shop", "C:\\shop 100%/ü"];
const SESSIONS = ["7c1f0a52-0000-4000-8000-000000000001", "s2"];
const SUBPATHS = ["subagents/agent-1", "subagents/~deep/agent-2", "__proto__"];

const key: fc.Arbitrary<SessionKey> = fc.record(
  {
    projectKey: fc.constantFrom(...PROJECTS),
    sessionId: fc.constantFrom(...SESSIONS),
    subpath: fc.constantFrom(...SUBPATHS),
  },
  { requiredKeys: ["projectKey", "sessionId"] },
);

const uuid = fc.integer({ min: 0, max: 12 }).map((number) => `u${number}`);
const timestamp = fc.integer({ min: 0, max: 9 }).map((day) => `2026-11-0${day + 1}T00:00:00.000Z`);
/** JSON of any shape, without `-0`, which JSON does not have. */
const json = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)) as unknown);
const entry: fc.Arbitrary<SessionStoreEntry> = fc.oneof(
  fc.record(
    {
      type: fc.constantFrom("user", "assistant"),
      uuid,
      timestamp,
      cwd: fc.constantFrom("/home/ada/shop", "/tmp"),
      gitBranch: fc.constantFrom("main", "fix"),
      isSidechain: fc.boolean(),
      message: fc.record({ role: fc.constantFrom("user", "assistant"), content: fc.string() }),
    },
    { requiredKeys: ["type", "uuid", "message"] },
  ),
  fc.record({ type: fc.constant("custom-title"), customTitle: fc.string() }),
  fc.record({ type: fc.constant("tag"), tag: fc.string() }),
  fc.record({ type: fc.constant("summary"), summary: fc.string(), leafUuid: uuid }),
  fc.record({ type: fc.constant("unknown"), uuid, data: json }),
);

type Operation =
  | { readonly kind: "append"; readonly key: SessionKey; readonly entries: SessionStoreEntry[] }
  | { readonly kind: "delete"; readonly key: SessionKey }
  | { readonly kind: "new store" };

const operation: fc.Arbitrary<{ readonly operation: Operation; readonly store: 0 | 1 }> = fc.record({
  operation: fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({ kind: fc.constant("append" as const), key, entries: fc.array(entry, { maxLength: 4 }) }),
    },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("delete" as const), key }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("new store" as const) }) },
  ),
  store: fc.constantFrom(0, 1),
});

/** The SDK's store, which gets only new entries. */
class Model {
  readonly store = new InMemorySessionStore();
  readonly #known = new Map<string, Set<string>>();

  async append(at: SessionKey, entries: SessionStoreEntry[]): Promise<void> {
    const name = JSON.stringify([at.projectKey, at.sessionId, at.subpath]);
    const isNew = !this.#known.has(name);
    const known = this.#known.get(name) ?? new Set();
    this.#known.set(name, known);
    const fresh = entries.filter(({ uuid: id }) => id === undefined || (!known.has(id) && known.add(id)));
    if (isNew || fresh.length > 0) await this.store.append(at, structuredClone(fresh));
  }

  async delete(at: SessionKey): Promise<void> {
    const { projectKey, sessionId, subpath } = at;
    for (const name of this.#known.keys()) {
      const [project, session, path] = JSON.parse(name) as [string, string, string | null];
      const isInside = subpath === undefined || subpath === path;
      if (project === projectKey && session === sessionId && isInside) this.#known.delete(name);
    }
    await this.store.delete(at);
  }
}

describe.each(DURABLE_STORES)("SavepointSessionStore on $name", (kind) => {
  const lab = useStore(kind);

  it("returns the same as the SDK's own store after any appends and deletions of two processes", async () => {
    const processes = [await lab.open(), await lab.open()] as const;
    const property = fc.asyncProperty(fc.array(operation, { minLength: 1, maxLength: 30 }), async (operations) => {
      for (const sp of processes) for await (const { id } of sp.sessions.list()) await sp.sessions.delete(id);
      const model = new Model();
      const stores = processes.map((sp) => new SavepointSessionStore(sp));
      for (const { operation: each, store: index } of operations) {
        const [store, other] = [stores[index], stores[1 - index]] as [SavepointSessionStore, SavepointSessionStore];
        if (each.kind === "new store") {
          stores[index] = new SavepointSessionStore(processes[index]);
          continue;
        }
        if (each.kind === "append") {
          await store.append(each.key, each.entries);
          await model.append(each.key, each.entries);
        } else {
          await store.delete(each.key);
          await model.delete(each.key);
        }
        await compare(store, model.store, each.key);
        await compare(other, model.store, each.key);
      }
    });
    await fc.assert(property, { numRuns: runs(100, 15) });
  });
});

/** Compares everything that a store tells of a session and of its project. */
async function compare(store: SavepointSessionStore, model: InMemorySessionStore, at: SessionKey): Promise<void> {
  const { projectKey, sessionId } = at;
  for (const subpath of [undefined, ...SUBPATHS]) {
    const each = { projectKey, sessionId, ...(subpath !== undefined && { subpath }) };
    expect(await store.load(each)).toEqual(await model.load(each));
  }
  expect((await store.listSubkeys(at)).sort()).toEqual((await model.listSubkeys(at)).sort());
  const [listed, expected] = [await store.listSessions(projectKey), await model.listSessions(projectKey)];
  const byTime = (list: readonly { sessionId: string; mtime: number }[]): string[] =>
    [...list].sort((a, b) => a.mtime - b.mtime).map((each) => each.sessionId);
  expect(listed.every(({ mtime }) => Number.isInteger(mtime))).toBe(true);
  expect(byTime(listed).sort()).toEqual(byTime(expected).sort());
  // Both use the clock, but two stores do not share the order of one millisecond.
  const summaries = await store.listSessionSummaries(projectKey);
  const data = (list: readonly { sessionId: string; data: object }[]): unknown =>
    Object.fromEntries(list.map((each) => [each.sessionId, each.data]));
  expect(data(summaries)).toEqual(data(await model.listSessionSummaries(projectKey)));
  // The SDK reads a transcript again if its session is newer than its summary.
  expect(summaries.map(({ sessionId: id, mtime }) => ({ sessionId: id, mtime }))).toEqual(listed);
}
