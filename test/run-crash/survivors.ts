/** Checks sessions at the end: intact, completed, and with a history that is readable back to its beginning. */
import assert from "node:assert/strict";
import { encryptionOf } from "../support/crash-keys.mjs";
import { storeUrl } from "./store-url.mjs";
import { Savepoint } from "../../src/index.js";

export async function checkSessions(folder: string): Promise<void> {
  const damage: string[] = [];
  const on = { damage: ({ reason }: { reason: string }) => void damage.push(reason) };
  await using sp = await Savepoint.open(storeUrl(folder), { on, durability: "process", ...encryptionOf() });
  for (const compacted of [false, true]) {
    // Garbage collection must keep everything that is still needed.
    if (compacted) await sp.compact();
    for await (const { id, status } of sp.sessions.list()) {
      assert.equal(status, "completed", id);
      await checkSession(sp, id);
    }
  }
  assert.deepEqual(damage, []);
}

async function checkSession(sp: Savepoint, id: string): Promise<void> {
  for (const { name: branch, head } of await sp.session(id).branches().all()) {
    const session = sp.session(id, { branch });
    const latest = await session.latest();
    assert.deepEqual([latest?.id, latest?.skipped, latest?.status], [head?.id, [], "completed"], `${id}, ${branch}`);
    const history = await session.history().all();
    assert.equal(history[0]?.id, head?.id);
    assert.equal(history.at(-1)?.parentId, undefined, `The history of ${id}, ${branch}, does not reach its beginning`);
    for (const [index, info] of history.entries()) {
      const parent = history[index + 1];
      assert.equal(info.parentId, parent?.id, `${id}#${info.seq} has another parent than the one before it`);
      assert.ok(!parent || parent.seq < info.seq, `${id}#${info.seq} is out of order`);
      assert.ok((await session.load(info.id))?.state, `${id}#${info.seq} has no state`);
    }
  }
}
