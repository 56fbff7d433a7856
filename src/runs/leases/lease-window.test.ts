import { describe, expect, it } from "vitest";
import { LeaseWindow } from "./lease-window.js";
import type { Moment } from "./moment.js";

const LENGTH = 1000;

/** A moment at which both clocks show the same time. */
const at = (time: number): Moment => ({ clock: time, ticks: time });

function startedAt(time: number): LeaseWindow {
  const window = new LeaseWindow(LENGTH);
  window.start(at(time));
  return window;
}

describe("a lease window", () => {
  it("is not fresh before the lease has started", () => {
    const window = new LeaseWindow(LENGTH);
    expect(window.isFresh(at(0))).toBe(false);
    expect(window.isUnbrokenSince(at(0), at(0))).toBe(false);
  });

  it("is fresh until half of the lease has passed", () => {
    const window = startedAt(100);
    expect(window.isFresh(at(599))).toBe(true);
    expect(window.isFresh(at(600))).toBe(false);
  });

  it("starts once, with the first claim", () => {
    const window = startedAt(0);
    window.start(at(400));
    expect(window.isFresh(at(500))).toBe(false);
  });

  it("counts a renewal from the moment at which it began, not from when it was durable", () => {
    const window = startedAt(0);
    window.renew(at(300), at(700));
    expect(window.isFresh(at(799))).toBe(true);
    expect(window.isFresh(at(800))).toBe(false);
  });

  it("stays unbroken while each renewal is durable within three quarters of the lease before it", () => {
    const window = startedAt(0);
    window.renew(at(300), at(749));
    window.renew(at(700), at(900));
    expect(window.isUnbrokenSince(at(0), at(1000))).toBe(true);
  });

  it("breaks when a renewal is durable only after three quarters of the lease", () => {
    const window = startedAt(0);
    window.renew(at(600), at(750));
    expect(window.isUnbrokenSince(at(0), at(800))).toBe(false);
    expect(window.isUnbrokenSince(at(749), at(800))).toBe(false);
    expect(window.isUnbrokenSince(at(750), at(800))).toBe(true);
  });

  it("is not unbroken, even since a recent moment, when it is no longer fresh", () => {
    const window = startedAt(0);
    expect(window.isUnbrokenSince(at(400), at(499))).toBe(true);
    expect(window.isUnbrokenSince(at(400), at(500))).toBe(false);
  });

  it("keeps the later of two renewals that arrive in the wrong order", () => {
    const window = startedAt(0);
    window.renew(at(400), at(450));
    window.renew(at(200), at(460));
    expect(window.isFresh(at(899))).toBe(true);
  });

  it("expires by the monotonic clock when the system clock is set back", () => {
    const window = startedAt(0);
    expect(window.isFresh({ clock: -10_000, ticks: 500 })).toBe(false);
  });

  it("expires by the system clock when the machine was asleep", () => {
    const window = startedAt(0);
    expect(window.isFresh({ clock: 500, ticks: 1 })).toBe(false);
    window.renew({ clock: 60_000, ticks: 2 }, { clock: 60_010, ticks: 12 });
    expect(window.isUnbrokenSince(at(1), { clock: 60_020, ticks: 22 })).toBe(false);
  });
});
