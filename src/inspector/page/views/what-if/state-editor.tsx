/** A state as a tree whose values can be edited in place. */
import type { ComponentChildren, JSX } from "preact";
import { useState } from "preact/hooks";
import type { CheckpointDetail } from "../../../api.js";
import type { Json } from "../../api/types.js";
import { Icon } from "../../ui/icon.js";
import { escapePointer, JsonTree, toOmitted, type TreeTools } from "../../ui/json-tree.js";
import { Tag } from "../../ui/text.js";
import { partLoader } from "../session/checkpoint.js";
import { readValue, ValueInput, type ValueText, writeValue } from "../value-input.js";
import { type Edit, type Edits, withEdit, withoutEdit } from "./edits.js";

interface EditorProps {
  readonly id: string;
  readonly detail: CheckpointDetail;
  readonly edits: Edits;
  readonly onEdits: (edits: Edits) => void;
}

export function StateEditor({ id, detail: { checkpoint, state }, edits, onEdits }: EditorProps): JSX.Element {
  const [open, setOpen] = useState<string | undefined>();
  const [adding, setAdding] = useState<string | undefined>();
  const apply = (pointer: string, edit: Edit): void => {
    onEdits(withEdit(edits, pointer, edit));
    setOpen(undefined);
    setAdding(undefined);
  };
  const instead = (pointer: string, value: Json): ComponentChildren | undefined => {
    const edit = edits.get(pointer);
    if (pointer === open) {
      const current = edit && edit.op !== "remove" ? edit.value : value;
      return (
        <ValueEditor
          value={current}
          onSave={(next) => apply(pointer, { op: "replace", value: next })}
          onClose={() => setOpen(undefined)}
        />
      );
    }
    if (!edit) return undefined;
    return (
      <span class="edited">
        <Tag kind={edit.op === "remove" ? "bad" : "good"}>{edit.op === "remove" ? "removed" : "edited"}</Tag>{" "}
        {edit.op !== "remove" && <JsonTree value={edit.value} />}
        <ToolButton icon="edit" label={`Edit ${pointer} again`} onClick={() => setOpen(pointer)} />
        <ToolButton
          icon="rewind"
          label={`Undo the edit of ${pointer}`}
          onClick={() => onEdits(withoutEdit(edits, pointer))}
        />
      </span>
    );
  };
  const after = (pointer: string, value: Json): ComponentChildren => {
    const isContainer = typeof value === "object" && value !== null;
    return (
      <span class="edit-tools">
        {!toOmitted(value) && <ToolButton icon="edit" label={`Edit ${pointer}`} onClick={() => setOpen(pointer)} />}
        {isContainer && <ToolButton icon="plus" label={`Add to ${pointer}`} onClick={() => setAdding(pointer)} />}
        <ToolButton icon="trash" label={`Remove ${pointer}`} onClick={() => apply(pointer, { op: "remove" })} />
        {adding === pointer && isContainer && (
          <AddForm pointer={pointer} value={value} edits={edits} onAdd={apply} onClose={() => setAdding(undefined)} />
        )}
      </span>
    );
  };
  const tools: TreeTools = { load: partLoader(id, checkpoint.seq), depth: 2, instead, after };
  const added = [...edits].filter(([, { op }]) => op === "add");
  const isContainer = typeof state === "object" && state !== null;
  return (
    <>
      <div class="row">
        <h2>State</h2>
        <span class="spacer" />
        {isContainer && <ToolButton icon="plus" label="Add to the state" onClick={() => setAdding("")} />}
      </div>
      {adding === "" && isContainer && (
        <AddForm pointer="" value={state} edits={edits} onAdd={apply} onClose={() => setAdding(undefined)} />
      )}
      <JsonTree value={state} tools={tools} />
      {added.length > 0 && (
        <ul class="added" aria-label="Added values">
          {added.map(([pointer, edit]) => (
            <li key={pointer} class="row wrap">
              <Tag kind="good">added</Tag> <code>{pointer}</code>
              {edit.op !== "remove" && <JsonTree value={edit.value} />}
              <ToolButton
                icon="rewind"
                label={`Undo ${pointer}`}
                onClick={() => onEdits(withoutEdit(edits, pointer))}
              />
            </li>
          ))}
        </ul>
      )}
    </>
  );
}

function ToolButton({
  icon,
  label,
  onClick,
}: {
  readonly icon: "edit" | "plus" | "trash" | "rewind";
  readonly label: string;
  readonly onClick: () => void;
}): JSX.Element {
  return (
    <button type="button" class="tool-button" aria-label={label} title={label} onClick={onClick}>
      <Icon name={icon} />
    </button>
  );
}

function ValueEditor({
  value,
  onSave,
  onClose,
}: {
  readonly value: Json;
  readonly onSave: (value: Json) => void;
  readonly onClose: () => void;
}): JSX.Element {
  const [text, setText] = useState<ValueText>(writeValue(value));
  const read = readValue(text);
  return (
    <div
      class="value-editor panel"
      onKeyDown={(event) => {
        if (event.key === "Escape") onClose();
        if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && "value" in read) onSave(read.value);
      }}
    >
      <ValueInput
        label="Value"
        value={text}
        onChange={setText}
        rows={Math.min(14, Math.max(2, text.text.split("\n").length))}
      />
      <div class="form-actions">
        <button
          type="button"
          class="button small primary"
          disabled={!("value" in read)}
          onClick={() => "value" in read && onSave(read.value)}
        >
          Apply
        </button>
        <button type="button" class="button small" onClick={onClose}>
          Discard
        </button>
      </div>
    </div>
  );
}

/** A new entry of an object, or a new last element of a list. */
function AddForm({
  pointer,
  value,
  edits,
  onAdd,
  onClose,
}: {
  readonly pointer: string;
  readonly value: Json;
  readonly edits: Edits;
  readonly onAdd: (pointer: string, edit: Edit) => void;
  readonly onClose: () => void;
}): JSX.Element {
  const [key, setKey] = useState("");
  const isList = Array.isArray(value);
  const appended = [...edits].filter(
    ([each, { op }]) => op === "add" && each.slice(0, each.lastIndexOf("/")) === pointer,
  );
  const name = isList ? String(value.length + appended.length) : key;
  return (
    <div class="add-form">
      {!isList && (
        <label class="field">
          <span>Name</span>
          <input value={key} onInput={({ currentTarget }) => setKey(currentTarget.value)} />
        </label>
      )}
      <ValueEditor
        value=""
        onSave={(next) => {
          if (isList || key !== "") onAdd(`${pointer}/${escapePointer(name)}`, { op: "add", value: next });
        }}
        onClose={onClose}
      />
    </div>
  );
}
