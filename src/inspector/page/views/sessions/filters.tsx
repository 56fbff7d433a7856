/** Search, statuses and agents. They are in the URL. */
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { SessionPage } from "../../../api.js";
import type { Status } from "../../api/types.js";
import { setQuery } from "../../app/router.js";
import { formatShort } from "../../ui/format.js";
import { Icon } from "../../ui/icon.js";
import type { SessionFilter } from "./window.js";

/** The time after the last key until the list is loaded, in milliseconds. */
const PAUSE = 120;
const STATUSES: readonly Status[] = [
  "waiting",
  "interrupted",
  "failed",
  "running",
  "queued",
  "halted",
  "completed",
  "open",
];

export function Filters({
  filter,
  page,
}: {
  readonly filter: SessionFilter;
  readonly page: SessionPage | undefined;
}): JSX.Element {
  const chosen = new Set(filter.status?.split(",") ?? []);
  const toggle = (status: Status): void => {
    if (!chosen.delete(status)) chosen.add(status);
    setQuery({ status: [...chosen].join(",") || undefined });
  };
  return (
    <div class="filters">
      <SearchInput value={filter.query ?? ""} />
      {(page?.agents.length ?? 0) > 0 && (
        <select
          aria-label="Agent"
          value={filter.agent ?? ""}
          onChange={({ currentTarget }) => setQuery({ agent: currentTarget.value || undefined })}
        >
          <option value="">All agents</option>
          {page?.agents.map(({ agent, sessions }) => (
            <option key={agent} value={agent}>
              {agent} ({formatShort(sessions)})
            </option>
          ))}
        </select>
      )}
      <div class="chips" role="group" aria-label="Status">
        {STATUSES.map((status) => {
          const count = page?.statuses[status] ?? 0;
          if (count === 0 && !chosen.has(status)) return null;
          return (
            <button
              key={status}
              type="button"
              class={`chip status-${status}`}
              aria-pressed={chosen.has(status)}
              onClick={() => toggle(status)}
            >
              <span class="chip-dot" aria-hidden="true" />
              {status}
              <span class="chip-count">{formatShort(count)}</span>
            </button>
          );
        })}
      </div>
    </div>
  );
}

function SearchInput({ value }: { readonly value: string }): JSX.Element {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => setQuery({ query: text || undefined }), PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="search-box">
      <Icon name="search" />
      <input
        type="search"
        aria-label="Filter by id, agent, label or question"
        placeholder="Filter by id, agent, label, question"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== "Escape") return;
          if (text === "") event.currentTarget.blur();
          setText("");
        }}
      />
      <kbd aria-hidden="true">/</kbd>
    </div>
  );
}
