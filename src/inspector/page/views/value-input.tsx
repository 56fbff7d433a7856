/** An input for any value: text, or JSON. */
import type { JSX } from "preact";
import { useId } from "preact/hooks";
import type { Json } from "../api/types.js";
import { Switch } from "../ui/tabs.js";

/** What was typed, and how it is read. */
export interface ValueText {
  readonly text: string;
  readonly form: "text" | "json";
}

/** The value; an error if the text is not valid JSON. */
export function readValue({ text, form }: ValueText): { readonly value: Json } | { readonly error: string } {
  if (form === "text") return { value: text };
  try {
    return { value: JSON.parse(text) as Json };
  } catch (error) {
    return { error: `This is not valid JSON: ${(error as Error).message}` };
  }
}

/** A value as it is edited: strings as text, everything else as JSON. */
export function writeValue(value: Json): ValueText {
  return typeof value === "string"
    ? { text: value, form: "text" }
    : { text: JSON.stringify(value, null, 2), form: "json" };
}

export function ValueInput({
  label,
  value,
  onChange,
  hint,
  rows = 3,
}: {
  readonly label: string;
  readonly value: ValueText;
  readonly onChange: (value: ValueText) => void;
  readonly hint?: string;
  readonly rows?: number;
}): JSX.Element {
  const id = useId();
  const read = readValue(value);
  const isWrong = "error" in read && value.text.trim() !== "";
  return (
    <div class="field">
      <div class="row">
        <label for={id}>{label}</label>
        <span class="spacer" />
        <Switch
          label={`${label}: form`}
          value={value.form}
          options={[
            ["text", "Text"],
            ["json", "JSON"],
          ]}
          onChange={(form) => onChange({ ...value, form })}
        />
      </div>
      <textarea
        id={id}
        rows={rows}
        spellcheck={false}
        value={value.text}
        aria-invalid={isWrong}
        onInput={({ currentTarget }) => onChange({ ...value, text: currentTarget.value })}
      />
      {isWrong && "error" in read && <span class="error-text">{read.error}</span>}
      {hint !== undefined && !isWrong && <span class="field-hint">{hint}</span>}
    </div>
  );
}
