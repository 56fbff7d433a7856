/** States with equal parts, which are stored once, in everything that follows refs. */
import { expect, it } from "vitest";
import { Savepoint } from "../../src/index.js";
import { openMemoryStore } from "../../src/store/memory/store.js";

const message = (n: number): object => ({ id: n, content: `${n} `.repeat(400) });
const thread = (count: number): object[] => Array.from({ length: count }, (_, n) => message(n));
const part = (): object => ({ title: "report", sections: thread(50) });

it("a part that stands several times in a state is stored once", async () => {
  const bytesOf = async (state: unknown): Promise<number> => {
    await using sp = await Savepoint.open(openMemoryStore());
    return (await sp.session("s").save(state)).storedBytes;
  };
  const once = await bytesOf({ a: part() });
  expect(await bytesOf({ a: part(), b: part(), c: { d: part() }, e: [part()] })).toBeLessThan(1.1 * once);
});

it("states with equal parts survive pruning, compaction, forks, export and import, and stay intact", async () => {
  await using sp = await Savepoint.open("sqlite::memory:");
  const session = sp.session("s");
  const stateOf = (n: number): object => ({
    a: part(),
    b: part(),
    messages: thread(n),
    log: thread(n),
    both: [thread(n)],
  });
  for (let n = 0; n < 20; n++) await session.save(stateOf(n));
  const fork = await session.fork({ seq: 5 });
  await fork.save({ ...stateOf(5), more: part() });
  await sp.prune({ session: "s", keepLast: 2 });
  await sp.compact();
  expect(await sp.verify({ deep: true })).toMatchObject({ ok: true, problems: [] });
  expect((await session.latest())?.state).toEqual(stateOf(19));
  expect((await fork.latest())?.state).toEqual({ ...stateOf(5), more: part() });

  await using copy = await Savepoint.open("memory:");
  await copy.import(sp.export({ session: "s" }));
  expect(await copy.verify({ deep: true })).toMatchObject({ ok: true, problems: [] });
  expect((await copy.session("s").latest())?.state).toEqual(stateOf(19));
});
