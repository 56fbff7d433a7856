/** LangGraph's own savers, empty, and how they are released. */
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { MemorySaver } from "@langchain/langgraph";
import type { BaseCheckpointSaver } from "@langchain/langgraph-checkpoint";
import { PostgresSaver } from "@langchain/langgraph-checkpoint-postgres";
import { inject } from "vitest";
import { dropSchemas } from "../postgres/schemas.js";
import { makeFolder, removeFolder } from "../store/temporary-folder.js";
import { openSqliteSaver } from "./sqlite-saver.js";

export interface OwnSaver {
  readonly saver: BaseCheckpointSaver;
  end(): Promise<void>;
}

export const OWN_SAVERS: Readonly<Record<string, () => Promise<OwnSaver>>> = {
  MemorySaver: async () => ({ saver: new MemorySaver(), end: async () => {} }),
  async SqliteSaver() {
    const folder = await makeFolder();
    const saver = await openSqliteSaver(join(folder, "graph.db"));
    return {
      saver,
      async end() {
        saver.db.close();
        await removeFolder(folder);
      },
    };
  },
  async PostgresSaver() {
    const schema = `langgraph_${randomBytes(8).toString("hex")}`;
    const saver = PostgresSaver.fromConnString(inject("postgresUrl"), { schema });
    await saver.setup();
    return {
      saver,
      async end() {
        await saver.end();
        await dropSchemas(schema);
      },
    };
  },
};
