// A session saves its state at each step, and another Savepoint reads it.
import assert from "node:assert/strict";
import { isSavepointError, Savepoint } from "savepoint";

const url = process.argv[2] ?? "sqlite:./save.db";
const state = {
  messages: [{ role: "user", content: "Hello" }],
  bytes: new Uint8Array([0, 255, 137, 80]),
  large: new Uint8Array(5000).map((_, index) => index % 251),
  seen: new Map([["a", new Date(0)]]),
  tags: new Set(["x"]),
  budget: 10n,
  minusZero: -0,
  text: "line\u0000 \ud800 ü ".repeat(2000),
};
{
  const sp = await Savepoint.open(url);
  const session = sp.session("support-42", { agent: "support" });
  assert.equal(await session.latest(), undefined);
  await session.save(state, { label: "greeting" });
  state.messages.push({ role: "assistant", content: "Hi" });
  await session.save(state, { status: "failed", reason: "out of memory" });
  await assert.rejects(session.save({ bad: () => 1 }), (error) => isSavepointError(error, "INVALID_STATE"));
  await sp.close();
}
const sp = await Savepoint.open(url);
const session = sp.session("support-42");
const latest = await session.latest();
assert.deepEqual(latest?.state, state);
assert.equal(latest.status, "failed");
assert.deepEqual(
  (await session.history().all()).map(({ step }) => step),
  [1, 0],
);
const fast = sp.session("fast", { agent: "support" });
for (let step = 0; step < 300; step++)
  await fast.append("/messages", [{ role: "user", content: `message ${step}` }], { step }).catch(async (error) => {
    // The first append needs a list.
    assert.equal(step, 0, String(error));
    await fast.save({ messages: [] }, { step });
  });
assert.equal((await fast.history().all()).length, 300);
assert.deepEqual(
  (await sp.search("message 299")).map(({ id }) => id),
  ["fast"],
);
assert.equal((await sp.verify()).problems.length, 0);
await sp.close();
console.log("ok");
