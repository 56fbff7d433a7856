/** Sessions and agents after random operations, with moves between stores in between: they equal those that were never moved. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "vitest";
import { isSavepointError, message, Savepoint } from "../../src/index.js";
import { wholeOf } from "./whole.js";
import { runs } from "../support/runs.js";

const AGENTS = ["a", "b"];
const step = fc.record({ kind: fc.nat(17), which: fc.nat(2), pick: fc.nat(50), text: fc.string({ maxLength: 300 }) });
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const RUNS = runs(25, 4);

/** Performs an operation, if it is possible. */
async function perform(sp: Savepoint, { kind, which, pick, text }: Step): Promise<void> {
  const agent = AGENTS[which % 2] ?? "a";
  const session = sp.session<{ list: unknown[] }>(`s${which}`);
  const conversation = `c${which}`;
  const checkpoints = async (): Promise<string[]> =>
    (await session.history({ allBranches: true }).all()).map(({ id }) => id);
  const agentCheckpoints = async (): Promise<string[]> =>
    (await sp.checkpoints.list({ agent, of: "agent" }).all()).map(({ id }) => id);
  const one = (ids: readonly string[]): string => ids[pick % Math.max(ids.length, 1)] ?? "none";
  const works: (() => Promise<unknown>)[] = [
    () => session.save({ list: Array.from({ length: pick }, (_, n) => `${n} ${text}`) }),
    () => session.append("/list", [text, pick]),
    () => session.append("/list", [new Uint8Array(3000).fill(pick)], { label: `l${pick % 4}` }),
    async () => session.rewind(one(await checkpoints())),
    async () => session.fork(one(await checkpoints()), { branch: `f${pick}` }),
    async () => session.fork(one(await checkpoints()), { state: { list: [text] } }),
    async () => session.label(one(await checkpoints()), pick % 3 === 0 ? undefined : "moved"),
    async () => sp.checkpoints.delete(one(await checkpoints())),
    () => session.prune({ keepLast: 1 + (pick % 3) }),
    () => sp.sessions.delete(session.id),
    () => sp.agents.save({ id: agent, name: text || "x", state: { pick, text } }),
    () => sp.conversations.create({ id: conversation, agent, messages: pick % 3 ? [message.user(text)] : [] }),
    () => sp.conversations.append(conversation, [message.user(`${pick} ${text}`), message.assistant("ok")]),
    () => sp.conversations.save({ id: conversation, messages: [message.user(text)] }),
    () => sp.conversations.delete(conversation),
    () => sp.checkpoints.create({ agent }),
    async () => sp.checkpoints.restore(one(await agentCheckpoints())),
    async () => (pick % 2 ? sp.compact() : sp.checkpoints.delete(one(await agentCheckpoints()))),
  ];
  try {
    await works[kind]?.();
  } catch (error) {
    if (!isSavepointError(error) || error.code === "DAMAGED") throw error;
  }
}

const open = (): Promise<Savepoint> => Savepoint.open("memory:");

describe("random operations", () => {
  it("a store can be moved as a whole, again and again, after random operations", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.array(step, { maxLength: 25 }), { minLength: 1, maxLength: 4 }), async (parts) => {
        let sp = await open();
        for (const [index, part] of parts.entries()) {
          for (const each of part) await perform(sp, each);
          const before = await wholeOf(sp);
          const next = await open();
          // Numbers that are taken already, and others that are not used yet, but not by the Savepoint that continues to work.
          const filler = await Savepoint.open("memory:");
          for (let n = 0; n < index * 7; n++) await filler.conversations.create({ id: `x${index}-${n}` });
          await filler.import(sp.export());
          for (let n = 0; n < index * 7; n++) await filler.conversations.delete(`x${index}-${n}`);
          await next.import(filler.export());
          assert.deepEqual(await wholeOf(next), before);
          sp = next;
        }
        await sp.compact();
        await wholeOf(sp);
      }),
      { numRuns: RUNS },
    );
  });
});
