/** Script and markup in every place that somebody else writes: it is text, and nothing runs. */

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { Sidecar } from "./sidecar";
import { Driver, json, text } from "./world";

const MARK = "window.__ran=1";
const EVIL = `<img src=x onerror="${MARK}"><script>${MARK}</script>"'><svg onload=${MARK}>{{x}}javascript:${MARK}`;
const EVENT = `Go<script>${MARK}</script>`;

const PACK = JSON.stringify({
  id: "hostile",
  name: EVIL,
  version: "1.0.0",
  description: EVIL,
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: {
    worker: {
      id: "worker",
      name: EVIL,
      version: "1.0.0",
      description: EVIL,
      system_template: `${EVIL} {{goal}} {{artifacts.note}}`,
      variables: [{ name: "goal", type: "string", required: true }],
      tools: ["probe"],
    },
  },
  tools: { probe: { name: "probe", description: EVIL } },
  agents: {
    entry: "worker",
    members: { worker: { description: EVIL, state: "work", tags: [EVIL] } },
  },
  workflow: {
    version: 2,
    entry: "work",
    states: {
      work: {
        prompt_task: "worker",
        description: EVIL,
        artifacts: {
          note: { type: "text/plain", description: EVIL },
          page: { type: "text/html", description: EVIL },
          data: { type: "application/json", description: EVIL },
        },
        on_event: { Ask: "gate" },
      },
      gate: {
        prompt_task: "worker",
        orchestration: "external",
        artifacts: { note: { type: "text/plain", description: EVIL } },
        on_event: { [EVENT]: "done", Back: "work" },
      },
      done: { prompt_task: "worker", terminal: true },
    },
  },
});

let browser: Browser;
let sidecar: Sidecar;
let run: Driver;

beforeAll(async () => {
  sidecar = await Sidecar.start();
  await sidecar.register(PACK);
  await sidecar.register(PACK.replace('"1.0.0","description"', `"2.0.0","description"`));
  run = await Driver.start(sidecar, {
    pack: "hostile@1.0.0",
    variablesJson: JSON.stringify({ goal: EVIL }),
    labels: { note: EVIL.slice(0, 250) },
    input: [{ text: EVIL }],
  });
  await run.tool("probe", { path: EVIL, [EVIL]: 1 }, { found: EVIL });
  await run.tool("probe", {}, new Error(EVIL));
  await run.fail("FAILED", EVIL);
  await run.complete("Ask", EVIL, [
    text("note", EVIL),
    text("page", EVIL),
    json("data", { [EVIL]: EVIL }),
  ]);
  await run.post("/inputs", { parts: [{ text: EVIL }] });
  await run.post(":pause", { note: EVIL });
  await run.post(":resume", { note: EVIL });
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

async function harmless(page: Page, faults: string[]): Promise<void> {
  expect(await page.evaluate("window.__ran")).toBeUndefined();
  expect(
    await page
      .locator("#root img, #root script, #root iframe, #root [onload], #root [onerror]")
      .count(),
  ).toBe(0);
  expect(faults).toEqual([]);
}

test("in a run: every record, artifact, turn and dialog", async () => {
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.locator(".state.here").waitFor();
  const last = await page.getByRole("option").count();
  expect(last).toBeGreaterThan(8);
  for (let seq = 1; seq <= last; seq++) {
    await page.locator(`#record-${seq}`).click();
    await page.getByRole("heading", { name: new RegExp(`^#${seq} `) }).waitFor();
  }
  await harmless(page, faults);
  for (const name of ["note", "data", "page"]) {
    await page.getByRole("button", { name: new RegExp(`^${name}`) }).click();
    await page.getByRole("group", { name: `Value of ${name}` }).waitFor();
  }
  expect(await page.getByRole("group", { name: "Value of page" }).innerText()).toBe(EVIL);
  await page.locator("#record-2").click();
  await page.getByRole("tab", { name: "Turn" }).click();
  await page.getByRole("group", { name: "Prompt as rendered" }).waitFor();
  await page.getByRole("tab", { name: "Start" }).click();
  await page.getByRole("group", { name: "Variables" }).waitFor();
  await page.locator(".visits-table summary").click();
  await harmless(page, faults);
  await page
    .getByRole("button", { name: "Latest" })
    .or(page.getByRole("button", { name: "Live" }))
    .click();
  await page.getByRole("button", { name: "Copy as…" }).click();
  await page.getByRole("dialog").waitFor();
  // What is copied into a shell is one word for the shell.
  await page
    .getByText(`pawl runs emit ${run.id} Back`)
    .or(page.getByText(`'${EVENT}'`))
    .first()
    .waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: EVENT }).click();
  await page.getByRole("dialog").waitFor();
  await harmless(page, faults);
  await close();
});

test("in lists, packs and reports", async () => {
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/`);
  await page.locator("[data-run]").first().waitFor();
  await page.getByLabel("Search").fill(EVIL);
  await harmless(page, faults);
  await page.goto(`${sidecar.url}/ui/packs`);
  await page.locator(".pack-card").first().waitFor();
  await harmless(page, faults);
  await page.goto(`${sidecar.url}/ui/packs/hostile@1.0.0`);
  await page.locator(".graph svg").waitFor();
  await page.getByLabel(/Compare/).selectOption("2.0.0");
  await page.locator(".diff").waitFor();
  await harmless(page, faults);
  await page.goto(`${sidecar.url}/ui/check`);
  await page.getByLabel("Document").fill(PACK.replace('"gate"', `"${EVIL.replaceAll('"', "'")}"`));
  await page.getByRole("button", { name: "Check" }).click();
  await page.getByText("The pack would be refused").waitFor();
  await harmless(page, faults);
  await close();
});

test("in addresses", async () => {
  for (const path of [
    `/ui/runs/${encodeURIComponent(EVIL)}`,
    `/ui/packs/${encodeURIComponent(EVIL)}`,
    `/ui/?status=${encodeURIComponent(EVIL)}&label=${encodeURIComponent(EVIL)}&reason=${encodeURIComponent(EVIL)}`,
    "/ui/packs/%25",
    "/ui/runs/01J99999999999999999999999",
  ]) {
    const { page, faults, close } = await open(browser, sidecar.url + path);
    await page.getByRole("alert").first().waitFor();
    // The refused call itself is in the console.
    await harmless(
      page,
      faults.filter((f) => !f.includes("Failed to load resource")),
    );
    await close();
  }
});

test("the policy refuses what slips through", async () => {
  const { page, close } = await open(browser, `${sidecar.url}/ui/`);
  await page.locator("[data-run]").first().waitFor();
  const refused = await page.evaluate(async () => {
    const out: string[] = [];
    document.addEventListener("securitypolicyviolation", (e) => out.push(e.violatedDirective));
    const script = document.createElement("script");
    try {
      script.textContent = "window.__ran=1";
      document.body.append(script);
    } catch {
      out.push("trusted-types");
    }
    try {
      document.body.insertAdjacentHTML("beforeend", "<img src=x onerror='window.__ran=1'>");
    } catch {
      out.push("trusted-types-html");
    }
    await new Promise<void>((report) => {
      document.addEventListener("securitypolicyviolation", (e) => {
        if (e.violatedDirective === "connect-src") {
          report();
        }
      });
      fetch("https://example.invalid/").catch(() => undefined);
    });
    return out;
  });
  expect(refused).toContain("trusted-types-html");
  expect(refused).toContain("connect-src");
  expect(await page.evaluate("window.__ran")).toBeUndefined();
  await close();
});
