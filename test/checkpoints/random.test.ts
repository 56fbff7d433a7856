/** Random work on an agent and its conversations, compared at every step with a model that copies everything. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { type DamageEvent, type Message, message, type Savepoint } from "../../src/index.js";
import { STORES, type SharedData, type StoreKind } from "../model/stores.js";
import { AGENT, FAST } from "./agent-data.js";
import { runs } from "../support/runs.js";

const KINDS = [
  ["saveAgent", 4],
  ["create", 4],
  ["append", 10],
  ["replace", 4],
  ["rename", 2],
  ["change", 2],
  ["delete", 3],
  ["checkpoint", 6],
  ["restore", 5],
  ["dryRun", 2],
  ["deleteCheckpoint", 4],
  ["compact", 3],
  ["reopen", 2],
  ["look", 2],
] as const;

interface Step {
  readonly kind: (typeof KINDS)[number][0];
  /** Which of the two Savepoints, which conversation or checkpoint, and what. */
  readonly seeds: readonly [number, number, number];
}

const small = fc.nat({ max: 2 ** 20 });
const steps: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    kind: fc.oneof(...KINDS.map(([kind, weight]) => ({ weight, arbitrary: fc.constant(kind) }))),
    seeds: fc.tuple(small, small, small),
  }),
  { minLength: 1, maxLength: 40, size: "max" },
);

interface ModelConversation {
  /** As it was given; `undefined` where the first message says it. */
  title: string | undefined;
  tags: string[];
  archived: boolean;
  messages: Message[];
}

interface ModelAgent {
  name: string;
  state: unknown;
  conversations: Map<string, ModelConversation>;
}

interface ModelCheckpoint {
  readonly id: string;
  readonly agent: ModelAgent;
}

class World {
  readonly #data: SharedData;
  readonly #damage: DamageEvent[] = [];
  #savepoints: Savepoint[] = [];
  #agent: ModelAgent = { name: "first", state: {}, conversations: new Map() };
  #version = 1;
  /** Oldest first. */
  #checkpoints: ModelCheckpoint[] = [];

  constructor(data: SharedData) {
    this.#data = data;
  }

  async begin(): Promise<void> {
    for (let n = 0; n < 2; n++) this.#savepoints.push(await this.#open());
    await this.#savepoints[0]?.agents.save({ id: AGENT, name: "first" });
  }

  async do({ kind, seeds: [who, which, what] }: Step): Promise<void> {
    const sp = this.#savepoints[who % 2] as Savepoint;
    const id = `c${which % 4}`;
    const stored = this.#agent.conversations.get(id);
    const target = this.#checkpoints[which % Math.max(1, this.#checkpoints.length)];
    switch (kind) {
      case "saveAgent":
        this.#agent.name = `name ${what % 3}`;
        this.#agent.state = { n: what % 5, list: Array.from({ length: what % 4 }, (_, n) => n) };
        this.#version++;
        await sp.agents.save({ id: AGENT, name: this.#agent.name, state: this.#agent.state });
        break;
      case "create": {
        const messages = said(what, what % 4);
        const making = sp.conversations.create({ id, agent: AGENT, messages });
        if (stored) await assert.rejects(making, { code: "CONFLICT" });
        else {
          await making;
          this.#agent.conversations.set(id, { title: undefined, tags: [], archived: false, messages });
        }
        break;
      }
      case "append": {
        const messages = said(what, 1 + (what % 3));
        const appending = sp.conversations.append(id, messages);
        if (stored) {
          await appending;
          stored.messages.push(...messages);
        } else await assert.rejects(appending, { code: "CONVERSATION_NOT_FOUND" });
        break;
      }
      case "replace": {
        if (!stored) break;
        const kept = stored.messages.filter((_, n) => (what >> (n % 16)) % 2 === 0);
        const messages = [...(what % 5 === 0 ? kept.slice().reverse() : kept), ...said(what, what % 3)];
        const { title, tags, archived } = stored;
        await sp.conversations.save({ id, messages, tags, archived, ...(title !== undefined && { title }) });
        stored.messages = messages;
        break;
      }
      case "rename":
        if (!stored) break;
        stored.title = what % 3 === 0 ? undefined : `title ${what % 7}`;
        await sp.conversations.rename(id, stored.title);
        break;
      case "change":
        if (!stored) break;
        stored.tags = what % 2 === 0 ? [] : [`t${what % 3}`];
        stored.archived = what % 3 === 0;
        await sp.conversations.update(id, { tags: stored.tags, archived: stored.archived });
        break;
      case "delete":
        assert.equal(await sp.conversations.delete(id), stored !== undefined);
        this.#agent.conversations.delete(id);
        break;
      case "checkpoint":
        this.#keep((await sp.checkpoints.create({ agent: AGENT })).id);
        break;
      case "restore":
        if (target) await this.#restore(sp, target);
        break;
      case "dryRun":
        if (target) await this.#checkPlan(sp, target);
        break;
      case "deleteCheckpoint":
        if (!target) break;
        assert.equal(await sp.checkpoints.delete(target.id), true);
        assert.equal(await sp.checkpoints.delete(target.id), false);
        this.#checkpoints = this.#checkpoints.filter((each) => each !== target);
        break;
      case "compact":
        await sp.compact();
        break;
      case "reopen":
        await sp.close();
        this.#savepoints[who % 2] = await this.#open();
        break;
      case "look":
        if (target) await this.#checkCheckpoint(sp, target);
        break;
    }
    await this.#check(this.#savepoints[what % 2] as Savepoint);
  }

  /** At the end, everything that is kept is looked at, and once more when all garbage is gone. */
  async end(): Promise<void> {
    const sp = await this.#open();
    for (const checkpoint of this.#checkpoints) await this.#checkCheckpoint(sp, checkpoint);
    await sp.compact();
    await this.#check(sp);
    for (const checkpoint of this.#checkpoints) await this.#checkCheckpoint(sp, checkpoint);
    assert.deepEqual(this.#damage, []);
  }

  async #restore(sp: Savepoint, target: ModelCheckpoint): Promise<void> {
    const expected = await this.#checkPlan(sp, target);
    const { before, checkpoint, restored, recreated, removed } = await sp.checkpoints.restore(target.id);
    assert.deepEqual(restored, expected.restored);
    assert.deepEqual([recreated, removed], [expected.recreated, expected.removed]);
    this.#keep(before.id);
    this.#agent = copy(target.agent);
    this.#version++;
    this.#keep(checkpoint.id);
  }

  async #checkPlan(sp: Savepoint, { id, agent }: ModelCheckpoint) {
    const plan = await sp.checkpoints.restore(id, { dryRun: true });
    const [now, then] = [this.#agent.conversations, agent.conversations];
    assert.deepEqual(
      plan.recreated.slice().sort(),
      [...then.keys()]
        .filter((each) => !now.has(each))
        .slice()
        .sort(),
      "recreated",
    );
    assert.deepEqual(
      plan.removed.slice().sort(),
      [...now.keys()]
        .filter((each) => !then.has(each))
        .slice()
        .sort(),
      "removed",
    );
    for (const { id: conversation, messagesBefore, messagesAfter } of plan.restored) {
      assert.equal(messagesBefore, now.get(conversation)?.messages.length);
      assert.equal(messagesAfter, then.get(conversation)?.messages.length);
    }
    const named = new Set(plan.restored.map((each) => each.id));
    for (const [each, conversation] of now) {
      const other = then.get(each);
      if (other && JSON.stringify(other) !== JSON.stringify(conversation)) assert.ok(named.has(each), each);
    }
    const changed = JSON.stringify([this.#agent.name, this.#agent.state]) !== JSON.stringify([agent.name, agent.state]);
    assert.equal(plan.changes.length > 0, changed, "changes");
    return plan;
  }

  async #check(sp: Savepoint): Promise<void> {
    const loaded = await sp.agents.load(AGENT);
    assert.deepEqual([loaded?.name, loaded?.state], [this.#agent.name, this.#agent.state]);
    assert.equal(loaded?.version, this.#version);
    const { conversations } = this.#agent;
    const listed = await sp.conversations.list({ agent: AGENT }).all();
    assert.deepEqual(
      listed
        .map(({ id }) => id)
        .slice()
        .sort(),
      [...conversations.keys()].slice().sort(),
    );
    for (const [id, expected] of conversations) {
      const found = await sp.conversations.load(id);
      assert.deepEqual(found?.messages, expected.messages, id);
      const { title, tags, archived } = found ?? {};
      assert.deepEqual({ title, tags, archived }, aboutOf(expected), id);
    }
    const ids = (await sp.checkpoints.list({ agent: AGENT }).all()).map(({ id }) => id);
    assert.deepEqual(
      ids,
      this.#checkpoints
        .map(({ id }) => id)
        .slice()
        .reverse(),
    );
    const stats = await sp.stats();
    const messages = [...conversations.values()].reduce((sum, each) => sum + each.messages.length, 0);
    assert.deepEqual(
      [stats.checkpoints, stats.conversations, stats.messages],
      [ids.length, conversations.size, messages],
    );
  }

  async #checkCheckpoint(sp: Savepoint, { id, agent }: ModelCheckpoint): Promise<void> {
    const found = await sp.checkpoints.load(id);
    assert.ok(found && "conversations" in found);
    assert.deepEqual([found.state.name, found.state.state], [agent.name, agent.state]);
    assert.equal(found.conversations.length, agent.conversations.size);
    for (const info of found.conversations) {
      const expected = agent.conversations.get(info.id);
      assert.ok(expected, info.id);
      const { title, tags, archived } = info;
      assert.deepEqual({ title, tags, archived }, aboutOf(expected));
      assert.deepEqual((await sp.conversations.load(info.id, { at: id }))?.messages, expected.messages);
    }
  }

  #keep(id: string): void {
    this.#checkpoints.push({ id, agent: copy(this.#agent) });
  }

  #open(): Promise<Savepoint> {
    return this.#data.open({ ...FAST, on: { damage: (event) => void this.#damage.push(event) } });
  }
}

function copy(agent: ModelAgent): ModelAgent {
  return structuredClone(agent);
}

function said(seed: number, count: number): Message[] {
  return Array.from({ length: count }, (_, n) => {
    const text = `said ${(seed + n) % 13}`;
    return (seed + n) % 4 === 0 ? message.assistant(text) : message.user(text);
  });
}

function aboutOf({ title, tags, archived, messages }: ModelConversation) {
  const first = messages.find(({ role }) => role === "user")?.content;
  return { title: title ?? first, tags, archived };
}

async function run(kind: StoreKind, given: readonly Step[]): Promise<void> {
  const data = await kind.setup();
  try {
    const world = new World(data);
    await world.begin();
    for (const step of given) await world.do(step);
    await world.end();
  } finally {
    await data.teardown();
  }
}

describe.each(STORES)("random work on an agent on $name", (kind) => {
  it("leaves the agent as a model that copies everything predicts", async () => {
    await fc.assert(
      fc.asyncProperty(steps, (given) => run(kind, given)),
      { numRuns: runs(60, 2) },
    );
  });
});
