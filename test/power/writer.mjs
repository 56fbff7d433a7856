// Saves to several sessions at once for as long as it lives, and says each save that was acknowledged on a line.
import { writeSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { Savepoint } from "savepoint";
import { withTestHooks } from "../support/test-hooks.mjs";

export const SESSIONS = 6;

/** The state of a session at a step: a list that grows, with a text that is edited. @param {string} id @param {number} step */
export function stateOf(id, step) {
  const messages = Array.from({ length: step + 1 }, (_, n) => ({ id: `${id}/${n}`, text: `${n} `.repeat(80) }));
  return { messages, note: `at ${step}: ${"note ".repeat(1 + (step % 50))}` };
}

/** @param {Savepoint} sp @param {string} id */
async function write(sp, id) {
  const session = sp.session(id);
  const state = stateOf(id, 0);
  for (let step = 0; ; step++) {
    const next = stateOf(id, step);
    const added = next.messages.at(-1);
    if (step > 0 && added) state.messages.push(added);
    state.note = next.note;
    await session.save(state);
    writeSync(1, `${id} ${step}\n`);
    // Each at its own pace, so that commits come alone and in groups.
    if (step % 7 === 0) await new Promise((resolve) => setTimeout(resolve, Math.random() * 4));
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [, , path = "", mode] = process.argv;
  const noSync = withTestHooks({ syncFile: (_, done) => done(null) });
  const sp = await Savepoint.open(path, mode === "no-sync" ? noSync : {});
  // With its file system gone every write fails: that is how this ends.
  await Promise.all(Array.from({ length: SESSIONS }, (_, n) => write(sp, `session-${n}`))).catch(() => process.exit(0));
}
