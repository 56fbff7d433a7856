/** The list of shortcuts. */
import type { JSX } from "preact";
import { Dialog } from "../ui/dialog.js";
import { Key } from "../ui/text.js";
import { isHelpOpen } from "./shortcuts.js";

const SHORTCUTS: readonly (readonly [readonly string[], string])[] = [
  [["?"], "This help"],
  [["/"], "Search in this view, or in everything"],
  [["g", "s"], "Sessions"],
  [["g", "q"], "Questions"],
  [["g", "w"], "Workers and queue"],
  [["g", "c"], "Conversations"],
  [["g", "a"], "Agents"],
  [["g", "d"], "Store"],
  [["↑", "↓"], "Previous or next row: sessions, checkpoints"],
  [["Enter"], "Open the row"],
  [["Esc"], "Close a dialog, leave a search"],
];

export function Help(): JSX.Element {
  return (
    <Dialog title="Keyboard shortcuts" onClose={() => (isHelpOpen.value = false)}>
      <dl class="shortcuts">
        {SHORTCUTS.map(([keys, text]) => (
          <div key={text}>
            <dt>
              {keys.map((key) => (
                <Key key={key}>{key}</Key>
              ))}
            </dt>
            <dd>{text}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
