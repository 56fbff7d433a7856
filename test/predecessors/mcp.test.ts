/** The operations that other systems offered as built-in commands, called from outside the program, on a real store. */
import { expect, it } from "vitest";
import { useLab } from "../mcp/lab.js";

const lab = useLab();

it("003-S17: all kinds of data can be saved, loaded, listed, searched and deleted over MCP", async () => {
  const client = await lab.connect();
  await client.call("agent_save", { id: "support", name: "Support", state: { solved: 0 } });
  expect(await client.call("agent_load", { id: "support" })).toMatchObject({ content: { state: { solved: 0 } } });
  expect(await client.call("agent_list")).toMatchObject({ agents: [{ id: "support", name: "Support" }] });

  const messages = [{ role: "user", content: "Where is my order?" }];
  await client.call("conversation_save", { id: "c-1", agent: "support", messages });
  expect(await client.call("conversation_load", { id: "c-1" })).toMatchObject({ messages: [{ message: messages[0] }] });
  expect(await client.call("conversation_list")).toMatchObject({ conversations: [{ id: "c-1", messageCount: 1 }] });
  expect(await client.call("conversation_search", { text: "ORDER" })).toMatchObject({
    hits: [{ conversation: "c-1" }],
  });

  const { checkpoint } = await client.call<{ checkpoint: { id: string } }>("checkpoint_create", { agent: "support" });
  expect(await client.call("checkpoint_list")).toMatchObject({ checkpoints: [{ id: checkpoint.id }] });
  expect(await client.call("persistence_stats")).toMatchObject({
    agents: 1,
    conversations: 1,
    messages: 1,
    checkpoints: 1,
  });

  expect(await client.call("conversation_delete", { id: "c-1" })).toEqual({ deleted: true });
  expect((await client.fail("conversation_load", { id: "c-1" })).code).toBe("CONVERSATION_NOT_FOUND");
  await client.call("checkpoint_restore", { id: checkpoint.id });
  expect(await client.call("conversation_load", { id: "c-1" })).toMatchObject({ messages: [{ message: messages[0] }] });

  expect(await client.call("checkpoint_delete", { id: checkpoint.id })).toEqual({ deleted: true });
  expect(await client.call("agent_delete", { id: "support" })).toEqual({ deleted: true });
  expect(await client.call("agent_list")).toEqual({ agents: [] });
  expect(await client.call("persistence_stats")).toMatchObject({
    agents: 0,
    conversations: 0,
    messages: 0,
    checkpoints: 0,
  });
  // A program that opens the store finds the changes.
  const sp = await lab.open();
  expect(await sp.conversations.list().all()).toEqual([]);
});
