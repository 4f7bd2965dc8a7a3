import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar } from "./sidecar";
import { codegen, Driver } from "./world";

let browser: Browser;
let sidecar: Sidecar;

const TEAM = JSON.stringify({
  id: "team",
  name: "Team",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: {
    lead: {
      id: "lead",
      name: "Lead",
      version: "1.0.0",
      system_template: "Ask the helper.",
      tools: ["helper"],
    },
    helper: { id: "helper", name: "Helper", version: "1.0.0", system_template: "Help." },
  },
  agents: {
    entry: "lead",
    members: { lead: { description: "Leads" }, helper: { description: "Helps" } },
  },
});

beforeAll(async () => {
  sidecar = await Sidecar.start({ packs: [example("rfc0009-1-codegen-agent.yaml")] });
  await sidecar.register(TEAM);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

test("graph, budgets and artifacts are those of the record", async () => {
  const run = await codegen(sidecar, {});
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.locator(".state.here .name", { hasText: "done" }).waitFor();
  await page.getByRole("meter", { name: "Visits" }).waitFor();
  expect(await page.getByRole("meter", { name: "Visits" }).getAttribute("aria-valuetext")).toBe(
    "7 of 30",
  );
  await page.locator("#record-13").click();
  await page.locator(".state.here .name", { hasText: "implement" }).waitFor();
  await page.locator(".edge.on", { hasText: "TestsFailed" }).waitFor();
  await page.locator(".artifacts li", { hasText: "commit_sha" }).getByText("3f0a91c").waitFor();
  expect(await page.getByRole("meter", { name: "Visits" }).getAttribute("aria-valuetext")).toBe(
    "4 of 30",
  );
  // A state of the graph leads to the record that entered it.
  await page.locator(".visits-table summary").click();
  await page.getByRole("button", { name: "plan", exact: true }).click();
  await page.getByRole("heading", { name: "#1 Transition" }).waitFor();
  await page.getByRole("button", { name: "Latest" }).click();
  await page.locator(".state.here .name", { hasText: "done" }).waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("wall time at an earlier record is counted to that record, and no further", async () => {
  const timed = readFileSync(example("rfc0009-3-self-correcting.json"), "utf8")
    .replace('"self-correcting"', '"timed"')
    .replace('"version": 2,', '"version": 2, "engine": {"budget": {"max_wall_time_sec": 86400}},');
  await sidecar.register(timed);
  const run = await Driver.start(sidecar, { pack: "timed" });
  await run.complete("Error", "once");
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  // Ten hours later, as far as the page knows.
  await page.clock.install();
  await page.clock.setFixedTime(Date.now() + 36_000_000);
  await page.reload();
  const wall = page.getByRole("meter", { name: "Wall time" });
  await page.waitForFunction(() =>
    /^(9 h 59|10 h)/.test(
      document.querySelector("[aria-label='Wall time']")?.getAttribute("aria-valuetext") ?? "",
    ),
  );
  await page.locator("#record-1").click();
  await page.waitForFunction(() =>
    /^\d+ s of/.test(
      document.querySelector("[aria-label='Wall time']")?.getAttribute("aria-valuetext") ?? "",
    ),
  );
  await page.getByRole("button", { name: "Live" }).click();
  await page.waitForFunction(() =>
    / h /.test(
      document.querySelector("[aria-label='Wall time']")?.getAttribute("aria-valuetext") ?? "",
    ),
  );
  await wall.waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("the header has what the run was given and what it gave in the end", async () => {
  const run = await codegen(sidecar, { ticket: "PAY-9" });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  const head = page.locator(".run-head");
  await head.locator("details", { hasText: "Input" }).getByText("with tests.").first().waitFor();
  const output = head.locator("details", { hasText: "Final output" });
  await output.locator("summary").click();
  await output.locator(".side-body").getByText("Roman numerals are converted both ways.").waitFor();
  await head.getByRole("link", { name: "ticket=PAY-9" }).click();
  await page.locator(`[data-run="${run.id}"]`).waitFor();
  expect(page.url()).toContain("label=ticket");
  expect(faults).toEqual([]);
  await close();
});

test("times by state and by tool, at the record that is looked at", async () => {
  const run = await codegen(sidecar, {});
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.getByRole("tab", { name: "Times" }).click();
  const times = page.locator(".times");
  await times.getByRole("row", { name: /^implement 2 / }).waitFor();
  await times.getByRole("row", { name: /^write_file 3, 1 failed / }).waitFor();
  await times.getByRole("button", { name: "test visit 2" }).click();
  await page.getByTestId("state").getByText("test", { exact: true }).waitFor();
  await times.getByRole("row", { name: /^test still open 2 / }).waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("an artifact shows what its last write changed", async () => {
  const run = await codegen(sidecar, {});
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}?seq=21`);
  await page.getByRole("button", { name: /^change_summary/ }).click();
  await page.getByRole("button", { name: "Changed by #21" }).click();
  await page.locator(".diff .minus", { hasText: "counts the letters" }).waitFor();
  await page.locator(".diff .plus", { hasText: "reads subtractive pairs" }).waitFor();
  await page.locator(".diff .same", { hasText: "no check of the order" }).waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("a turn shows its prompt as rendered, its attempts, calls, errors and tokens", async () => {
  const run = await codegen(sidecar, {});
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}?seq=9`);
  await page.getByRole("tab", { name: "Turn" }).click();
  const prompt = page.getByRole("group", { name: "Prompt as rendered" });
  await prompt.getByText("Code revision: 3f0a91c").waitFor();
  await page.getByText("failed: MODEL_OVERLOADED the model answered 529").waitFor();
  await page
    .getByRole("group", { name: "Arguments of run_tests" })
    .getByText("test_path")
    .waitFor();
  await page.getByRole("group", { name: "Result of run_tests" }).getByText('"failed": 2').waitFor();
  await page.getByRole("cell", { name: "1\u202f125" }).waitFor();
  // A call that failed, in the turn of its record.
  await page.locator("#record-17").click();
  await page.locator(".answer").getByText("disk quota exceeded").waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("what was delegated stands below, who delegated above", async () => {
  const lead = await Driver.start(sidecar, { pack: "team", agent: "lead" });
  await lead.tool("helper", { message: "help" }, { status: "COMPLETED" });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${lead.id}`);
  await page.getByRole("tab", { name: "Family" }).click();
  await page.locator(".tree .here").getByText(lead.id).waitFor();
  await page.locator(".tree ul .node").first().waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("keyboard: arrows go through records and tabs", async () => {
  const run = await codegen(sidecar, {}, "test");
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.getByRole("listbox", { name: "Records" }).focus();
  await page.keyboard.press("Home");
  await page.getByRole("heading", { name: "#1 Transition" }).waitFor();
  await page.keyboard.press("ArrowDown");
  await page.getByRole("heading", { name: "#2 Input" }).waitFor();
  await page.getByRole("tab", { name: "Record" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.getByRole("group", { name: "Prompt as rendered" }).waitFor();
  expect(faults).toEqual([]);
  await close();
});
