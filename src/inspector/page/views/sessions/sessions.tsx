/** The list of sessions: those that wait for an answer first. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { SessionPage, SessionSort } from "../../../api.js";
import { setQuery } from "../../app/router.js";
import type { ViewProps } from "../../app/views.js";
import { formatNumber, plural } from "../../ui/format.js";
import { isNarrow } from "../../ui/media.js";
import { Command, Empty, Failure, Skeleton } from "../../ui/states.js";
import { useVirtualRows } from "../../ui/virtual.js";
import { Filters } from "./filters.js";
import { SessionLine } from "./row.js";
import { type SessionFilter, useSessionWindow } from "./window.js";

const COLUMNS: readonly (readonly [SessionSort, string, string])[] = [
  ["status", "Status", "col-status"],
  ["id", "Session", "col-session"],
  ["agent", "Agent", "col-agent"],
  ["updated", "Updated", "col-time"],
  ["steps", "Steps", "col-number"],
  ["tokens", "Tokens", "col-number"],
  ["cost", "Cost", "col-number"],
  ["size", "State", "col-number"],
];

function toFilter(query: URLSearchParams): SessionFilter {
  const text = (name: string): string | undefined => query.get(name) ?? undefined;
  const fields = {
    sort: text("sort"),
    order: text("order"),
    agent: text("agent"),
    status: text("status"),
    query: text("query"),
  };
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as SessionFilter;
}

export function Sessions({ query }: ViewProps): JSX.Element {
  const filter = toFilter(query);
  const sessions = useSessionWindow(filter);
  const { page, failure } = sessions;
  const isFiltered = filter.query !== undefined || filter.status !== undefined || filter.agent !== undefined;
  return (
    <div class="view">
      <header class="view-head">
        <h1>Sessions</h1>
        <p class="view-count" role="status">
          {page &&
            (isFiltered ? `${formatNumber(page.matches)} of ${formatNumber(page.total)}` : formatNumber(page.total))}
          {page?.isIndexing && ", still reading"}
        </p>
      </header>
      <Filters filter={filter} page={page} />
      {failure && !page && <Failure failure={failure} retry={sessions.reload} />}
      {!page && !failure && <Skeleton lines={9} />}
      {page && page.matches === 0 && <NoSessions page={page} isFiltered={isFiltered} />}
      {page && page.matches > 0 && <Table filter={filter} sessions={sessions} count={page.matches} />}
    </div>
  );
}

function Table({
  filter,
  sessions,
  count,
}: {
  readonly filter: SessionFilter;
  readonly sessions: ReturnType<typeof useSessionWindow>;
  readonly count: number;
}): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const height = isNarrow.value ? 86 : 54;
  const { items, height: total, scrollTo } = useVirtualRows(count, height, scroller);
  const [first, last] = [items[0]?.index ?? 0, items.at(-1)?.index ?? 0];
  useEffect(() => sessions.show(first, last), [sessions.show, first, last]);
  const key = JSON.stringify(filter);
  useEffect(() => scroller.current?.scrollTo(0, 0), [key]);
  return (
    <div
      class="table sessions"
      role="table"
      aria-label="Sessions"
      aria-rowcount={count + 1}
      onKeyDown={(event) => moveFocus(event, scroller.current, count, scrollTo)}
    >
      <div class="table-head" role="rowgroup">
        <div class="table-row" role="row">
          {COLUMNS.map(([sort, name, style]) => (
            <HeadCell key={sort} sort={sort} name={name} style={style} filter={filter} />
          ))}
        </div>
      </div>
      <div class="table-body" role="rowgroup" ref={scroller}>
        <div class="table-space" role="presentation" style={{ height: `${total}px` }}>
          {items.map(({ index, start }) => (
            <SessionLine key={index} index={index} start={start} height={height} row={sessions.row(index)} />
          ))}
        </div>
      </div>
    </div>
  );
}

function HeadCell({
  sort,
  name,
  style,
  filter,
}: {
  readonly sort: SessionSort;
  readonly name: string;
  readonly style: string;
  readonly filter: SessionFilter;
}): JSX.Element {
  const isAscendingFirst = sort === "id" || sort === "agent" || sort === "status";
  const isSorted = filter.sort === sort;
  const order = isSorted ? (filter.order ?? (isAscendingFirst ? "asc" : "desc")) : undefined;
  const next = (): void => {
    // The third click returns to the order by urgency.
    const other = isAscendingFirst ? "desc" : "asc";
    if (!isSorted) setQuery({ sort, order: undefined });
    else if (order === other) setQuery({ sort: undefined, order: undefined });
    else setQuery({ sort, order: other });
  };
  return (
    <div
      role="columnheader"
      class={style}
      aria-sort={order === "asc" ? "ascending" : order === "desc" ? "descending" : "none"}
    >
      <button type="button" class="head-button" onClick={next}>
        {name}
        <span class="sort-mark" aria-hidden="true">
          {order === "asc" ? "↑" : order === "desc" ? "↓" : ""}
        </span>
      </button>
    </div>
  );
}

/** Moves the focus between rows. A row that is not in the document yet is scrolled to first. */
function moveFocus(
  event: KeyboardEvent,
  scroller: HTMLElement | null,
  count: number,
  scrollTo: (index: number) => void,
): void {
  const row = (event.target as HTMLElement).closest<HTMLElement>("[data-index]");
  if (!row || !scroller) return;
  const page = Math.max(1, Math.floor(scroller.clientHeight / row.clientHeight) - 1);
  const steps: Readonly<Record<string, number>> = {
    ArrowDown: 1,
    j: 1,
    ArrowUp: -1,
    k: -1,
    PageDown: page,
    PageUp: -page,
    Home: -count,
    End: count,
  };
  const step = steps[event.key];
  if (step === undefined || event.altKey || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const index = Math.min(count - 1, Math.max(0, Number(row.dataset["index"]) + step));
  scrollTo(index);
  const focus = (attempts: number): void => {
    const link = scroller.querySelector<HTMLElement>(`[data-index="${index}"] a`);
    if (link) link.focus({ preventScroll: true });
    else if (attempts > 0) requestAnimationFrame(() => focus(attempts - 1));
  };
  focus(60);
}

function NoSessions({ page, isFiltered }: { readonly page: SessionPage; readonly isFiltered: boolean }): JSX.Element {
  if (page.isIndexing) return <Skeleton lines={9} />;
  if (isFiltered) {
    return (
      <Empty icon="search" title="No session matches">
        <p>
          This filter covers the ids, agents, labels and questions of {plural(page.total, "session")}. Messages are
          found by the search of everything.
        </p>
        <button
          type="button"
          class="button"
          onClick={() => setQuery({ query: undefined, status: undefined, agent: undefined })}
        >
          Clear the filters
        </button>
      </Empty>
    );
  }
  return (
    <Empty icon="sessions" title="No sessions yet">
      <p>
        A session is one line of work of an agent. It appears here when it saves its first checkpoint. To see how it
        looks:
      </p>
      <Command>npx savepoint demo</Command>
    </Empty>
  );
}
