// Runs benchmarks by name, or all of them.
//
//   npm run bench                 all of them; takes about an hour
//   npm run bench growth 500      one, with its arguments
//
// Tables are printed and kept in bench/results, with the same as JSON. Run nothing else meanwhile.
const NAMES = [
  "floors",
  "instructions",
  "runs",
  "search",
  "growth",
  "loading",
  "shapes",
  "concurrency",
  "writers",
  "scale",
  "files",
  "retention",
  "memory",
  "start",
  "langgraph",
  "langgraph-memory",
  "ai",
  "chat",
  "claude",
  "openai",
  "postgres",
  "encryption",
];

const [name, ...args] = process.argv.slice(2);
if (name !== undefined && !NAMES.includes(name)) {
  console.error(`There is no benchmark ${JSON.stringify(name)}. There are: ${NAMES.join(", ")}.`);
  process.exit(2);
}
for (const each of name === undefined ? NAMES : [name]) {
  console.error(`\n=== ${each}`);
  const { default: run } = await import(`./${each}.mjs`);
  await run(args);
}
