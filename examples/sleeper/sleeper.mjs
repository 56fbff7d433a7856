// An agent that sleeps for days. No process waits in the meantime: the first sp.recover() after the wake time resumes it, for
// example in a cron job or at the start of a server. Here the days are six seconds.
//
//   node examples/sleeper/sleeper.mjs
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { defineAgent, Savepoint } from "savepoint";

const TRIAL = 6000; // or "14d", or a Date

const reminder = defineAgent({
  name: "reminder",
  initial: (/** @type {{ to: string }} */ { to }) => ({ to, sent: /** @type {string[]} */ ([]) }),
  async step(run) {
    const { to, sent } = run.state;
    for (const text of ["your trial has begun", "your trial ends"]) {
      const mail = { id: text, name: "mail", arguments: { to, text } };
      sent.push(await run.tool(mail, () => say(`MAIL to ${to}: ${text}`)));
      if (sent.length === 1) await run.sleep(TRIAL);
    }
    return run.complete(sent.length);
  },
});

/** @param {string} line */
function say(line) {
  console.log(`  ${line}`);
  return line;
}

const [command, url = ""] = process.argv.slice(2);
if (command === "start") {
  const sp = await Savepoint.open(url);
  const { status, wakeAt = 0 } = await sp.run(reminder, { session: "ada", input: { to: "ada@example.org" } });
  say(`${status}, wakes in ${Math.round((wakeAt - Date.now()) / 1000)} s`);
  await sp.close();
} else if (command === "wake") {
  const sp = await Savepoint.open(url);
  const handles = await sp.recover([reminder]);
  if (handles.length === 0) say("no session to resume");
  for (const handle of handles) {
    const result = await handle.result();
    const end = result.status === "completed" ? `${result.output} mails` : result.reason;
    say(`${handle.session} ${result.status}: ${end ?? "sleeps"}`);
  }
  await sp.close();
} else {
  const folder = mkdtempSync(join(tmpdir(), "savepoint-sleeper-"));
  const play = (/** @type {string} */ what) => {
    console.log(`$ node sleeper.mjs ${what}`);
    const args = [fileURLToPath(import.meta.url), what, `sqlite:${join(folder, "agents.db")}`];
    if (spawnSync(process.execPath, args, { stdio: "inherit" }).status !== 0) process.exitCode = 1;
  };
  play("start");
  const wakeAt = Date.now() + TRIAL;
  play("wake");
  console.log("… time passes, and no process runs …");
  await pause(wakeAt - Date.now());
  play("wake");
  play("wake");
  rmSync(folder, { recursive: true, force: true });
}
