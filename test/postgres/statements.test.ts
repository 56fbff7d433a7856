/** How many statements it takes to verify and to prune a PostgreSQL store: each is a round trip. */
import pg from "pg";
import { afterEach, expect, inject, it } from "vitest";
import { message, Savepoint } from "../../src/index.js";
import { dropSchema, newPostgresUrl } from "./schemas.js";

const SESSIONS = 10;
const CHECKPOINTS = 100;

const undo: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const each of undo.splice(0).reverse()) await each();
});

/** A store with 1,000 checkpoints, each with a message more, and some with one that was edited; and what counts statements. */
async function openFilled(): Promise<{ sp: Savepoint; count: (work: () => Promise<unknown>) => Promise<number> }> {
  const url = newPostgresUrl();
  undo.push(() => dropSchema(url));
  let statements = 0;
  const pool = new pg.Pool({ connectionString: inject("postgresUrl"), max: 4 });
  undo.push(() => pool.end());
  pool.on("connect", (client) => {
    const query = client.query.bind(client) as (...given: unknown[]) => unknown;
    client.query = ((...given: unknown[]) => (statements++, query(...given))) as typeof client.query;
  });
  const schema = new URL(url).searchParams.get("schema") as string;
  const sp = await Savepoint.open(pool, { schema, durability: "process" });
  undo.push(() => sp.close());
  const fill = async (id: number): Promise<void> => {
    const session = sp.session(`s${id}`);
    const messages = [message.user("the first message")];
    for (let n = 0; n < CHECKPOINTS; n++) {
      messages.push(message.user(`message ${n} of ${id}`));
      if (n % 5 === 4) messages[n] = message.user(`edited ${n}`);
      await session.save({ n, messages });
    }
  };
  await Promise.all(Array.from({ length: SESSIONS }, (_, id) => fill(id)));
  return {
    sp,
    async count(work) {
      statements = 0;
      await work();
      return statements;
    },
  };
}

it("verifies 1,000 checkpoints, prunes 900 of them and verifies the rest with at most 300 statements each", async () => {
  const { sp, count } = await openFilled();
  const verifying = await count(async () => {
    expect(await sp.verify({ deep: true })).toMatchObject({ ok: true, checkpoints: SESSIONS * CHECKPOINTS });
  });
  const pruning = await count(async () => {
    expect(await sp.prune({ keepLast: 10 })).toMatchObject({ removed: SESSIONS * (CHECKPOINTS - 10) });
  });
  // What is left has gaps where messages were edited.
  const verifyingGaps = await count(async () => {
    expect(await sp.verify({ deep: true })).toMatchObject({ ok: true, checkpoints: SESSIONS * 10 });
  });
  for (const statements of [verifying, pruning, verifyingGaps]) {
    expect(statements).toBeGreaterThan(0);
    expect(statements).toBeLessThanOrEqual(300);
  }
});
