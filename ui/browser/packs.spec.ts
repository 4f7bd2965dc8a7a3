import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar } from "./sidecar";

let browser: Browser;
let sidecar: Sidecar;

beforeAll(async () => {
  sidecar = await Sidecar.start({
    packs: ["rfc0009-1-codegen-agent.yaml", "rfc0011-1-security-review.yaml"].map(example),
  });
  const next = readFileSync(example("rfc0009-1-codegen-agent.yaml"), "utf8")
    .replace("version: 1.0.0", "version: 1.1.0")
    .replaceAll("max_visits: 10", "max_visits: 6");
  await sidecar.register(next);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

test("packs with their versions, and one with graph, findings, end and source", async () => {
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/packs`);
  await page.getByRole("link", { name: "1.1.0, default" }).waitFor();
  await page.getByRole("link", { name: "Code Generation Agent" }).click();
  await page.locator(".state .name", { hasText: "implement" }).waitFor();
  await page
    .getByText(/always ends/)
    .first()
    .waitFor();
  await page
    .getByRole("button", { name: /^line \d+, column \d+$/ })
    .first()
    .click();
  await page.locator(".source .here").waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("two versions are compared line by line", async () => {
  const { page, faults, close } = await open(
    browser,
    `${sidecar.url}/ui/packs/codegen-agent@1.1.0`,
  );
  await page.getByLabel(/Compare/).selectOption("1.0.0");
  await page.locator(".diff .plus", { hasText: "max_visits: 6" }).first().waitFor();
  await page.locator(".diff .minus", { hasText: "max_visits: 10" }).first().waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("agents are shown with their entry, and the graph of each", async () => {
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/packs/security-review`);
  await page.getByText("Runs the workflow from triage.").waitFor();
  await page.getByText("Runs one turn of its prompt.").waitFor();
  // The card is the one that other agents read.
  await page.getByText("Agent card").first().click();
  await page.getByText("JSONRPC", { exact: true }).first().waitFor();
  await page.getByRole("combobox", { name: "Entry" }).selectOption("analyst");
  await page.locator(".state .name", { hasText: "analyst" }).waitFor();
  await page.locator(".state .name", { hasText: "investigate" }).waitFor({ state: "detached" });
  expect(faults).toEqual([]);
  await close();
});

test("a document is checked, with the places of what is wrong", async () => {
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/check`);
  const good = readFileSync(example("rfc0009-1-codegen-agent.yaml"), "utf8");
  await page.getByLabel("Document").fill(good.replace("CodeReady: test", "CodeReady: tset"));
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("The pack would be refused").waitFor();
  await page.locator(".findings .error").first().getByRole("button").click();
  await page.locator(".source .here", { hasText: "CodeReady: tset" }).waitFor();
  await page.locator("input[type=file]").setInputFiles(example("rfc0009-1-codegen-agent.yaml"));
  await page.getByText("codegen-agent@1.0.0 would be accepted").waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("there is no pack: the page says what to do", async () => {
  const empty = await Sidecar.start();
  const { page, close } = await open(browser, `${empty.url}/ui/packs`);
  await page.getByText("No pack is registered").waitFor();
  await page.goto(`${empty.url}/ui/`);
  await page.getByText("No runs yet").waitFor();
  await page.goto(`${empty.url}/ui/nowhere`);
  await page.getByText("Page not found").waitFor();
  await close();
  await empty.stop();
});
