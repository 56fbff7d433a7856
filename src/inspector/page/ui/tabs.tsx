/** Links between the parts of a view, and switches. */
import type { JSX } from "preact";
import { Link } from "../app/router.js";

export interface TabLink {
  readonly name: string;
  readonly to: string;
  readonly isCurrent: boolean;
  readonly count?: number | undefined;
}

export function TabLinks({ label, tabs }: { readonly label: string; readonly tabs: readonly TabLink[] }): JSX.Element {
  return (
    <nav class="tabs" aria-label={label}>
      {tabs.map(({ name, to, isCurrent, count }) => (
        <Link key={name} to={to} class="tab" aria-current={isCurrent ? "page" : undefined}>
          {name}
          {count !== undefined && count > 0 && <span class="count">{count}</span>}
        </Link>
      ))}
    </nav>
  );
}

/** A choice between a few values. */
export function Switch<Value extends string>({
  label,
  value,
  options,
  onChange,
}: {
  readonly label: string;
  readonly value: Value;
  readonly options: readonly (readonly [Value, string])[];
  readonly onChange: (value: Value) => void;
}): JSX.Element {
  return (
    <div class="switch" role="group" aria-label={label}>
      {options.map(([each, text]) => (
        <button key={each} type="button" aria-pressed={each === value} onClick={() => onChange(each)}>
          {text}
        </button>
      ))}
    </div>
  );
}
