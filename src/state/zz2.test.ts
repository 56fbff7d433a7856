import { it, vi } from "vitest";
import { History, exactText, seeded } from "./history.testing.js";
import { anyValue, editAnywhere } from "./any-state.testing.js";
it("fake", () => {
  vi.useFakeTimers();
  const d = new Date();
  const p = Object.getPrototypeOf(d);
  console.log(p.constructor.name, p === Date.prototype, Object.getPrototypeOf(p) === Object.prototype);
  try { console.log(new History().save({ d })); } catch (e) { console.log(String(e)); }
  vi.useRealTimers();
});
it("bytes agree", async () => {
  let bad = 0, n = 0;
  for (let s = 0; s < 3000; s++) {
    const random = seeded(s * 7919 + 1);
    const h = new History(); let state: unknown = { one: anyValue(random, 4), list: [anyValue(random, 4)] };
    for (let step = 0; step < 8; step++) {
      state = editAnywhere(state, random);
      if (exactText(state).includes('"$":')) break;
      const b = h.save(state); const f = new History().save(state); n++;
      if (b !== f) { bad++; if (bad < 6) console.log("seed", s, step, b, f, exactText(state).slice(0, 3000)); break; }
    }
  }
  console.log({ bad, n });
});
