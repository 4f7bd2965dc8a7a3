/** Money: what a run spends and reserves, the operator's accounts, and what waits for limits. */

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { BUDGETS, operatorFile, PURSE, spending } from "./money";
import { Sidecar, type TokenLine } from "./sidecar";
import { Driver } from "./world";

const APPROVER: TokenLine = ["ann", "steps:approve", "ann-token-0123456789abcdefabcd"];
const LIMITS = { limits: [{ id: "gpt", key: 'model == "" ? "" : model', concurrent: 1 }] };

let browser: Browser;
let sidecar: Sidecar;
let bare: Sidecar;

beforeAll(async () => {
  const flags = [...operatorFile("budgets", BUDGETS), ...operatorFile("limits", LIMITS)];
  [sidecar, bare] = await Promise.all([
    Sidecar.start({ flags }),
    Sidecar.start({
      tokens: [["reader", "runs:read", "reader-token-0123456789abcdef0"], APPROVER],
    }),
  ]);
  await sidecar.register(PURSE);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
  await bare?.stop();
});

const meter = (page: Page, within: string, name: string, expected: string) =>
  page
    .getByRole("region", { name: within })
    .locator(`.meter[aria-label='${name}'][aria-valuetext='${expected}']`)
    .waitFor();

test("a run shows what is settled, reserved, leased and refused, and when models were told", async () => {
  const run = await spending(sidecar, { tenant: "globex" });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  const money = page.getByRole("region", { name: "Money", exact: true });
  await meter(
    page,
    "Money",
    "Cost",
    "$0.0360 settled, $0.0500 reserved ($0.0300 leased to agents), of $0.1000",
  );
  await money.getByText("Refused").locator("..").getByText("nothing").waitFor();
  const account = money.getByRole("link", { name: "tenant=globex/day" });
  await account.locator("..").getByText("$0.0360 and 0 tokens settled").waitFor();

  // What does not fit is shown as soon as it was refused.
  await run.ask("search", { query: "more" });
  const refused = money.getByText("Refused").locator("..");
  await refused.getByText("search: MAX_COST_USD").waitFor();
  await page.locator(".run-title").getByText("Budget used up").waitFor();

  // The way to the record is one of the keyboard too, and what stood then is shown.
  const report = money.getByText("Notice at 80 %").locator("..").getByRole("button");
  const seq = Number((await report.textContent())?.replace(/\D/g, ""));
  await report.focus();
  await page.keyboard.press("Enter");
  await page.waitForURL(`**/runs/${run.id}?seq=${seq}`);
  await page.locator(`#record-${seq}`, { hasText: "BUDGET_LOW" }).waitFor();
  await refused.getByText("nothing").waitFor();

  await account.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "tenant=globex/day" }).waitFor();
  expect(await page.locator(".account-list > *").count()).toBe(1);
  expect(faults).toEqual([]);
  await close();
});

test("a raise is shown with the limit that holds now", async () => {
  const run = await spending(sidecar, {});
  const { page, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  const money = page.getByRole("region", { name: "Money", exact: true });
  await money.getByText("Raised").locator("..").getByText("never").waitFor();
  await run.post(":raiseBudget", { maxCostMicroUsd: 400_000, reason: "it is worth it" });
  await money.getByText("Raised").locator("..").getByRole("button").waitFor();
  await meter(
    page,
    "Money",
    "Cost",
    "$0.0360 settled, $0.0500 reserved ($0.0300 leased to agents), of $0.4000",
  );
  await close();
});

test("accounts are kept up to date, with their windows and what they refused", async () => {
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/`);
  await page.getByRole("link", { name: "Budgets" }).focus();
  await page.keyboard.press("Enter");
  const month = page.getByRole("region", { name: "tenant=acme/month" });
  await month.getByText("Rolls over").waitFor();
  await meter(page, "tenant=acme/month", "Tokens", "0 settled, 0 reserved, of 2\u202f000\u202f000");
  await spending(sidecar, { tenant: "acme" });
  await meter(page, "tenant=acme/day", "Cost", "$0.0360 settled, $0.0200 reserved, of $0.1500");
  await meter(page, "tenant=acme/month", "Cost", "$0.0360 settled, $0.0200 reserved, of $4.00");
  await page.getByRole("region", { name: "/ever" }).getByText("for ever").waitFor();

  const day = page.getByRole("region", { name: "tenant=acme/day" });
  await day.getByText("nothing").waitFor();
  const other = await Driver.start(sidecar, { pack: "purse", labels: { tenant: "acme" } });
  for (let i = 0; i < 5; i++) {
    await other.ask("search", { query: "all of it" });
  }
  await day.getByText("1 since the sidecar began").waitFor();

  await page.getByLabel("Name begins with").fill("tenant=acme/m");
  await day.waitFor({ state: "detached" });
  await month.waitFor();
  await page.getByLabel("Name begins with").fill("tenant=nobody");
  await page.getByText("No account matches").waitFor();
  expect(faults).toEqual([]);
  await close();
});

async function signedIn(token: string): Promise<[page: Page, close: () => Promise<void>]> {
  const { page, close } = await open(browser, `${bare.url}/ui/budgets`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  return [page, close];
}

test("without accounts the page says how there come some, and who may not see them is told", async () => {
  const [reader, done] = await signedIn("reader-token-0123456789abcdef0");
  await reader.getByText("There are no accounts").waitFor();
  await reader.getByText("--budgets FILE").waitFor();
  await done();
  const [approver, close] = await signedIn(APPROVER[2]);
  await approver.getByRole("alert").getByText("runs:read").waitFor();
  await close();
});

test("a run says which limit its call waits for, until it may begin", async () => {
  const request = {
    model: "gpt",
    messages: [{ message: { role: "user", parts: [{ text: "hi" }] } }],
  };
  const bound = { costMicroUsd: "100" };
  const first = await Driver.start(sidecar, { pack: "purse" });
  const [step, attempt] = await first.askModel(1, request, bound);
  const second = await Driver.start(sidecar, { pack: "purse" });
  const waiting = second.askModel(1, request, bound);
  const { page, close } = await open(browser, `${sidecar.url}/ui/runs/${second.id}`);
  const report = page.getByRole("region", { name: "Waits" });
  await report.getByText("The call of the model gpt waits for the limit gpt since").waitFor();
  const answer = { parts: [{ text: "hello" }], finishReason: "stop" };
  await first.answerModel(step, attempt, { answer }, { costMicroUsd: "90" });
  await waiting;
  await report.getByText("The call of the model gpt").waitFor({ state: "detached" });
  await close();
});
