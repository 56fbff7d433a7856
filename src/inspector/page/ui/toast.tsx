/** Short notices about the result of an action. */
import { signal } from "@preact/signals";
import type { JSX } from "preact";

interface Toast {
  readonly id: number;
  readonly text: string;
  readonly kind: "good" | "bad";
}

/** How long a notice stays, in milliseconds. */
const LIFETIME = 6000;
let nextId = 0;
const toasts = signal<readonly Toast[]>([]);

export function showToast(text: string, kind: Toast["kind"] = "good"): void {
  const id = nextId++;
  toasts.value = [...toasts.value.slice(-2), { id, text, kind }];
  setTimeout(() => (toasts.value = toasts.value.filter((each) => each.id !== id)), LIFETIME);
}

export function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map(({ id, text, kind }) => (
        <div key={id} class={`toast ${kind}`}>
          {text}
        </div>
      ))}
    </div>
  );
}
