import { setTimeout as sleep } from "node:timers/promises";
import type { Savepoint, WatchEvent } from "../../index.js";
import type { Cli } from "../cli.js";
import { requireBranch, requireSession } from "../checkpoint-lookup.js";
import { toPrintableJson } from "../json.js";
import { formatCheckpointLine, colorStatus } from "../checkpoint-line.js";
import { sanitize } from "../terminal-text.js";
import { defineVerb } from "../verb.js";

interface Options {
  readonly branch?: string;
  readonly keepOpen?: boolean;
}

/** What has happened, and in which session. */
type Seen = WatchEvent & { readonly session: string };

/** How often all sessions are looked at, at most; and never for more than a tenth of the time. */
const OFTEN = 500;

export const watch = defineVerb<Options>({
  name: "watch",
  group: "Look",
  summary: "follow a session, or all of them, as they go on; as JSON, a line each",
  examples: [
    ["savepoint watch order-88", "until its work is over"],
    ["savepoint watch order-88 --keep-open", "and further, for its next turn"],
    ["savepoint watch --jsonl", "whatever happens in the store, for programs"],
  ],
  declare(command) {
    command
      .argument("[session]", "a session; all of them, if it is not said")
      .option("-b, --branch <name>", "another branch than main")
      .option("--keep-open", "go on when the work is over");
  },
  async run(cli, [id], { branch, keepOpen }) {
    const sp = await cli.open();
    const { signal } = cli;
    if (id === undefined) return print(cli, watchAll(sp, signal), true);
    await requireSession(sp, id);
    await requireBranch(sp, id, branch);
    const options = { signal, ...(branch !== undefined && { branch }), ...(keepOpen && { keepOpen }) };
    const events = (async function* (): AsyncGenerator<Seen> {
      for await (const event of sp.watch(id, options)) yield { session: id, ...event };
    })();
    await print(cli, events, false);
  },
});

async function print(cli: Cli, events: AsyncIterable<Seen>, named: boolean): Promise<void> {
  const { output } = cli;
  if (output.format !== "text") {
    // A document that never ends is of no use while it grows: one line each.
    for await (const event of events) {
      await output.line(JSON.stringify(toPrintableJson(event)));
      if (output.closed) return;
    }
    return;
  }
  for await (const event of events) {
    await output.line(`${named ? `${output.colors.bold(sanitize(event.session))}  ` : ""}${toLine(cli, event)}`);
    if (output.closed) return;
  }
}

function toLine({ output: { colors } }: Cli, event: Seen): string {
  switch (event.type) {
    case "checkpoint":
      return formatCheckpointLine(event.checkpoint, colors, Date.now());
    case "effect": {
      const what = `${event.kind} ${sanitize(event.callId === undefined ? event.name : `${event.name} ${event.callId}`)}`;
      return event.phase === "start" ? colors.dim(`${what} begins`) : `${what} recorded`;
    }
    case "status": {
      const why = event.question?.text ?? event.reason;
      return `${colorStatus(event.status, colors)}${why === undefined ? "" : `  ${sanitize(why)}`}`;
    }
  }
}

/** Looks at all sessions again and again, and tells what is new. What was there before is not told. */
async function* watchAll(sp: Savepoint, signal: AbortSignal): AsyncGenerator<Seen> {
  const known = new Map<string, { head: string | undefined; status: string }>();
  for (let first = true; !signal.aborted; first = false) {
    const began = performance.now();
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
    const pause = Math.max(OFTEN, 9 * (performance.now() - began));
    await sleep(pause, undefined, { signal }).catch(() => {});
  }
}
