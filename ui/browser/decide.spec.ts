/** Deciding from outside: what is decided about, where answers lead, and who was first. */

import { readFileSync } from "node:fs";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar, type TokenLine } from "./sidecar";
import { type Driver, incident, text } from "./world";

const TOKENS: readonly TokenLine[] = [
  [
    "operator",
    "packs:write,runs:write,runs:read,events:external",
    "operator-token-0123456789abcdef",
  ],
  ["ann", "runs:read,events:external", "ann-token-0123456789abcdefabcd"],
  ["bob", "runs:read,events:external", "bob-token-0123456789abcdefabcd"],
];
const [OPERATOR, ANN, BOB] = TOKENS.map((line) => line[2]) as [string, string, string];

let browser: Browser;
let sidecar: Sidecar;

beforeAll(async () => {
  sidecar = await Sidecar.start({ tokens: TOKENS });
  // Who approves may say why.
  const pack = readFileSync(example("rfc0009-4-ops-remediation.yaml"), "utf8").replace(
    "orchestration: external\n",
    "orchestration: external\n      artifacts:\n        approval_note: {type: text/plain}\n",
  );
  const content = Buffer.from(pack).toString("base64");
  await sidecar.call("POST", "/v1/packs", { content }, OPERATOR);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

async function requests(
  token: string,
): Promise<{ run: Driver; page: Page; close: () => Promise<void> }> {
  const run = await incident(sidecar, {}, OPERATOR);
  const { page, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.getByLabel("Token").fill(token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".link-state.live").waitFor();
  return { run, page, close };
}

const decide = (run: Driver, token: string, event: string) =>
  sidecar.call("POST", `/v1/runs/${run.id}/events`, { event }, token);

test("the dialog shows what is approved and where each answer leads", async () => {
  const { page, close } = await requests(ANN);
  await page.getByRole("button", { name: "Approved" }).click();
  const dialog = page.getByRole("dialog");
  const led = dialog.getByRole("region", { name: "What led here" });
  await led.getByText("Create the index concurrently.").waitFor();
  await led.getByText("orders (customer_id)").waitFor();
  await led.getByText("drop index concurrently").waitFor();
  await led.getByText(/earlier artifact/).click();
  await led.getByText("sequential scan of orders").waitFor();
  await dialog.getByText("leads to execute").waitFor();
  await dialog.getByText("leads to diagnose").waitFor();
  await dialog.getByRole("radio", { name: /Rejected/ }).check();
  await dialog.getByRole("button", { name: "Emit Rejected" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByTestId("state").getByText("diagnose").waitFor();
  await close();
});

test("while the question is open, another's decision is shown with who, what and when", async () => {
  const { run, page, close } = await requests(ANN);
  await page.getByRole("button", { name: "Approved" }).click();
  const dialog = page.getByRole("dialog");
  await decide(run, BOB, "Rejected");
  const report = dialog.getByRole("alert");
  await report.getByText("The run has changed").waitFor();
  await report.getByText("bob", { exact: true }).waitFor();
  await report.getByText("Rejected", { exact: true }).waitFor();
  await report.getByText("diagnose", { exact: true }).waitFor();
  expect(await dialog.getByRole("button", { name: "Emit Approved" }).isDisabled()).toBe(true);
  await close();
});

test("a page that did not hear of it is told by the refusal, keeps what was typed, and cannot press again", async () => {
  const { run, page, close } = await requests(ANN);
  // From now on the page hears of nothing by itself.
  await page.route("**/transitions:stream*", (route) => route.abort());
  await page.route(`**/v1/runs/${run.id}`, (route) => route.abort());
  await page.getByRole("button", { name: "Approved" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByRole("region", { name: "What led here" }).waitFor();
  const field = dialog.getByLabel(/approval_note/);
  await field.fill("looks fine to me");
  const sent: string[] = [];
  // The answer is sent only after the other's has been taken.
  await page.route("**/events", async (route) => {
    sent.push(route.request().url());
    if (sent.length === 1) {
      await decide(run, BOB, "Rejected");
    }
    await route.continue();
  });
  await dialog.getByRole("button", { name: "Emit Approved" }).click();
  const report = dialog.getByRole("alert");
  await report.getByText("The run has changed").waitFor();
  await report.getByText("bob", { exact: true }).waitFor();
  expect(await dialog.getByRole("button", { name: "Emit Approved" }).isDisabled()).toBe(true);
  await page.keyboard.press("Enter");
  expect(sent).toHaveLength(1);
  expect(await field.inputValue()).toBe("looks fine to me");
  await close();
});

test("who was late decides again where the run waits once more", async () => {
  const { run, page, close } = await requests(ANN);
  await page.getByRole("button", { name: "Approved" }).click();
  const dialog = page.getByRole("dialog");
  await decide(run, BOB, "Rejected");
  await dialog.getByText("The run has changed").waitFor();
  const driver = run.at(sidecar);
  await driver.fetch();
  await driver.complete("DiagnosisReady", "Again.", [text("diagnosis", "the index, for sure")]);
  await driver.complete("FixProposed", "The same, at night.");
  await dialog.getByRole("button", { name: "Decide in await_approval instead" }).click();
  await dialog.getByText("The same, at night.").waitFor();
  await dialog.getByRole("button", { name: "Emit Approved" }).click();
  await dialog.waitFor({ state: "detached" });
  await page.getByTestId("state").getByText("execute").waitFor();
  await close();
});
