/** Every error says what failed and what to do next, and the server continues. */
import { describe, expect, it } from "vitest";
import { message } from "../../src/index.js";
import { messageTape, tapeName } from "../../src/records/index.js";
import { GENERATIONS } from "./clients.js";
import { useLab } from "./lab.js";

describe.each(GENERATIONS)("errors, for $name", (generation) => {
  const lab = useLab(generation);

  it("a missing thing is named together with the tool that lists what exists", async () => {
    const client = await lab.connect();
    await client.call("session_save", { session: "s", state: { a: { b: [1] } } });
    const failures = [
      ["agent_load", { id: "x" }, "AGENT_NOT_FOUND", "agent_list"],
      ["checkpoint_create", { agent: "x" }, "AGENT_NOT_FOUND", "agent_save"],
      ["conversation_load", { id: "x" }, "CONVERSATION_NOT_FOUND", "conversation_list"],
      ["conversation_load", { id: "x", at: "y" }, "CHECKPOINT_NOT_FOUND", "checkpoint_list"],
      ["session_resume", { session: "x" }, "SESSION_NOT_FOUND", "session_list"],
      ["session_resume", { session: "s", checkpoint: "x" }, "CHECKPOINT_NOT_FOUND", "checkpoint_list"],
      ["session_resume", { session: "s", branch: "x" }, "BRANCH_NOT_FOUND", '"main"'],
      ["session_save", { session: "s", branch: "x", state: 1 }, "BRANCH_NOT_FOUND", "checkpoint_fork"],
      ["session_save", { session: "new", changes: [{ op: "remove", path: "/a" }] }, "INVALID_ARGUMENT", "`state`"],
      ["checkpoint_list", { session: "x" }, "SESSION_NOT_FOUND", "session_list"],
      ["checkpoint_restore", { id: "x" }, "CHECKPOINT_NOT_FOUND", "checkpoint_list"],
      ["checkpoint_diff", { session: "x", from: "y" }, "SESSION_NOT_FOUND", "session_list"],
      ["checkpoint_diff", { session: "s", from: "y" }, "CHECKPOINT_NOT_FOUND", "checkpoint_list"],
      ["checkpoint_fork", { session: "x", checkpoint: "y" }, "SESSION_NOT_FOUND", "session_list"],
      ["checkpoint_fork", { session: "s", checkpoint: { seq: 9 } }, "CHECKPOINT_NOT_FOUND", "checkpoint_list"],
    ] as const;
    for (const [tool, args, code, next] of failures) {
      const failed = await client.fail(tool, args);
      expect(failed, `${tool} ${JSON.stringify(args)}`).toMatchObject({ code });
      expect(failed.text, tool).toContain(next);
    }
    for (const tool of ["agent_delete", "conversation_delete", "checkpoint_delete"]) {
      expect(await client.call(tool, { id: "x" })).toEqual({ deleted: false });
    }
    expect((await client.call("session_resume", { session: "s" })).state).toEqual({ a: { b: [1] } });
  });

  it("an invalid argument is named", async () => {
    const client = await lab.connect();
    await client.call("session_save", { session: "s", state: { a: { b: [1] } } });
    await client.call("conversation_save", { id: "c", messages: [message.user("Hello")] });
    const failures = [
      ["session_save", { state: 1 }, "`session`"],
      ["session_save", { session: "s" }, "`state`"],
      ["session_save", { session: "s", state: 1, changes: [{ op: "remove", path: "/a" }] }, "`changes`"],
      ["session_save", { session: "s", state: 1, status: "asleep" }, "`status`"],
      ["session_save", { session: "s", state: 1, sate: 2 }, "sate"],
      ["session_save", { session: "s", changes: [{ op: "move", path: "/a" }] }, "`changes.0.op`"],
      ["session_save", { session: "s", changes: [{ op: "add", path: "/x/y", value: 1 }] }, "/x/y"],
      ["session_resume", { session: "s", pointer: "/a/c" }, '"b"'],
      ["session_resume", { session: "s", pointer: "a" }, "`pointer`"],
      ["session_resume", { session: "s", checkpoint: { moment: 1 } }, "`checkpoint`"],
      ["session_resume", { session: "s", from: -1 }, "`from`"],
      ["conversation_list", { limit: 201 }, "`limit`"],
      ["conversation_list", { limit: 0 }, "`limit`"],
      ["conversation_list", { since: "yesterday" }, "`since`"],
      ["conversation_list", { cursor: "nonsense" }, "`cursor`"],
      ["conversation_load", { id: "c", cursor: "W10" }, "`cursor`"],
      ["conversation_load", { id: "c", index: 7 }, "`index`"],
      ["conversation_load", { id: "c", pointer: "/content" }, "`index`"],
      ["conversation_save", { id: "c", mode: "replace" }, "`messages`"],
      ["conversation_save", { id: "c", messages: ["Hello"] }, "`messages.0`"],
      ["conversation_search", { text: "" }, "`text`"],
      ["checkpoint_list", { of: "cheese" }, "`of`"],
      ["checkpoint_create", {}, "`agent`"],
      ["agent_save", { id: "" }, "`id`"],
      [
        "checkpoint_fork",
        { session: "s", checkpoint: "s#0", state: 1, changes: [{ op: "remove", path: "/a" }] },
        "`state`",
      ],
    ] as const;
    for (const [tool, args, named] of failures) {
      const { code, text } = await client.fail(tool, args);
      expect(code, `${tool} ${JSON.stringify(args)}: ${text}`).toBe("INVALID_ARGUMENT");
      expect(text, tool).toContain(named);
    }
    expect((await client.fail("session_save", { session: "a\u0000b", state: 1 })).code).toBe("INVALID_ID");
    expect((await client.fail("conversation_save", { id: "c", agent: "b", title: "x" })).code).toBe("AGENT_MISMATCH");
    expect(await client.call("conversation_load", { id: "c" })).toMatchObject({ conversation: { messageCount: 1 } });
  });

  it("damage is distinguished from what was never saved, and the newest intact state is found", async () => {
    const client = await lab.connect();
    const messages = ["1", "2"].map((digit) => digit.repeat(3000));
    await client.call("session_save", { session: "s", state: { messages: messages.slice(0, 1) } });
    await client.call("session_save", { session: "s", state: { messages } });
    await client.close();
    await lab.damage({ kind: "item", tape: tapeName(0, 0), item: 1 });
    const again = await lab.connect();
    const resumed = await again.call("session_resume", { session: "s" });
    expect(resumed).toMatchObject({ state: { messages: messages.slice(0, 1) }, skipped: [{ seq: 1 }] });
    expect((await again.fail("session_resume", { session: "s", checkpoint: { seq: 1 } })).code).toBe("DAMAGED");
    const partial = await again.call<{ lost: unknown[] }>("session_resume", {
      session: "s",
      checkpoint: { seq: 1 },
      partial: true,
    });
    expect(partial.lost.length).toBeGreaterThan(0);
  });

  it("damaged messages are omitted and listed", async () => {
    const client = await lab.connect();
    const messages = ["one", "two", "three"].map((text) => message.user(text.repeat(500)));
    await client.call("conversation_save", { id: "c", messages });
    await client.close();
    await lab.damage({ kind: "item", tape: messageTape(0), item: 1 });
    const again = await lab.connect();
    const loaded = await again.call("conversation_load", { id: "c" });
    expect(loaded).toMatchObject({ first: 0, messages: [{ index: 0 }, { index: 2 }], lost: [{ index: 1 }] });
    expect((loaded["messages"] as { message: unknown }[])[1]?.message).toEqual(messages[2]);
    expect((await again.fail("conversation_load", { id: "c", index: 1 })).code).toBe("DAMAGED");
    expect(await again.call("conversation_load", { id: "c", index: 2 })).toMatchObject({ messages: [{ index: 2 }] });
    // Appending does not need the lost messages.
    await again.call("conversation_save", { id: "c", messages: [message.user("four")] });
  });
});
