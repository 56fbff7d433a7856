/** The differences between two states. */
import type { JSX } from "preact";
import type { ChangeView } from "../../api.js";
import type { Json } from "../api/types.js";
import { plural } from "./format.js";
import { JsonTree, toOmitted } from "./json-tree.js";

const SIGNS = { add: "+", remove: "−", replace: "±" } as const;
const WORDS = { add: "added", remove: "removed", replace: "changed" } as const;

export function Changes({
  changes,
  total,
}: {
  readonly changes: readonly ChangeView[];
  readonly total: number;
}): JSX.Element {
  if (changes.length === 0) return <p class="faint">The states are equal.</p>;
  const counts = (["add", "replace", "remove"] as const)
    .map((op) => [op, changes.filter((each) => each.op === op).length] as const)
    .filter(([, count]) => count > 0);
  return (
    <div class="changes">
      <p class="changes-summary">
        {counts.map(([op, count]) => (
          <span key={op} class={`change-${op}`}>
            {SIGNS[op]} {count} {WORDS[op]}
          </span>
        ))}
        {total > changes.length && <span class="faint">of {plural(total, "change")}</span>}
      </p>
      <ul>
        {changes.map((change, index) => (
          <li key={index} class={`change change-${change.op}`}>
            <div class="change-path">
              <span class="change-sign" aria-hidden="true">
                {SIGNS[change.op]}
              </span>
              <span class="visually-hidden">{WORDS[change.op]}</span>
              <code>{change.path === "" ? "(the complete state)" : change.path}</code>
            </div>
            <div class="change-values">
              {change.op !== "add" && (
                <Side kind="before" value={change.before} other={change.op === "replace" ? change.value : undefined} />
              )}
              {change.op !== "remove" && (
                <Side kind="after" value={change.value} other={change.op === "replace" ? change.before : undefined} />
              )}
            </div>
          </li>
        ))}
      </ul>
    </div>
  );
}

function Side({
  kind,
  value,
  other,
}: {
  readonly kind: "before" | "after";
  readonly value: Json;
  readonly other: Json | undefined;
}): JSX.Element {
  const content =
    typeof value === "string" && typeof other === "string" ? (
      <TextSide text={value} other={other} />
    ) : typeof value === "object" && value !== null && !toOmitted(value) ? (
      <JsonTree value={value} tools={{ depth: 1 }} />
    ) : (
      <JsonTree value={value} />
    );
  return (
    <div class={`change-side ${kind}`}>
      <span class="visually-hidden">{kind}: </span>
      {content}
    </div>
  );
}

/** A text, with the part that differs from the other one marked. */
function TextSide({ text, other }: { readonly text: string; readonly other: string }): JSX.Element {
  const least = Math.min(text.length, other.length);
  let start = 0;
  while (start < least && text[start] === other[start]) start++;
  let end = 0;
  while (end < least - start && text[text.length - 1 - end] === other[other.length - 1 - end]) end++;
  const before = text.slice(0, start);
  return (
    <span class="tree-string">
      {before.length > 80 ? `…${before.slice(-80)}` : before}
      <mark>{text.slice(start, text.length - end)}</mark>
      {end > 80 ? `${text.slice(text.length - end, text.length - end + 80)}…` : text.slice(text.length - end)}
    </span>
  );
}
