import { expect, it, vi } from "vitest";
import { RunStop } from "./run-stop.js";

it("any number of effects may listen to the signal of their run without a warning of Node", () => {
  const warn = vi.spyOn(process, "emitWarning").mockImplementation(() => {});
  const { effectSignal } = new RunStop();
  for (let effect = 0; effect < 20; effect++) effectSignal.addEventListener("abort", () => {});
  expect(warn).not.toHaveBeenCalled();
  warn.mockRestore();
});
