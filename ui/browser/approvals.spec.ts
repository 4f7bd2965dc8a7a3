/** Held calls: what is decided about, what goes out, and who was first. */

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { REFUNDS } from "./refunds";
import { example, Sidecar, type TokenLine } from "./sidecar";
import { Driver, incident } from "./world";

const ALL = "packs:write,runs:write,runs:read,events:external,steps:approve";
const TOKENS: readonly TokenLine[] = [
  ["operator", ALL, "operator-token-0123456789abcdef"],
  ["ann", "runs:read,steps:approve", "ann-token-0123456789abcdefabcd"],
  ["bob", "runs:read,steps:approve", "bob-token-0123456789abcdefabcd"],
  ["reader", "runs:read", "reader-token-0123456789abcdef0"],
];
const [OPERATOR, ANN, BOB, READER] = TOKENS.map((line) => line[2]) as [
  string,
  string,
  string,
  string,
];

let browser: Browser;
let sidecar: Sidecar;

beforeAll(async () => {
  sidecar = await Sidecar.start({
    tokens: TOKENS,
    packs: [example("rfc0009-4-ops-remediation.yaml")],
  });
  const content = Buffer.from(REFUNDS).toString("base64");
  await sidecar.call("POST", "/v1/packs", { content }, OPERATOR);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

interface HeldCall {
  run: Driver;
  page: Page;
  close: () => Promise<void>;
}

/** A run with a held call, and a page of somebody's. */
async function held(token: string, path: (id: string) => string): Promise<HeldCall> {
  const run = await Driver.start(sidecar, { pack: "refunds" }, OPERATOR);
  await run.ask("refund", { order: "o-17", amount: 42 });
  const { page, close } = await open(browser, `${sidecar.url}${path(run.id)}`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  return { run, page, close };
}

interface Step {
  approval: { digest: string };
}

const decide = async (run: Driver, token: string, decision: string, reason: string) =>
  sidecar.call(
    "POST",
    `/v1/runs/${run.id}/steps/1:decide`,
    { digest: (await listed(run)).call.approval.digest, decision, reason },
    token,
  );

const listed = async (run: Driver) => {
  const got = await sidecar.call<{ approvals?: { call: Step }[] }>(
    "GET",
    `/v1/approvals?runId=${run.id}`,
    undefined,
    OPERATOR,
  );
  return got.approvals?.[0] as { call: Step };
};

const card = (page: Page, run: Driver) =>
  page.getByRole("region", { name: `refund #1 of ${run.id}` });

test("a held call is listed with its arguments, and goes out once it is approved", async () => {
  const { run, page, close } = await held(ANN, () => "/ui/approvals");
  await card(page, run).getByText("o-17").waitFor();
  await card(page, run).getByRole("button", { name: "Decide" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText("refunds@1.0.0, in s").waitFor();
  await dialog
    .getByText("the call is not made; the model receives DENIED with the reason")
    .waitFor();
  await dialog.getByLabel("Reason, kept in the record").fill("fine");
  await dialog.getByRole("button", { name: "Approve the call" }).click();
  await dialog.waitFor({ state: "detached" });
  await card(page, run).waitFor({ state: "detached" });
  expect(await listed(run)).toBeUndefined();
  await close();
});

test("other arguments go out, from the run's page, and the record tells it", async () => {
  const { page, close } = await held(ANN, (id) => `/ui/runs/${id}`);
  await page.getByRole("button", { name: "Decide refund #1" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: /other arguments/ }).check();
  await dialog.getByLabel("Arguments of the call").fill('{"order":"o-17","amount":7}');
  await dialog.getByRole("button", { name: "Approve the call" }).click();
  await dialog.waitFor({ state: "detached" });
  const records = page.getByRole("region", { name: "Timeline" });
  await records.getByText("refund #1: edited").waitFor();
  await page.getByRole("button", { name: "Decide refund #1" }).waitFor({ state: "detached" });
  await close();
});

test("a denial has a reason", async () => {
  const { run, page, close } = await held(ANN, (id) => `/ui/runs/${id}`);
  await page.getByRole("button", { name: "Decide refund #1" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("radio", { name: /^Deny/ }).check();
  await dialog.getByLabel("Reason, kept in the record").fill("not this order");
  await dialog.getByRole("button", { name: "Deny the call" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByText("refund #1: denied, not this order").waitFor();
  expect(await listed(run)).toBeUndefined();
  await close();
});

test("the second of two is told who decided what and when, keeps what was typed, and cannot press again", async () => {
  const { run, page, close } = await held(ANN, () => "/ui/approvals");
  await card(page, run).getByRole("button", { name: "Decide" }).click();
  const dialog = page.getByRole("dialog");
  const reason = dialog.getByLabel("Reason, kept in the record");
  await reason.fill("looks fine to me");
  // The page hears of nothing by itself, and is told by the refusal.
  await page.route("**/v1/approvals*", (route) => route.abort());
  const sent: string[] = [];
  await page.route("**/steps/1:decide", async (route) => {
    sent.push(route.request().url());
    if (sent.length === 1) {
      await decide(run, BOB, "STEP_DECISION_DENY", "not now");
    }
    await route.continue();
  });
  await dialog.getByRole("button", { name: "Approve the call" }).click();
  const report = dialog.getByRole("alert");
  await report.getByText("The run has changed").waitFor();
  await report.getByText("bob", { exact: true }).waitFor();
  await report.getByText("denied", { exact: true }).waitFor();
  await report.getByText(/not now/).waitFor();
  const retry = dialog.getByRole("button", { name: "Approve the call" });
  expect(await retry.isDisabled()).toBe(true);
  await page.keyboard.press("Enter");
  expect(sent).toHaveLength(1);
  expect(await reason.inputValue()).toBe("looks fine to me");
  await close();
});

test("while the question is open, another's decision is shown", async () => {
  const { run, page, close } = await held(ANN, () => "/ui/approvals");
  await card(page, run).getByRole("button", { name: "Decide" }).click();
  await decide(run, BOB, "STEP_DECISION_APPROVE", "all right");
  const report = page.getByRole("dialog").getByRole("alert");
  await report.getByText("approved", { exact: true }).waitFor();
  await close();
});

test("an event from outside is listed with what it is about and where it leads", async () => {
  const { page, close } = await held(READER, () => "/ui/approvals");
  const run = await incident(sidecar, {}, OPERATOR);
  const waiting = page.getByRole("region", { name: `an event in await_approval of ${run.id}` });
  await waiting.getByText("leads to execute").waitFor();
  await waiting.getByText("drop index concurrently").first().waitFor();
  expect(await page.getByRole("button", { name: "Decide" }).count()).toBe(0);
  await waiting.getByRole("link", { name: "Decide on the page of the run" }).click();
  await page.getByTestId("state").getByText("await_approval").waitFor();
  await close();
});
