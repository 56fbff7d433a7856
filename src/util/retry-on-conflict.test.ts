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

  it("rejects with any other error immediately", async () => {
    let attempts = 0;
    const work = retryOnConflict(async () => {
      attempts++;
      throw new SavepointError("DAMAGED", "A record is damaged.");
    });
    await expect(work).rejects.toMatchObject({ code: "DAMAGED" });
    expect(attempts).toBe(1);
  });

  it("reports that another process keeps writing after the last attempt", async () => {
    const last = conflict();
    let attempts = 0;
    const attempt = async (): Promise<never> => {
      attempts++;
      throw last;
    };
    const message = expect.stringMatching(/^Another process keeps writing .* Try again\.$/) as string;
    await expect(retryOnConflict(attempt, { maxAttempts: 5 })).rejects.toMatchObject({
      code: "BUSY",
      message,
      cause: last,
    });
    expect(attempts).toBe(5);
    await expect(retryOnConflict(attempt)).rejects.toMatchObject({ code: "BUSY", message, cause: last });
    expect(attempts).toBe(1005);
  });

  it("rejects immediately with a conflict that another attempt cannot solve", async () => {
    let attempts = 0;
    const work = retryOnConflict(
      async () => {
        attempts++;
        throw conflict();
      },
      { isRetryable: (_, number) => number < 3 },
    );
    await expect(work).rejects.toMatchObject({ code: "CONFLICT" });
    expect(attempts).toBe(3);
  });
});
