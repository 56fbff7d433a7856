// States to save: the same in every run, and not so regular that compression would flatter them.

/** @typedef {{ id: string; role: string; content: string }} Message */

/** Numbers from 0 to 1, the same for the same seed. @param {number} seed */
export function seeded(seed) {
  let state = seed;
  return () => {
    // mulberry32
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Words that nobody has heard. @param {() => number} random @param {number} length in characters */
export function text(random, length) {
  let made = "";
  while (made.length < length) made += `${Math.floor(random() * 36 ** 6).toString(36)} `;
  return made.slice(0, length);
}

/** @param {() => number} random @param {number} index @param {number} [length] of its content @returns {Message} */
export function message(random, index, length = 1000) {
  return { id: `m${index}`, role: index % 2 ? "assistant" : "user", content: text(random, length) };
}

/** @param {() => number} random @param {number} count @param {number} [length] of each one's content */
export function messages(random, count, length) {
  return Array.from({ length: count }, (_, index) => message(random, index, length));
}

/** A message as agents have them: parts, tool calls, results, and what was used. @param {() => number} random @param {number} index */
export function richMessage(random, index) {
  const id = `call-${index}`;
  return {
    id: `m${index}`,
    role: "assistant",
    content: [
      { type: "text", text: text(random, 500) },
      { type: "tool-call", id, name: "search", input: { query: text(random, 40), limit: 10 } },
      {
        type: "tool-result",
        id,
        output: { total: index, items: [{ title: text(random, 40), score: random(), tags: ["a", "b"] }] },
      },
    ],
    usage: { input: index, output: 200, cached: false },
    metadata: { model: "a-model", latency: random(), trace: { id: `t${index}`, span: "s" } },
  };
}
