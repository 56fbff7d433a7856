/** The branch graph: a list of checkpoints with lanes, which the arrow keys walk through. */
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { BranchView, CheckpointView } from "../../../api.js";
import { formatBytes, formatClock, formatDay, formatExact, formatNumber, isTime } from "../../ui/format.js";
import { Icon } from "../../ui/icon.js";
import { Failure, Skeleton } from "../../ui/states.js";
import { Tag } from "../../ui/text.js";
import { useVirtualRows } from "../../ui/virtual.js";
import { type GraphData, type Node, useRowDetails } from "./graph-data.js";
import { type LaneRow, MAX_LANES } from "./lanes.js";
import { nameOf } from "./names.js";

const ROW = 44;
const LANE = 13;

interface GraphProps {
  readonly id: string;
  readonly graph: GraphData;
  readonly branches: readonly BranchView[];
  readonly selected: number | undefined;
  readonly onSelect: (seq: number) => void;
}

export function GraphList({ id, graph, branches, selected, onSelect }: GraphProps): JSX.Element {
  const scroller = useRef<HTMLDivElement>(null);
  const { nodes, lanes, total, failure, isLoaded, ensure } = graph;
  const { items, height, scrollTo } = useVirtualRows(total, ROW, scroller);
  const details = useRowDetails(id);
  const last = items.at(-1)?.index ?? 0;
  useEffect(() => ensure(last), [ensure, last]);
  const visible = items.flatMap(({ index }) => nodes[index]?.seq ?? []);
  // After each change: what is known is not loaded again.
  useEffect(() => details.show(visible));
  const index = selected === undefined ? -1 : graph.indexOf(selected);
  const wasShown = useRef<number | undefined>(undefined);
  useEffect(() => {
    if (index < 0 || wasShown.current === selected) return;
    wasShown.current = selected;
    scrollTo(index);
  }, [index, selected]);
  // Keys arrive faster than the rows are drawn.
  const at = useRef(index);
  at.current = index;
  const move = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor((scroller.current?.clientHeight ?? ROW) / ROW) - 1);
    const steps: Readonly<Record<string, number>> = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: page,
      PageUp: -page,
      Home: -total,
      End: total,
    };
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const next = Math.min(total - 1, Math.max(0, at.current < 0 ? 0 : at.current + step));
    const node = nodes[next];
    if (node) {
      at.current = next;
      onSelect(node.seq);
    } else {
      // The end of a very long history is loaded first.
      ensure(next);
      scrollTo(next);
    }
  };
  if (failure && !isLoaded) return <Failure failure={failure} />;
  if (!isLoaded) return <Skeleton lines={10} />;
  const width = Math.min(MAX_LANES, 1 + Math.max(0, ...items.flatMap(({ index: at }) => widthOf(lanes[at]))));
  return (
    <div
      class="graph"
      ref={scroller}
      role="listbox"
      tabIndex={0}
      aria-label={`Checkpoints, newest first: ${formatNumber(total)}`}
      aria-activedescendant={index < 0 ? undefined : `checkpoint-${selected}`}
      onKeyDown={move}
    >
      <div class="table-space" role="presentation" style={{ height: `${height}px` }}>
        {items.map(({ index: at, start }) => {
          const node = nodes[at];
          if (!node)
            return (
              <div
                key={at}
                class="graph-row loading"
                role="presentation"
                style={{ transform: `translateY(${start}px)` }}
              />
            );
          return (
            <Row
              key={node.seq}
              node={node}
              lane={lanes[at] as LaneRow}
              width={width}
              start={start}
              position={at}
              total={total}
              info={details.get(node.seq)}
              heads={branches.filter(({ head }) => head === node.seq).map(({ name }) => name)}
              isSelected={node.seq === selected}
              onSelect={onSelect}
            />
          );
        })}
      </div>
    </div>
  );
}

function widthOf(row: LaneRow | undefined): number[] {
  return row ? [row.lane, ...row.through, ...row.joins] : [];
}

interface RowProps {
  readonly node: Node;
  readonly lane: LaneRow;
  readonly width: number;
  readonly start: number;
  readonly position: number;
  readonly total: number;
  readonly info: CheckpointView | undefined;
  readonly heads: readonly string[];
  readonly isSelected: boolean;
  readonly onSelect: (seq: number) => void;
}

function Row({ node, lane, width, start, position, total, info, heads, isSelected, onSelect }: RowProps): JSX.Element {
  const { seq, createdAt, flags } = node;
  const isLeftBehind = !lane.isLive;
  return (
    <div
      id={`checkpoint-${seq}`}
      role="option"
      class={isLeftBehind ? "graph-row left-behind" : "graph-row"}
      aria-selected={isSelected}
      aria-posinset={position + 1}
      aria-setsize={total}
      style={{ transform: `translateY(${start}px)` }}
      onClick={() => onSelect(seq)}
    >
      <Lanes lane={lane} width={width} flags={flags} />
      <span class="graph-seq">{seq}</span>
      <span class="graph-text">
        <span class="graph-title">
          {(flags & 2) > 0 && <Icon name="pin" />}
          <span class="clip">{titleOf(node, info)}</span>
          {heads.map((name) => (
            <Tag key={name} kind="accent" title={`The head of branch ${name}`}>
              {name}
            </Tag>
          ))}
          {isLeftBehind && !lane.hasChild && (
            <Tag title="A rewind has removed it from its branch. It can still be opened and forked, and a branch can be rewound to it.">
              rewound
            </Tag>
          )}
        </span>
        <span class="graph-note clip">{noteOf(node, info)}</span>
      </span>
      {isTime(createdAt) && (
        <time class="graph-time" dateTime={new Date(createdAt).toISOString()} title={formatExact(createdAt)}>
          {formatClock(createdAt)}
          <span>{formatDay(createdAt)}</span>
        </time>
      )}
    </div>
  );
}

function noteOf({ step, kind }: Node, info: CheckpointView | undefined): string {
  const parts = [`step ${step}`];
  if (kind === "manual") parts.push("saved by hand");
  // Of a labelled checkpoint, the title does not say why it was saved. That of a step follows from its number.
  if (info?.label !== undefined && info.trigger !== undefined && info.trigger !== "step") parts.push(info.trigger);
  if (info?.reason !== undefined) parts.push(info.reason);
  else if (info) parts.push(`+${formatBytes(info.storedBytes)}`);
  return parts.join(" · ");
}

const FLAGS = [
  [4, "failed"],
  [8, "waiting"],
  [16, "completed"],
  [32, "halted"],
] as const;

function titleOf({ flags, kind, step }: Node, info: CheckpointView | undefined): string {
  const status = FLAGS.find(([flag]) => (flags & flag) > 0)?.[1] ?? "open";
  return nameOf({ trigger: "step", ...info, kind: kind as CheckpointView["kind"], status, step });
}

/** The lanes of a row: lines that pass, and the point of the checkpoint. */
function Lanes({
  lane,
  width,
  flags,
}: {
  readonly lane: LaneRow;
  readonly width: number;
  readonly flags: number;
}): JSX.Element {
  const x = (index: number): number => Math.min(index, MAX_LANES - 1) * LANE + 10;
  const middle = ROW / 2;
  const own = x(lane.lane);
  const classOf = (each: number, isFaded: boolean): string => `lane lane-${each % 6}${isFaded ? " faded" : ""}`;
  const above = (each: number): string => classOf(each, lane.faded.includes(each));
  return (
    <svg class="lanes" width={width * LANE + 8} height={ROW} aria-hidden="true">
      {lane.through.map((each) => (
        <path key={each} class={above(each)} d={`M${x(each)} 0V${ROW}`} />
      ))}
      {lane.hasChild && <path class={above(lane.lane)} d={`M${own} 0V${middle}`} />}
      {lane.hasParent && <path class={classOf(lane.lane, !lane.isLive)} d={`M${own} ${middle}V${ROW}`} />}
      {lane.joins.slice(0, MAX_LANES).map((each) => (
        <path
          key={`join-${each}`}
          class={above(each)}
          d={`M${x(each)} 0C${x(each)} ${middle * 0.8} ${own} ${middle * 0.5} ${own} ${middle}`}
        />
      ))}
      <circle
        class={`point lane-${lane.lane % 6} ${FLAGS.find(([flag]) => (flags & flag) > 0)?.[1] ?? ""}`}
        cx={own}
        cy={middle}
        r={(flags & 1) > 0 ? 5 : 4}
      />
    </svg>
  );
}
