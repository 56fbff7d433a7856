// Draws the demo in a terminal as SVG, light and dark: node scripts/demo-picture.mjs   (after npm run build)
import { execFileSync } from "node:child_process";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const COLUMNS = 118;
const INDENT = " ".repeat(13);
const [CHARACTER, LINE, MARGIN, TITLE] = [7.4, 19, 18, 34];
const FONT = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace";

const THEMES = {
  light: {
    back: "#ffffff",
    edge: "#d0d7de",
    bar: "#f6f8fa",
    text: "#1f2328",
    dim: "#59636e",
    bad: "#cf222e",
    good: "#1a7f37",
    accent: "#0550ae",
  },
  dark: {
    back: "#0d1117",
    edge: "#30363d",
    bar: "#161b22",
    text: "#e6edf3",
    dim: "#8b949e",
    bad: "#ff7b72",
    good: "#3fb950",
    accent: "#79c0ff",
  },
};

const output = execFileSync(process.execPath, ["examples/demo/demo.mjs", "--kills", "6", "--seed", "386636015"], {
  cwd: root,
  encoding: "utf8",
});
const lines = ["$ npm run demo", ...output.trimEnd().split("\n").flatMap(wrap)];
mkdirSync(join(root, "docs", "images"), { recursive: true });
for (const [name, theme] of Object.entries(THEMES)) {
  writeFileSync(join(root, "docs", "images", `demo-${name}.svg`), draw(lines, theme));
}

/** Breaks a line between words. Further lines are indented. @param {string} line */
function wrap(line) {
  const parts = [];
  let rest = line;
  while (rest.length > COLUMNS) {
    const at = rest.lastIndexOf(" ", COLUMNS);
    parts.push(rest.slice(0, at));
    rest = `${INDENT}${rest.slice(at + 1)}`;
  }
  return [...parts, rest];
}

/** @param {readonly string[]} lines @param {typeof THEMES.light} theme */
function draw(lines, theme) {
  const width = Math.round(COLUMNS * CHARACTER + 2 * MARGIN);
  const height = TITLE + lines.length * LINE + 2 * MARGIN;
  const dots = ["#ff5f57", "#febc2e", "#28c840"].map(
    (color, n) => `<circle cx="${20 + n * 18}" cy="17" r="5.5" fill="${color}"/>`,
  );
  const rows = lines.map((line, n) => {
    // A line that was broken inside of a kill stays red.
    const isKill = line.startsWith(INDENT) && /KILL \d/.test(lines[n - 1] ?? "") && !/KILL \d/.test(line);
    const text = isKill ? `<tspan fill="${theme.bad}">${line}</tspan>` : paint(line, theme);
    // Viewers drop spaces at the beginning of a line.
    const indent = line.length - line.trimStart().length;
    const x = (MARGIN + indent * CHARACTER).toFixed(1);
    return `<text x="${x}" y="${TITLE + MARGIN + n * LINE + 6}">${text}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img" aria-label="The demo in a terminal">
<rect x="0.5" y="0.5" width="${width - 1}" height="${height - 1}" rx="8" fill="${theme.back}" stroke="${theme.edge}"/>
<path d="M1 ${TITLE}V8a7 7 0 0 1 7-7h${width - 16}a7 7 0 0 1 7 7v${TITLE - 8}z" fill="${theme.bar}"/>
${dots.join("")}
<g font-family="${FONT}" font-size="12.3" fill="${theme.text}">
${rows.join("\n")}
</g>
</svg>
`;
}

/** Colors of a line, by what it says. @param {string} line @param {typeof THEMES.light} theme */
function paint(line, theme) {
  const escaped = line.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
  if (line.startsWith("$")) return `<tspan fill="${theme.accent}">${escaped}</tspan>`;
  if (/^\S/.test(line) || /^ {2}\d+ [a-z]/.test(line)) {
    return escaped.replace(
      /^(0 recorded effects repeated.*)$/,
      `<tspan fill="${theme.good}" font-weight="bold">$1</tspan>`,
    );
  }
  return escaped
    .replace(/^( *[\d.]+ s)/, `<tspan fill="${theme.dim}">$1</tspan>`)
    .replace(/(KILL \d+.*)$/, `<tspan fill="${theme.bad}">$1</tspan>`)
    .replace(/(DONE)$/, `<tspan fill="${theme.good}">$1</tspan>`)
    .replaceAll(
      /\b(again|verified: \w+|a person answers that it happened)\b/g,
      `<tspan fill="${theme.accent}">$1</tspan>`,
    );
}
