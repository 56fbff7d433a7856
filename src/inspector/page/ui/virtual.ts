/** Long lists: only the rows that are visible are in the document. */
import {
  elementScroll,
  observeElementOffset,
  observeElementRect,
  Virtualizer,
  type VirtualItem,
} from "@tanstack/virtual-core";
import type { RefObject } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";

export interface VirtualRows {
  readonly items: readonly VirtualItem[];
  /** The height of all rows, in pixels. */
  readonly height: number;
  readonly scrollTo: (index: number) => void;
}

/** The visible rows of a list with rows of equal height, in an element that scrolls. */
export function useVirtualRows(count: number, rowHeight: number, scroller: RefObject<HTMLElement | null>): VirtualRows {
  const [, update] = useState(0);
  const virtualizer = useRef<Virtualizer<HTMLElement, HTMLElement> | undefined>(undefined);
  const options = {
    count,
    getScrollElement: () => scroller.current,
    estimateSize: () => rowHeight,
    overscan: 10,
    scrollToFn: elementScroll,
    observeElementRect,
    observeElementOffset,
    initialRect: { width: 800, height: 800 },
    onChange: () => update((version) => version + 1),
  };
  virtualizer.current ??= new Virtualizer<HTMLElement, HTMLElement>(options);
  const current = virtualizer.current;
  current.setOptions(options);
  useLayoutEffect(() => current._didMount(), [current]);
  useLayoutEffect(() => current._willUpdate());
  useLayoutEffect(() => current.measure(), [current, rowHeight]);
  return {
    items: current.getVirtualItems(),
    height: current.getTotalSize(),
    scrollTo: (index) => current.scrollToIndex(index, { align: "auto" }),
  };
}
