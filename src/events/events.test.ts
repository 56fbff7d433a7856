import { afterEach, expect, it, vi } from "vitest";
import { Events } from "./events.js";

afterEach(() => void vi.restoreAllMocks());

it("a failure is printed if its event has no listener, or only listeners that observe", () => {
  const printed = vi.spyOn(console, "warn").mockImplementation(() => {});
  const event = { message: "the disk is full", error: new Error("ENOSPC") };
  const events = new Events();
  events.emit("backgroundFailure", event);
  expect(printed).toHaveBeenCalledTimes(1);
  const observed: unknown[] = [];
  events.on("backgroundFailure", (each) => observed.push(each), undefined, { observe: true });
  events.emit("backgroundFailure", event);
  expect(printed).toHaveBeenCalledTimes(2);
  const remove = events.on("backgroundFailure", () => {});
  events.emit("backgroundFailure", event);
  expect(printed).toHaveBeenCalledTimes(2);
  remove();
  events.emit("backgroundFailure", event);
  expect(printed).toHaveBeenCalledTimes(3);
  expect(observed).toEqual([event, event, event]);
});
