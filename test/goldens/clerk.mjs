/** The agent whose runs the golden stores have: in the middle of a tool, in the middle of a model call, and with a question. */

/**
 * @typedef {{ todo: number; ask?: boolean }} Input
 * @typedef {{ todo: number; ask: boolean; filed: string[] }} State
 */

/**
 * @param {typeof import("savepoint").defineAgent} defineAgent
 * @param {{ model(n: number): unknown; tool(n: number): unknown }} world called before the model and the tool return
 */
export function defineClerk(defineAgent, world) {
  return defineAgent({
    name: "clerk",
    /** @param {Input} input @returns {State} */
    initial: (input) => ({ todo: input.todo, ask: input.ask ?? false, filed: [] }),
    async step(run) {
      const n = run.state.filed.length;
      if (run.state.ask && n === 1) run.state.filed.push(await run.ask("Which folder?"));
      else if (n === run.state.todo) return run.complete(`filed ${n}`);
      else {
        const { content } = await run.llm(async () => {
          await world.model(n);
          return { role: "assistant", content: `document ${n}`, usage: { tokens: 10 } };
        });
        const file = async () => {
          await world.tool(n);
          return `${content} is filed`;
        };
        run.state.filed.push(await run.tool({ id: `call-${n}`, name: "file", arguments: { n } }, file));
      }
      return undefined;
    },
  });
}

/** The times at which the golden stores were filled, and runs on them killed. */
export const FILLED_AT = Date.parse("2026-01-01T00:00:00Z");
export const KILLED_AT = Date.parse("2026-01-02T00:00:00Z");
