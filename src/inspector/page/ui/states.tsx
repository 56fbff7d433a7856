/** What a view shows instead of data: nothing yet, nothing at all, or a failure. */
import type { ComponentChildren, JSX } from "preact";
import type { ApiFailure } from "../api/client.js";
import { Icon, type IconName } from "./icon.js";

/** Nothing to show: what would be here, and how to get it. */
export function Empty({
  icon,
  title,
  children,
}: {
  readonly icon: IconName;
  readonly title: string;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="empty">
      <span class="empty-icon">
        <Icon name={icon} />
      </span>
      <h2>{title}</h2>
      {children}
    </div>
  );
}

/** A command to type. */
export function Command({ children }: { readonly children: string }): JSX.Element {
  return (
    <pre class="command">
      <code>{children}</code>
    </pre>
  );
}

/** Placeholders with the height of the content that follows. */
export function Skeleton({ lines = 4 }: { readonly lines?: number }): JSX.Element {
  return (
    <div class="skeletons" aria-busy="true" aria-label="Loading" role="status">
      {Array.from({ length: lines }, (_, index) => (
        <div key={index} class="skeleton" />
      ))}
    </div>
  );
}

export function Failure({
  failure,
  retry,
}: {
  readonly failure: ApiFailure;
  readonly retry?: (() => void) | undefined;
}): JSX.Element {
  return (
    <div class="callout bad" role="alert">
      <Icon name="warning" />
      <div class="callout-body">
        <strong>
          {failure.code === "NOT_FOUND" || failure.status === 404 ? "Not found" : "This could not be loaded"}
        </strong>
        <p>{failure.message}</p>
        {retry && (
          <button type="button" class="button small" onClick={retry}>
            Try again
          </button>
        )}
      </div>
    </div>
  );
}

export function Callout({
  kind,
  title,
  children,
}: {
  readonly kind: "info" | "warn" | "bad" | "good";
  readonly title?: string;
  readonly children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class={`callout ${kind}`}>
      <Icon name={kind === "good" ? "check" : kind === "info" ? "help" : "warning"} />
      <div class="callout-body">
        {title !== undefined && <strong>{title}</strong>}
        {children}
      </div>
    </div>
  );
}
