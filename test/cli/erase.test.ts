// erase on the command line.
import { describe, expect, it } from "vitest";
import { saveAgent, saveTrip, usePlace } from "./place.js";

const tool = usePlace();

describe("erase", () => {
  it("erase removes a session, and names the backups that still contain it", async () => {
    await tool().leave((sp) => saveTrip(sp));
    await tool().on(["backup", "--to", "backups"]);
    const { code, stdout, stderr } = await tool().on(["erase", "--session", "trip", "--yes"]);
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stdout).toMatch(/^Erased session "trip"\./);
    expect(stderr).toMatch(/the backup .*backups.*\.savepoint on .* may still contain it: delete the backup too/);
    await tool().leave(async (sp) => expect(await sp.sessions.load("trip")).toBeUndefined());
  });

  it("erase removes an agent and a conversation, and reports what does not exist", async () => {
    await tool().leave((sp) => saveAgent(sp));
    expect(await tool().json(["erase", "--conversation", "newer", "--yes"])).toMatchObject({ conversations: 1 });
    expect(await tool().json(["erase", "--agent", "planner", "--yes"])).toMatchObject({ agents: 1 });
    const { code, stdout } = await tool().on(["erase", "--agent", "planner", "--yes"]);
    expect(code).toBe(0);
    expect(stdout).toContain('There is no agent "planner"');
  });

  it("erase changes nothing without a terminal and without --yes, or if it is not clear what to erase", async () => {
    await tool().leave((sp) => saveTrip(sp));
    expect((await tool().fail(["erase", "--session", "trip"], 2)).message).toContain("--yes");
    await tool().fail(["erase", "--yes"], 2);
    await tool().fail(["erase", "--session", "trip", "--agent", "planner", "--yes"], 2);
    await tool().leave(async (sp) => expect(await sp.sessions.load("trip")).toBeDefined());
  });
});
