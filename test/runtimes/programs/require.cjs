// A CommonJS program loads every entry point.
const { Savepoint } = require("savepoint");
const { SavepointStore } = require("savepoint/langgraph");

for (const name of ["store", "ai", "claude", "mcp", "inspector", "testing"]) require(`savepoint/${name}`);

async function main() {
  const sp = await Savepoint.open("memory:");
  await new SavepointStore(sp).put(["a"], "k", { n: 1 });
  const item = await new SavepointStore(sp).get(["a"], "k");
  if (item?.value["n"] === 1) console.log("ok");
  await sp.close();
}
void main();
