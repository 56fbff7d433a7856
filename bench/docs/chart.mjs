// Bar charts as SVG, for light and dark pages, without scripts or fonts of their own.

const WIDTH = 800;
const ROW = 34;
const LABEL = 310;
const VALUE = 110;
const TOP = 46;

/**
 * @typedef {object} Bar
 * @property {string} label
 * @property {number} value
 * @property {string} text the value as it is printed
 * @property {boolean} ours whether it is Savepoint
 */

/** A bar chart. With `log`, lengths are logarithms of the values. @param {string} title @param {string} note @param {Bar[]} bars @param {boolean} log */
export function barChart(title, note, bars, log) {
  const values = bars.map(({ value }) => value);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  // On a logarithmic axis the shortest bar still has to be seen.
  const from = log ? Math.log10(least) - 0.4 : 0;
  const scale = (/** @type {number} */ value) =>
    ((log ? Math.log10(value) : value) - from) / ((log ? Math.log10(most) : most) - from);
  const room = WIDTH - LABEL - VALUE;
  const height = TOP + bars.length * ROW + 30;
  const rows = bars.map(({ label, value, text, ours }, index) => {
    const y = TOP + index * ROW;
    const length = Math.max(2, scale(value) * room);
    return [
      `<text x="${LABEL - 12}" y="${y + 18}" class="label" text-anchor="end">${escape(label)}</text>`,
      `<rect x="${LABEL}" y="${y + 4}" width="${length.toFixed(1)}" height="20" rx="3" class="${ours ? "ours" : "theirs"}"/>`,
      `<text x="${(LABEL + length + 8).toFixed(1)}" y="${y + 18}" class="value">${escape(text)}</text>`,
    ].join("\n");
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}" role="img" aria-label="${escape(`${title}: ${bars.map(({ label, text }) => `${label} ${text}`).join(", ")}`)}">
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
.title { font-size: 15px; font-weight: 600; }
.note { font-size: 12px; fill: #59636e; }
.value { font-variant-numeric: tabular-nums; }
.ours { fill: #0b6e4f; }
.theirs { fill: #afb8c1; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.note { fill: #9198a1; }
.ours { fill: #2ea36f; }
.theirs { fill: #57606a; }
}
</style>
<text x="16" y="26" class="title">${escape(title)}</text>
${rows.join("\n")}
<text x="16" y="${height - 8}" class="note">${escape(note)}</text>
</svg>
`;
}

/** @param {string} text */
function escape(text) {
  return text.replace(/[&<>"]/g, (character) => `&#${character.charCodeAt(0)};`);
}
