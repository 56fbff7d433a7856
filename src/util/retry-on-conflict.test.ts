import { describe, expect, it } from "vitest";
import { SavepointError } from "../errors.js";
import { retryOnConflict } from "./retry-on-conflict.js";

const conflict = (): SavepointError => new SavepointError("CONFLICT", "Another writer was faster.");

describe("retrying on a conflict", () => {
  it("repeats the attempt until it succeeds, and returns its result", async () => {
    const result = await retryOnConflict(async (number) => {
      if (number < 3) throw conflict();
      return number;
    });
    expect(result).toBe(3);
  });

  it("rejects with any other error at once", async () => {
    let attempts = 0;
    const work = retryOnConflict(async () => {
      attempts++;
      throw new SavepointError("DAMAGED", "A record is damaged.");
    });
    await expect(work).rejects.toMatchObject({ code: "DAMAGED" });
    expect(attempts).toBe(1);
  });

  it("rejects with the last conflict after the last attempt", async () => {
    let attempts = 0;
    const work = retryOnConflict(
      async () => {
        attempts++;
        throw conflict();
      },
      { maxAttempts: 5 },
    );
    await expect(work).rejects.toMatchObject({ code: "CONFLICT" });
    expect(attempts).toBe(5);
  });

  it("rejects at once with a conflict that another attempt cannot solve", async () => {
    let attempts = 0;
    const work = retryOnConflict(
      async () => {
        attempts++;
        throw conflict();
      },
      { isRetryable: () => false },
    );
    await expect(work).rejects.toMatchObject({ code: "CONFLICT" });
    expect(attempts).toBe(1);
  });
});
