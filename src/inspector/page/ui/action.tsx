/** Buttons that change the store. */
import type { ComponentChildren, JSX } from "preact";
import { useRef, useState } from "preact/hooks";
import { toApiFailure } from "../api/resource.js";
import { canWrite, meta } from "../api/meta.js";
import { Icon, type IconName } from "./icon.js";
import { showToast } from "./toast.js";

export const READ_ONLY = "This inspector is read-only. Start it with: savepoint ui --write";

/** Runs something once at a time, and reports its failure. */
export function useAction(): { readonly isBusy: boolean; readonly run: (action: () => Promise<void>) => void } {
  const [isBusy, setBusy] = useState(false);
  const busy = useRef(false);
  const run = (action: () => Promise<void>): void => {
    if (busy.current) return;
    busy.current = true;
    setBusy(true);
    action()
      .catch((error: unknown) => showToast(toApiFailure(error).message, "bad"))
      .finally(() => {
        busy.current = false;
        setBusy(false);
      });
  };
  return { isBusy, run };
}

/** A button for a change. In a read-only inspector it is disabled, and its tooltip explains how to enable it. */
export function WriteButton({
  icon,
  children,
  onClick,
  kind = "",
  isDisabled = false,
  type = "button",
  label,
}: {
  readonly icon?: IconName;
  readonly children?: ComponentChildren;
  readonly onClick?: (() => void) | undefined;
  readonly kind?: string;
  readonly isDisabled?: boolean;
  readonly type?: "button" | "submit";
  /** The name, for a button that has only an icon. */
  readonly label?: string | undefined;
}): JSX.Element {
  const isReadOnly = meta.value !== undefined && !canWrite();
  return (
    <button
      type={type}
      class={`button ${kind}`}
      // The element stays reachable with the keyboard, so that its explanation does too.
      aria-disabled={isReadOnly || isDisabled}
      aria-label={label}
      title={isReadOnly ? READ_ONLY : label}
      onClick={(event) => {
        if (isReadOnly || isDisabled) {
          event.preventDefault();
          if (isReadOnly) showToast(READ_ONLY, "bad");
          return;
        }
        onClick?.();
      }}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

/** Copies a text. */
export function CopyButton({ text, label }: { readonly text: string; readonly label: string }): JSX.Element {
  return (
    <button
      type="button"
      class="button icon-only ghost small"
      aria-label={label}
      title={label}
      onClick={() => {
        navigator.clipboard.writeText(text).then(
          () => showToast("Copied"),
          () => showToast("The browser did not permit access to the clipboard.", "bad"),
        );
      }}
    >
      <Icon name="copy" />
    </button>
  );
}
