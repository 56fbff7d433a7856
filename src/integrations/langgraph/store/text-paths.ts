/** The texts of a value that are embedded: field paths with the syntax and the results of LangGraph's `InMemoryStore`. */

/** A text, and the path that it was found at. The texts of one field have different paths. */
export interface FieldText {
  readonly path: string;
  readonly text: string;
}

/** The texts of the fields of a value. `$` is the whole value as JSON. */
export function textsOf(value: unknown, fields: readonly string[]): FieldText[] {
  return fields.flatMap((field) => {
    const texts = textsAt(value, field === "$" ? ["$"] : tokenize(field), 0);
    return texts.map((text, index) => ({ path: texts.length > 1 ? `${field}.${index}` : field, text }));
  });
}

/** Splits `chapters[*].{title,content}` into `chapters`, `[*]` and `{title,content}`. */
function tokenize(path: string): string[] {
  const tokens: string[] = [];
  let current = "";
  const end = (): void => {
    if (current !== "") tokens.push(current);
    current = "";
  };
  for (let at = 0; at < path.length; at++) {
    const character = path[at] as string;
    if (character === "[" || character === "{") {
      end();
      const close = closingAt(path, at);
      tokens.push(path.slice(at, close));
      at = close - 1;
    } else if (character === ".") end();
    else current += character;
  }
  end();
  return tokens;
}

/** The position after the bracket that closes the one at `start`. */
function closingAt(path: string, start: number): number {
  const open = path[start];
  const close = open === "[" ? "]" : "}";
  let depth = 1;
  let at = start + 1;
  for (; at < path.length && depth > 0; at++) {
    if (path[at] === open) depth++;
    else if (path[at] === close) depth--;
  }
  return at;
}

function textsAt(value: unknown, tokens: readonly string[], position: number): string[] {
  const token = tokens[position];
  if (token === undefined) return textOf(value);
  const inner = (part: unknown): string[] => textsAt(part, tokens, position + 1);
  if (token.startsWith("[") && token.endsWith("]")) return elementsAt(value, token.slice(1, -1)).flatMap(inner);
  if (token.startsWith("{") && token.endsWith("}")) {
    const fields = token.slice(1, -1).split(",");
    return fields.flatMap((field) => fieldAt(value, tokenize(field.trim())));
  }
  if (token === "*") return isObject(value) ? Object.values(value).flatMap(inner) : [];
  const whole = position === 0 && token === "$" ? [toText(value)] : [];
  return isObject(value) && Object.hasOwn(value, token)
    ? [...whole, ...inner((value as Record<string, unknown>)[token])]
    : whole;
}

/** The elements that `*`, an index or a negative index names. */
function elementsAt(value: unknown, index: string): unknown[] {
  if (!Array.isArray(value)) return [];
  if (index === "*") return value as unknown[];
  const number = Number.parseInt(index, 10);
  const at = number < 0 ? value.length + number : number;
  return at >= 0 && at < value.length ? [value[at] as unknown] : [];
}

function fieldAt(value: unknown, tokens: readonly string[]): string[] {
  if (tokens.length === 0) return [];
  let current = value;
  for (const token of tokens) {
    if (!isObject(current) || !Object.hasOwn(current, token)) return [];
    current = (current as Record<string, unknown>)[token];
  }
  return textOf(current);
}

function textOf(value: unknown): string[] {
  if (typeof value === "string" || typeof value === "number" || typeof value === "boolean") return [String(value)];
  return isObject(value) ? [toText(value)] : [];
}

function toText(value: unknown): string {
  return JSON.stringify(value, (_name, part: unknown) => (typeof part === "bigint" ? String(part) : part), 2);
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}
