/** The search of all conversations and the newest states of all sessions. */
import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { SearchHitView, SearchResponse } from "../../api.js";
import { withParameters } from "../api/client.js";
import { useResource } from "../api/resource.js";
import { Link, paths, setQuery } from "../app/router.js";
import type { ViewProps } from "../app/views.js";
import { plural } from "../ui/format.js";
import { Icon } from "../ui/icon.js";
import { Empty, Failure, Skeleton } from "../ui/states.js";
import { StatusBadge, Tag, Time } from "../ui/text.js";

/** The time after the last key until the search, in milliseconds. */
const PAUSE = 180;
const ROLES = ["user", "assistant", "system", "tool"] as const;

export function Search({ query }: ViewProps): JSX.Element {
  const text = query.get("text") ?? "";
  const role = query.get("role") ?? undefined;
  const path = text.trim() === "" ? undefined : withParameters("/api/search", { text: text.trim(), role, limit: 50 });
  const { data, failure, isStale, reload } = useResource<SearchResponse>(path);
  return (
    <div class="scroll" tabIndex={0} role="region" aria-label="Search">
      <header class="view-head">
        <h1>Search</h1>
        <p class="view-count" role="status">
          {path !== undefined && data && !isStale && plural(data.hits.length + data.sessions.length, "result")}
        </p>
      </header>
      <div class="filters">
        <SearchBox value={text} />
        <select
          aria-label="Role"
          value={role ?? ""}
          onChange={({ currentTarget }) => setQuery({ role: currentTarget.value || undefined })}
        >
          <option value="">All roles</option>
          {ROLES.map((each) => (
            <option key={each} value={each}>
              {each}
            </option>
          ))}
        </select>
      </div>
      <div class="page">
        {failure && <Failure failure={failure} retry={reload} />}
        {path === undefined ? (
          <Empty icon="search" title="Search everything">
            <p>
              Messages of all conversations, the newest state of all sessions, and ids. Type to search; words are found
              also inside of words.
            </p>
          </Empty>
        ) : data ? (
          <Results data={data} isStale={isStale} />
        ) : (
          !failure && <Skeleton lines={6} />
        )}
      </div>
    </div>
  );
}

function SearchBox({ value }: { readonly value: string }): JSX.Element {
  const [text, setText] = useState(value);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => setText(value), [value]);
  useEffect(() => input.current?.focus(), []);
  useEffect(() => {
    if (text === value) return undefined;
    const timer = setTimeout(() => setQuery({ text: text || undefined }), PAUSE);
    return () => clearTimeout(timer);
  }, [text]);
  return (
    <div class="search-box wide">
      <Icon name="search" />
      <input
        ref={input}
        type="search"
        aria-label="Search everything"
        placeholder="Search messages, states and ids"
        value={text}
        onInput={({ currentTarget }) => setText(currentTarget.value)}
        onKeyDown={(event) => event.key === "Escape" && (text === "" ? event.currentTarget.blur() : setText(""))}
      />
    </div>
  );
}

function Results({ data, isStale }: { readonly data: SearchResponse; readonly isStale: boolean }): JSX.Element {
  const { hits, sessions } = data;
  if (hits.length + sessions.length === 0) {
    return (
      <Empty icon="search" title="Nothing was found">
        <p>Older states are not searched: only the newest one of each session, and all messages of conversations.</p>
      </Empty>
    );
  }
  return (
    <div class={isStale ? "stale" : ""}>
      {sessions.length > 0 && (
        <section class="section">
          <h2>Sessions</h2>
          <ul class="list">
            {sessions.map((row) => (
              <li key={row.id} class="list-row">
                <Link to={paths.session(row.id)} class="row-link">
                  {row.id}
                </Link>
                <StatusBadge status={row.status} />
              </li>
            ))}
          </ul>
        </section>
      )}
      {hits.length > 0 && (
        <section class="section">
          <h2>Messages</h2>
          <ul class="list">
            {hits.map((hit, index) => (
              <Hit key={`${hit.source}/${hit.id}/${index}`} hit={hit} />
            ))}
          </ul>
        </section>
      )}
    </div>
  );
}

function Hit({ hit }: { readonly hit: SearchHitView }): JSX.Element {
  const { source, id, agent, role, timestamp, branch } = hit;
  const to =
    source === "conversation" ? paths.conversation(id) : paths.session(id, branch === "main" ? undefined : branch);
  return (
    <li class="list-row hit">
      <div class="list-main">
        <Link to={to} class="row-link">
          {id}
        </Link>
        <p class="snippet">
          <Snippet hit={hit} />
        </p>
        <div class="session-facts">
          <Tag>{source}</Tag>
          {role !== undefined && <span>{role}</span>}
          {agent !== undefined && <span>{agent}</span>}
          {timestamp !== undefined && <Time at={timestamp} />}
        </div>
      </div>
    </li>
  );
}

/** The snippet, with the matches marked. */
function Snippet({ hit: { snippet, highlights } }: { readonly hit: SearchHitView }): JSX.Element {
  const parts: JSX.Element[] = [];
  let at = 0;
  for (const [start, end] of highlights) {
    if (start < at || end > snippet.length) continue;
    parts.push(
      <span key={at}>{snippet.slice(at, start)}</span>,
      <mark key={`${start}m`}>{snippet.slice(start, end)}</mark>,
    );
    at = end;
  }
  return (
    <>
      {parts}
      <span>{snippet.slice(at)}</span>
    </>
  );
}
