// Any earlier moment is opened, compared, forked and restored.
import assert from "node:assert/strict";
import { isSavepointError, Savepoint } from "savepoint";

const sp = await Savepoint.open(process.argv[2] ?? "sqlite:./branches.db");
/** @type {import("savepoint").Session<{ city: string, messages: { role: string, content: string }[] }>} */
const session = sp.session("trip", { agent: "planner" });
const plan = { city: "Lisbon", messages: [{ role: "user", content: "plan a trip" }] };
const first = await session.save(plan, { label: "start" });
plan.messages.push({ role: "assistant", content: "fly at noon" });
const second = await session.save(plan);
plan.messages.push({ role: "assistant", content: "hotel booked" });
const third = await session.save(plan);

const fork = await session.fork(second.id, {
  branch: "what-if",
  state: { city: "Porto", messages: plan.messages.slice(0, 2) },
});
await fork.append("/messages", [{ role: "assistant", content: "cheaper" }]);
assert.equal((await fork.latest())?.state.city, "Porto");
assert.equal((await session.latest())?.id, third.id);
assert.deepEqual((await session.branches().all()).map(({ name }) => name).sort(), ["main", "what-if"]);
assert.deepEqual(
  (await session.diff(first.id, third.id)).map(({ op, path }) => `${op} ${path}`),
  ["add /messages/1", "add /messages/2"],
);
await session.rewind(first.id);
assert.equal((await session.latest())?.state.messages.length, 1);
assert.equal((await session.load(third.id))?.state.messages.length, 3);
await sp.sessions.delete("trip");
await assert.rejects(session.save(plan), (error) => isSavepointError(error, "SESSION_DELETED"));
assert.equal(await sp.sessions.load("trip"), undefined);
await sp.close();
console.log("ok");
