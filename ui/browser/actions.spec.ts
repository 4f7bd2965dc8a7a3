import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar, type TokenLine } from "./sidecar";
import { codegen, incident } from "./world";

const TOKENS: readonly TokenLine[] = [
  [
    "operator",
    "packs:write,runs:write,runs:read,events:external",
    "operator-token-0123456789abcdef",
  ],
  ["reader", "runs:read", "reader-token-0123456789abcdef0"],
  ["approver", "runs:read,events:external", "approver-token-0123456789abcdef"],
];
const [OPERATOR, READER, APPROVER] = TOKENS.map((line) => line[2]) as [string, string, string];

let browser: Browser;
let free: Sidecar;
let guarded: Sidecar;

beforeAll(async () => {
  const packs = ["rfc0009-4-ops-remediation.yaml", "rfc0009-1-codegen-agent.yaml"].map(example);
  free = await Sidecar.start({ packs });
  guarded = await Sidecar.start({ packs, tokens: TOKENS });
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await free?.stop();
  await guarded?.stop();
});

const state = (page: Page, name: string) =>
  page.getByTestId("state").getByText(name, { exact: true }).waitFor();

test("an event is emitted with its artifacts", async () => {
  const run = await incident(free, {});
  const { page, faults, close } = await open(browser, `${free.url}/ui/runs/${run.id}`);
  await page.getByRole("button", { name: "Approved" }).click();
  await page.getByRole("button", { name: "Emit Approved" }).click();
  await state(page, "execute");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  // The state is moved by the holder of its turn: nothing is offered.
  await page.getByRole("button", { name: "Approved" }).waitFor({ state: "detached" });
  expect(faults).toEqual([]);
  await close();
});

test("of two decisions the second is told that the first has won", async () => {
  const run = await incident(free, {});
  const { page, close } = await open(browser, `${free.url}/ui/runs/${run.id}`);
  await page.getByRole("button", { name: "Approved" }).click();
  await run.emit("Rejected");
  await page.getByRole("alert").getByText("The run has changed").waitFor();
  expect(await page.getByRole("button", { name: "Emit Approved" }).isDisabled()).toBe(true);
  await page.keyboard.press("Escape");
  await state(page, "diagnose");
  await close();
});

test("input, pause, resume and cancel", async () => {
  const run = await incident(free, {});
  const { page, faults, close } = await open(browser, `${free.url}/ui/runs/${run.id}`);
  await page.getByRole("button", { name: "Send input" }).click();
  await page
    .getByLabel("Message for the next turn of this visit")
    .fill("look at the <b>disk</b> too");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByRole("option", { name: /Input/ }).waitFor();
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByLabel("Note, kept in the record").fill("for the night");
  await page.getByRole("button", { name: "Pause this run" }).click();
  await page.getByRole("option", { name: /Paused for the night/ }).waitFor();
  // A paused run takes no event.
  await page.getByRole("button", { name: "Approved" }).waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Resume this run" }).click();
  await page.getByRole("button", { name: "Approved" }).waitFor();
  await page.getByRole("button", { name: "Cancel run" }).click();
  await page.getByRole("button", { name: "Cancel this run" }).click();
  await page.locator(".run-title .badge.cancelled").waitFor();
  await page.getByRole("button", { name: "Cancel run" }).waitFor({ state: "detached" });
  expect(faults).toEqual([]);
  await close();
});

test("what is said to a run is recorded with when it counts, and what it is at is stopped", async () => {
  const run = await codegen(free, {}, "test");
  const { page, faults, close } = await open(browser, `${free.url}/ui/runs/${run.id}`);
  await page.getByRole("button", { name: "Add a message" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Message for the model").fill("Leave the tests alone.");
  await dialog.getByRole("radio", { name: /^Next turn/ }).check();
  await dialog.getByRole("button", { name: "Add message" }).click();
  await dialog.waitFor({ state: "detached" });
  const records = page.getByRole("region", { name: "Timeline" });
  await records.getByText("next turn: Leave the tests alone.").waitFor();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await dialog.getByLabel("Note, kept in the record").fill("wrong branch");
  await dialog.getByRole("button", { name: "Stop the open turn" }).click();
  await dialog.waitFor({ state: "detached" });
  await records.getByText("wrong branch").waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("a fork from an earlier record, with another artifact, goes on from there", async () => {
  const run = await codegen(free, {});
  const { page, faults, close } = await open(browser, `${free.url}/ui/runs/${run.id}?seq=13`);
  await state(page, "implement");
  await page.getByRole("button", { name: "Fork from here" }).click();
  await page.getByLabel("Change an artifact").selectOption("commit_sha");
  await page.getByLabel("Artifact commit_sha").fill("0000000");
  await page.getByRole("button", { name: "Fork", exact: true }).click();
  await page.getByRole("option", { name: /Forked/ }).waitFor();
  await state(page, "implement");
  await page.getByText("0000000").first().waitFor();
  expect(page.url()).not.toContain(run.id);
  expect(faults).toEqual([]);
  await close();
});

test("copies for a terminal and for code", async () => {
  const run = await incident(free, {});
  const { page, close } = await open(browser, `${free.url}/ui/runs/${run.id}`);
  await page.getByRole("button", { name: "Copy as…" }).click();
  await page.getByText(`pawl runs emit ${run.id} Approved`).waitFor();
  await page.getByText(`client.attach("${run.id}")`).waitFor();
  await close();
});

async function signIn(page: Page, token: string): Promise<void> {
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
}

test("a wrong token is refused, a right one is kept in the tab and can be given up", async () => {
  const { page, close } = await open(browser, `${guarded.url}/ui/`);
  await signIn(page, "no-such-token-0123456789");
  await page.getByText("not one of this server's").waitFor();
  await signIn(page, READER);
  await page.getByText("reader", { exact: true }).waitFor();
  await page.reload();
  await page.getByText("reader", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel("Token").waitFor();
  await close();
});

test("what a token may not do is not offered, and refused when asked anyway", async () => {
  const run = await incident(guarded, {}, OPERATOR);
  const shown = async (token: string) => {
    const { page, close } = await open(browser, `${guarded.url}/ui/runs/${run.id}`);
    await signIn(page, token);
    await page.getByRole("button", { name: "Copy as…" }).waitFor();
    await page.locator(".state.here").waitFor();
    const buttons = await page.locator(".actions button").allInnerTexts();
    const status = await page.evaluate(
      ([id, secret]) =>
        fetch(`/v1/runs/${id}/events`, {
          method: "POST",
          headers: { "Content-Type": "application/json", Authorization: `Bearer ${secret}` },
          body: JSON.stringify({ event: "Nope" }),
        }).then((r) => r.status),
      [run.id, token] as const,
    );
    await close();
    return { buttons, status };
  };
  expect(await shown(READER)).toEqual({ buttons: ["Copy as…"], status: 403 });
  const approver = await shown(APPROVER);
  expect(approver.buttons).toEqual(["Approved", "Rejected", "Copy as…"]);
  expect(approver.status).toBe(400);
  expect((await shown(OPERATOR)).buttons).toContain("Cancel run");
  await expect(
    guarded.call("POST", `/v1/runs/${run.id}/events`, { event: "Approved" }, READER),
  ).rejects.toThrow("SCOPE_MISSING");
});
