/** The cost of searching for the work of owners that are gone. */
import { expect, it } from "vitest";
import { changeQueueEntry, newQueueEntry } from "../../records/index.js";
import { openMemoryStore } from "../../store/index.js";
import { findOrphans } from "./find-work.js";

const AGENTS = new Map([["ours", undefined]]);

/** A store in which some of many owners hold one session each. */
async function openWithOwners(count: number, hasWork: (owner: number) => boolean) {
  const store = openMemoryStore();
  const owners = Array.from({ length: count }, (_, n) => `owner-${String(n).padStart(4, "0")}`);
  for (const [n, owner] of owners.entries()) {
    if (!hasWork(n)) continue;
    const entry = { ...newQueueEntry("ours", 0), owner };
    await store.commit({ puts: changeQueueEntry(`session-${n}`, "main", undefined, entry).puts });
  }
  let lists = 0;
  const list = store.list.bind(store);
  store.list = (range, options) => (lists++, list(range, options));
  return { store, owners, lists: () => lists };
}

it("owners without work cost no reads of their own", async () => {
  const { store, owners, lists } = await openWithOwners(1000, (n) => n === 500);
  const found = await findOrphans({ store }, owners, AGENTS, 10, () => false);
  expect(found).toMatchObject([{ session: "session-500", owner: "owner-0500" }]);
  expect(lists()).toBeLessThanOrEqual(6);
});

it("the work of owners that are alive is not read", async () => {
  const { store, owners, lists } = await openWithOwners(1000, () => true);
  const gone = new Set(owners.filter((_, n) => n % 250 === 7));
  const found = await findOrphans({ store }, gone, AGENTS, 10, () => false);
  expect(found.map(({ owner }) => owner)).toEqual([...gone]);
  expect(lists()).toBe(gone.size);
});

it("the work of every dead owner is found, in any order of owners", async () => {
  const { store, owners } = await openWithOwners(40, (n) => n % 3 !== 1);
  const found = await findOrphans({ store }, [...owners].reverse(), AGENTS, 100, () => false);
  expect(found.map(({ owner }) => owner).sort()).toEqual(owners.filter((_, n) => n % 3 !== 1));
});
