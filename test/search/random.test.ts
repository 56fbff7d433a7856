/** Search finds what a scan of all conversations finds, for random texts and random queries. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { message, type Savepoint } from "../../src/index.js";
import { STORES, useData } from "../model/stores.js";
import { runs } from "../support/runs.js";

/** Pieces that queries are cut from, chosen to confuse indexes, SQL and Unicode handling. */
const PIECES = [
  "hello",
  "World",
  "straße",
  "ΟΔΟΣ",
  "ς",
  "İstanbul",
  "こんにちは",
  "世界",
  "👍🏽",
  "👩‍👩‍👧",
  "e\u0301",
  "\ud800",
  "\udc00",
  "\0",
  "\ufffd",
  '"',
  "'",
  "''; drop table savepoint_text; --",
  "AND",
  "OR",
  "NOT",
  "NEAR(",
  "*",
  "^",
  "%",
  "_",
  ":",
  "-",
  "\\",
  "\n",
  "\t",
  " ",
  "a",
  "b",
  "aa",
  "ab",
];
const text = fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }).map((pieces) => pieces.join(""));
const query = fc.oneof(
  text,
  fc.constantFrom(...PIECES),
  fc.constantFrom(...PIECES).map((piece) => piece.toUpperCase()),
);

/** An operation on one of three conversations. */
const change = fc.oneof(
  { weight: 5, arbitrary: fc.record({ kind: fc.constant("append" as const), at: fc.nat(2), texts: fc.array(text) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("save" as const), at: fc.nat(2), texts: fc.array(text) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("rename" as const), at: fc.nat(2), title: text }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("delete" as const), at: fc.nat(2) }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("restore" as const) }) },
  { weight: 4, arbitrary: fc.record({ kind: fc.constant("search" as const), query }) },
);

describe.each(STORES)("searching on $name", (kind) => {
  const data = useData(kind);

  it("finds what a scan finds, after random operations", async () => {
    const [sp, other] = [await data.open(), await data.open()];
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(change, { maxLength: 12 }), query, async (changes, last) => {
        const agent = `agent-${run++}`;
        const ids = [0, 1, 2].map((index) => `${agent}/${index}`);
        await sp.agents.save({ id: agent, name: "A" });
        await sp.conversations.create({ id: ids[0] as string, agent });
        const checkpoint = await sp.checkpoints.create({ agent });
        for (const each of [...changes, { kind: "search" as const, query: last }]) {
          const id = "at" in each ? (ids[each.at] as string) : "";
          switch (each.kind) {
            case "append":
              if (await sp.conversations.load(id))
                await sp.conversations.append(
                  id,
                  each.texts.map((said) => message.user(said)),
                );
              else
                await other.conversations.create({ id, agent, messages: each.texts.map((said) => message.user(said)) });
              break;
            case "save":
              await other.conversations.save({
                id,
                agent,
                messages: each.texts.map((said) => message.assistant(said)),
              });
              break;
            case "rename":
              if (await sp.conversations.load(id)) await sp.conversations.rename(id, each.title);
              break;
            case "delete":
              await sp.conversations.delete(id);
              break;
            case "restore":
              await sp.checkpoints.restore(checkpoint.id);
              break;
            case "search":
              for (const searcher of [sp, other]) {
                const hits = await searcher.conversations.search(each.query, { agent, limit: 100 });
                const found = hits.map((hit) => hit.conversationId).sort();
                expect(found).toEqual(await scan(searcher, agent, each.query));
                for (const hit of hits) await expectHit(searcher, hit.conversationId, hit.messageId, each.query);
              }
          }
        }
      }),
      { numRuns: runs(60, 5) },
    );
  });
});

/** Character by character, as it is documented. */
const fold = (said: string): string => said.toLowerCase().replaceAll("ς", "σ");

async function scan(sp: Savepoint, agent: string, wanted: string): Promise<string[]> {
  if (wanted === "") return [];
  const found: string[] = [];
  for await (const { id } of sp.conversations.list({ agent })) {
    const conversation = await sp.conversations.load(id);
    const said = [conversation?.title ?? "", ...(conversation?.messages.map(({ content }) => content) ?? [])];
    if (said.some((each) => fold(each).includes(fold(wanted)))) found.push(id);
  }
  return found.sort();
}

async function expectHit(sp: Savepoint, id: string, messageId: string | undefined, wanted: string): Promise<void> {
  const conversation = await sp.conversations.load(id);
  const said =
    messageId === undefined ? conversation?.title : conversation?.entries.find((each) => each.id === messageId)?.text;
  expect(fold(said ?? "")).toContain(fold(wanted));
}
