import { setTimeout as sleep } from "node:timers/promises";
import type { Savepoint, WatchEvent, WatchOptions } from "../../index.js";
import { colorStatus, formatCheckpointLine } from "../checkpoint-line.js";
import { requireSession } from "../checkpoint-lookup.js";
import type { Cli } from "../cli.js";
import { formatClock } from "../format.js";
import { describeEffect } from "../run-output.js";
import { joinParts, type Text } from "../text.js";
import { defineVerb } from "../verb.js";

type SessionEvent = WatchEvent & { readonly session: string };

/** The least time between two polls of all sessions, in milliseconds. Polling takes at most a tenth of the time. */
const POLL_INTERVAL = 500;

export const watch = defineVerb<Omit<WatchOptions, "signal">>({
  name: "watch",
  group: "Inspect",
  summary: "follow a session, or all sessions, as they run",
  examples: [
    ["savepoint watch order-88", "until its run ends"],
    ["savepoint watch order-88 --keep-open", "across runs"],
    ["savepoint watch --jsonl", "all sessions, one JSON object per line"],
  ],
  declare(command) {
    command
      .argument("[session]", "a session (default: all sessions)")
      .option("-b, --branch <name>", "the branch (default: main)")
      .option("--keep-open", "continue after the run has ended");
  },
  async run(cli, [id], options) {
    const sp = await cli.read();
    const { signal } = cli;
    if (id === undefined) return printEvents(cli, watchAll(sp, signal), true);
    await requireSession(sp, id, options.branch);
    const events = (async function* (): AsyncGenerator<SessionEvent> {
      for await (const event of sp.watch(id, { ...options, signal })) yield { session: id, ...event };
    })();
    await printEvents(cli, events, false);
  },
});

/** Prints one line per event. `--json` does so too: a document that never ends could not be parsed. */
async function printEvents(cli: Cli, events: AsyncIterable<SessionEvent>, withSession: boolean): Promise<void> {
  const { output } = cli;
  for await (const event of events) {
    const session = withSession ? output.colors.bold(event.session) : "";
    const time = output.colors.dim(formatClock(event.type === "checkpoint" ? event.checkpoint.createdAt : Date.now()));
    if (output.format === "text") await output.line(joinParts([time, session, formatEvent(cli, event)]));
    else await output.json(event);
    if (output.closed) return;
  }
}

function formatEvent({ output: { colors } }: Cli, event: SessionEvent): Text {
  switch (event.type) {
    case "checkpoint":
      return formatCheckpointLine(event.checkpoint, colors, Date.now());
    case "effect": {
      const effect = describeEffect(event);
      return event.phase === "start" ? colors.dim(`${effect} started`) : `${effect} recorded`;
    }
    case "step":
      return `step ${event.step} completed`;
    case "status": {
      const reason = event.question?.text ?? event.reason;
      return joinParts([colorStatus(event.status, colors), reason ?? ""]);
    }
  }
}

/** Polls all sessions and yields what has changed since the first poll. */
async function* watchAll(sp: Savepoint, signal: AbortSignal): AsyncGenerator<SessionEvent> {
  const known = new Map<string, { head: string | undefined; status: string }>();
  for (let first = true; !signal.aborted; first = false) {
    const startedAt = performance.now();
    for await (const { id, head, status, reason, questions, wakeAt } of sp.sessions.list()) {
      const before = known.get(id);
      const now = { head: head?.id, status: `${status} ${reason ?? ""} ${questions[0]?.id ?? ""}` };
      known.set(id, now);
      if (first) continue;
      if (head && head.id !== before?.head) yield { session: id, type: "checkpoint", checkpoint: head };
      if (now.status !== before?.status) {
        yield { session: id, type: "status", status, reason, question: questions[0], wakeAt };
      }
    }
    const pause = Math.max(POLL_INTERVAL, 9 * (performance.now() - startedAt));
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
}
