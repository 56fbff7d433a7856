/** A JSON value as a tree. Branches are rendered when they are opened. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { Omitted } from "../../api.js";
import type { Json } from "../api/types.js";
import { formatNumber, plural } from "./format.js";
import { Icon } from "./icon.js";

/** What a tree can do with its parts. */
export interface TreeTools {
  /** Loads a part that was left out for its size. */
  readonly load?: (pointer: string) => Promise<Json>;
  /** What is shown behind a part, such as a button. */
  readonly after?: (pointer: string, value: Json) => ComponentChildren;
  /** What is shown instead of a part; `undefined` for the part itself. */
  readonly instead?: (pointer: string, value: Json) => ComponentChildren | undefined;
  /** How deep the tree is open at first. */
  readonly depth?: number;
}

/** The entries of a large list or object are shown in portions. */
const PORTION = 200;
/** Strings that would be taken for another value, such as "42", or for nothing. They are shown with quotes. */
const LOOKS_LIKE_JSON = /^(-?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,10})?|true|false|null|\s{0,40})$/;
/** Longer strings are folded. */
const MAX_STRING = 400;

export function JsonTree({
  value,
  pointer = "",
  tools = {},
}: {
  readonly value: Json;
  readonly pointer?: string;
  readonly tools?: TreeTools;
}): JSX.Element {
  return (
    <div class="tree">
      {isContainer(value) && !isSpecial(value) ? (
        <Entries value={value} pointer={pointer} level={0} tools={tools} />
      ) : (
        <Leaf value={value} pointer={pointer} tools={tools} />
      )}
    </div>
  );
}

function isContainer(value: Json): value is Json[] | { [key: string]: Json } {
  return typeof value === "object" && value !== null;
}

/** The forms of values that JSON does not have, which are shown in one line. */
function isSpecial(value: Json): boolean {
  if (!isContainer(value) || Array.isArray(value)) return false;
  const [first = ""] = Object.keys(value);
  return ["$date", "$bytes", "$bigint", "$number", "$url", "$undefined", "$unknown", "$omitted"].includes(first);
}

/** The value of an omitted part. */
export function toOmitted(value: Json): Omitted["$omitted"] | undefined {
  if (!isContainer(value) || Array.isArray(value) || !Object.hasOwn(value, "$omitted")) return undefined;
  const omitted = (value as unknown as Omitted).$omitted;
  return typeof omitted === "object" && typeof omitted.pointer === "string" ? omitted : undefined;
}

export function escapePointer(key: string): string {
  return key.replaceAll("~", "~0").replaceAll("/", "~1");
}

interface PartProps {
  readonly value: Json;
  readonly pointer: string;
  readonly tools: TreeTools;
}

function Entries({
  value,
  pointer,
  level,
  tools,
}: PartProps & {
  readonly value: Json[] | { [key: string]: Json };
  readonly level: number;
}): JSX.Element {
  const [shown, setShown] = useState(PORTION);
  const entries = Array.isArray(value)
    ? value.map((each, index): [string, Json] => [String(index), each])
    : Object.entries(value);
  if (entries.length === 0) return <span class="faint">{Array.isArray(value) ? "[ ]" : "{ }"}</span>;
  return (
    <ul>
      {entries.slice(0, shown).map(([key, each]) => (
        <Entry
          key={key}
          name={key}
          isIndex={Array.isArray(value)}
          value={each}
          pointer={`${pointer}/${escapePointer(key)}`}
          level={level}
          tools={tools}
        />
      ))}
      {entries.length > shown && (
        <li>
          <button type="button" class="link" onClick={() => setShown(shown + 5 * PORTION)}>
            {formatNumber(entries.length - shown)} more
          </button>
        </li>
      )}
    </ul>
  );
}

function Entry({
  name,
  isIndex,
  value,
  pointer,
  level,
  tools,
}: PartProps & {
  readonly name: string;
  readonly isIndex: boolean;
  readonly level: number;
}): JSX.Element {
  const [isOpen, setOpen] = useState(level < (tools.depth ?? 1));
  const instead = tools.instead?.(pointer, value);
  const label = <span class={isIndex ? "tree-index" : "tree-key"}>{name === "" ? "(empty)" : name}</span>;
  if (instead !== undefined) {
    return (
      <li>
        {label} {instead}
      </li>
    );
  }
  if (!isContainer(value) || isSpecial(value)) {
    return (
      <li>
        {label} <Leaf value={value} pointer={pointer} tools={tools} />
        {tools.after?.(pointer, value)}
      </li>
    );
  }
  return (
    <li>
      <button type="button" class="tree-toggle" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <Icon name="chevron" />
        {label}
        <span class="faint">{summaryOf(value)}</span>
      </button>
      {tools.after?.(pointer, value)}
      {isOpen && <Entries value={value} pointer={pointer} level={level + 1} tools={tools} />}
    </li>
  );
}

function summaryOf(value: Json[] | { [key: string]: Json }): string {
  if (Array.isArray(value)) return plural(value.length, "element");
  if (typeof value["$class"] === "string") return value["$class"];
  const title = value["role"] ?? value["name"] ?? value["id"] ?? value["title"];
  const keys = plural(Object.keys(value).length, "field");
  return typeof title === "string" && title.length <= 40 ? `${keys} · ${title}` : keys;
}

function Leaf({ value, pointer, tools }: PartProps): JSX.Element {
  const omitted = toOmitted(value);
  if (omitted) return <OmittedPart omitted={omitted} pointer={pointer} tools={tools} />;
  if (typeof value === "string") return <LongString text={value} />;
  if (isContainer(value) && !Array.isArray(value)) {
    const [kind, inner] = Object.entries(value)[0] ?? ["", null];
    const text =
      kind === "$bytes" ? plural(Number(inner), "byte") : typeof inner === "string" ? inner : JSON.stringify(inner);
    return (
      <span class="tree-special">
        <span class="faint">{kind.slice(1)}</span> {text}
      </span>
    );
  }
  const type = value === null ? "null" : typeof value;
  return <span class={`tree-${type}`}>{JSON.stringify(value)}</span>;
}

function LongString({ text }: { readonly text: string }): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  if (LOOKS_LIKE_JSON.test(text)) return <span class="tree-string">{JSON.stringify(text)}</span>;
  if (text.length <= MAX_STRING) return <span class="tree-string">{text}</span>;
  return (
    <span class="tree-string">
      {isOpen ? text : `${text.slice(0, MAX_STRING)}…`}{" "}
      <button type="button" class="link" onClick={() => setOpen(!isOpen)}>
        {isOpen ? "less" : plural(text.length, "character")}
      </button>
    </span>
  );
}

function OmittedPart({
  omitted,
  pointer,
  tools,
}: {
  readonly omitted: Omitted["$omitted"];
  readonly pointer: string;
  readonly tools: TreeTools;
}): JSX.Element {
  const [loaded, setLoaded] = useState<{ readonly value: Json } | { readonly error: string } | undefined>();
  const { type, length, preview } = omitted;
  if (loaded && "value" in loaded) return <JsonTree value={loaded.value} pointer={pointer} tools={tools} />;
  const size = type === "string" ? plural(length, "character") : plural(length, type === "array" ? "element" : "field");
  const { load } = tools;
  return (
    <span>
      {preview !== undefined && <span class="tree-string">{preview} </span>}
      {load ? (
        <button
          type="button"
          class="link"
          onClick={() => {
            load(omitted.pointer).then(
              (value) => setLoaded({ value }),
              (error: unknown) => setLoaded({ error: (error as Error).message }),
            );
          }}
        >
          Load {size}
        </button>
      ) : (
        <span class="faint">{size}, not shown</span>
      )}
      {loaded && "error" in loaded && <span class="error-text"> {loaded.error}</span>}
    </span>
  );
}
