/** The inspector beside processes that run, are killed, and are replaced. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { defineAgent } from "../../src/index.js";
import { EventReader } from "./agents.js";
import { atEnd, Client, newFolder, open, useCleanup } from "./lab.js";
import { defineSlow } from "./ui-child.mjs";

useCleanup();

function startChild(url: string): ChildProcess {
  const child = spawn(process.execPath, [fileURLToPath(new URL("./ui-child.mjs", import.meta.url)), url], {
    stdio: ["ignore", "inherit", "inherit"],
  });
  atEnd(() => child.kill("SIGKILL"));
  return child;
}

it("a client follows a run that is killed, is asked about by the next worker, and completes with a person's answer", async () => {
  const url = `sqlite:${newFolder()}/store.db`;
  const sp = await open(url);
  const client = new Client(sp, { write: true });
  const events = new EventReader(await client.send("/api/events?topics=session:s,sessions,queue"));
  const child = startChild(url);
  await events.next("session", ({ session }) => session?.status === "running");
  // Every checkpoint arrives, in any number of events.
  const seqs = (): number[] =>
    events.events
      .filter(({ event }) => event === "session")
      .flatMap(({ data }) => (data["checkpoints"] as unknown as { seq: number }[]).map(({ seq }) => seq));
  await expect.poll(() => new Set(seqs()).size, { timeout: 30_000 }).toBeGreaterThanOrEqual(15);
  const findHanging = async (): Promise<{ name: string; outcome: string; worker: string } | undefined> =>
    (await client.get("/api/sessions/s/journal?limit=1")).entries.find(({ name }: { name: string }) => name === "hang");
  await expect.poll(async () => (await findHanging())?.outcome, { timeout: 30_000 }).toBe("running");
  const from = events.events.length;
  child.kill("SIGKILL");
  await once(child, "exit");
  await events.next("session", ({ session }) => session.status === "interrupted", from);
  expect(await findHanging()).toMatchObject({ outcome: "unknown", worker: expect.stringContaining(`:${child.pid}`) });
  const worker = sp.worker([defineSlow(defineAgent, () => "never called")], { poll: 20, signals: false });
  await worker.start();
  const { questions } = await events.next("session", (data) => data.questions.length > 0, from);
  expect(questions).toMatchObject([{ kind: "unknown", call: { name: "hang" } }]);
  await client.post("/api/sessions/s/answer", { question: questions[0].id, happened: true, result: "it did" });
  await events.next("session", ({ session }) => session.status === "completed", from);
  await events.next(
    "sessions",
    ({ rows }) => rows.some(({ status }: { status: string }) => status === "completed"),
    from,
  );
  await worker.stop();
  const { steps } = await client.get("/api/sessions/s/timeline?limit=1000");
  expect(steps).toHaveLength(20);
  expect(steps[0].spans.map(({ name, settledBy }: { name: string; settledBy?: string }) => [name, settledBy])).toEqual([
    ["wait", undefined],
    ["hang", "answer"],
  ]);
  // Its span lasts until a person has answered.
  const [, hanging] = steps[0].spans;
  expect(hanging.endedAt - hanging.startedAt).toBeGreaterThan(0);
});
