/** How the page tells of runs that ended without success, and of those that wait for a worker. */

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar } from "./sidecar";
import { codegen, Driver, escalated, failed } from "./world";

const LOOP = JSON.stringify({
  id: "loop",
  name: "Loop",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: { work: { id: "work", name: "Work", version: "1.0.0", system_template: "Work." } },
  workflow: {
    version: 2,
    entry: "work",
    states: {
      work: { prompt_task: "work", max_visits: 2, on_event: { Again: "work", Done: "end" } },
      end: { prompt_task: "work", terminal: true },
    },
  },
});

async function exhausted(s: Sidecar): Promise<Driver> {
  const run = await Driver.start(s, { pack: "loop" });
  await run.complete("Again", "once");
  await run.complete("Again", "twice");
  return run;
}

let browser: Browser;
let sidecar: Sidecar;

beforeAll(async () => {
  sidecar = await Sidecar.start({
    packs: ["rfc0009-1-codegen-agent.yaml", "rfc0009-3-self-correcting.json"].map(example),
  });
  await sidecar.register(LOOP);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

const ENDS: [string, (s: Sidecar) => Promise<Driver>, RegExp, string][] = [
  ["Failed", failed, /^Failed\. The turn failed/, "NO_WORKSPACE the repository is gone"],
  [
    "Escalated",
    escalated,
    /^Escalated\. The turn failed/,
    "CONTEXT_TOO_LONG the model takes 200 000 tokens",
  ],
  [
    "Budget used up",
    exhausted,
    /^Budget used up\. The budget max_visits of work was used up\. The event Again, which leads to work, was not taken\./,
    "",
  ],
];

test.each(ENDS)(
  "%s: status, reason and error stand at the top",
  async (status, end, why, error) => {
    const run = await end(sidecar);
    const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
    const notice = page.getByRole("region", { name: "Why the run ended" });
    await notice.getByText(why).waitFor();
    if (error) {
      await notice.getByText(error).waitFor();
    }
    const title = await page.locator(".run-title").innerText();
    expect(title).toContain(status);
    expect(title).not.toContain("Complete");
    // It is seen without scrolling, also where there is little room.
    await page.setViewportSize({ width: 390, height: 844 });
    const box = await notice.boundingBox();
    expect(box && box.y + box.height < 844 && box.x + box.width <= 390).toBe(true);
    await notice.getByRole("button", { name: /^Record #\d+$/ }).click();
    await page.getByRole("heading", { name: /^#\d+ (Turn failed|Ended)$/ }).waitFor();
    expect(faults).toEqual([]);
    await close();
  },
);

test.each([
  ...ENDS.map(([name, end]) => [name, end] as const),
  ["Completed", (s: Sidecar) => codegen(s, {})] as const,
])("%s: the fork opens at a record from which it succeeds", async (_, end) => {
  const run = await end(sidecar);
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.locator(".state.here").waitFor();
  const last = await page.locator(".scrubber .position b").innerText();
  await page.getByRole("button", { name: "Fork from here" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(`The run had ended at record ${last};`).waitFor();
  await dialog.getByRole("button", { name: "Fork", exact: true }).click();
  await page.waitForURL((url) => /\/runs\/\w+$/.test(url.pathname) && !url.href.includes(run.id));
  await page
    .locator(".run-title")
    .getByText(/Running|Waiting/)
    .waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("a run that no worker serves says what it waits for, and is not live", async () => {
  const { run } = await sidecar.call<{ run: { runId: string } }>("POST", "/v1/runs", {
    pack: "self-correcting",
    execution: "EXECUTION_WORKERS",
  });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.runId}`);
  await page
    .getByRole("region", { name: "Waits" })
    .getByText(/^No worker has the turn of the prompt \w+ since .*Z: no worker is connected\.$/)
    .waitFor();
  await page.locator(".link-state").getByText("Up to date").waitFor();
  const main = await page.locator("main").innerText();
  expect(main).not.toMatch(/\bLive\b|\bRunning\b/);
  expect(faults).toEqual([]);
  await close();
});

test("a run that its caller drives waits for its program", async () => {
  const run = await Driver.start(sidecar, { pack: "self-correcting" });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.locator(".link-state").getByText("Live").waitFor();
  await page.locator(".run-title").getByText("Running").waitFor();
  await page
    .getByRole("region", { name: "Waits" })
    .getByText("The program that started the run executes the turn of the prompt")
    .waitFor();
  expect(faults).toEqual([]);
  await close();
});

/** Edges whose last piece has no length: an arrowhead on it points right, wherever the edge goes. */
const pointless = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll<SVGPathElement>(".edge > path")]
      .map((path) => path.getAttribute("d") ?? "")
      .filter((d) => {
        const at = (d.match(/-?[\d.]+(?:e-?\d+)?/g) ?? []).map(Number);
        const [x0 = 0, y0 = 0, x1 = 0, y1 = 0] = at.slice(-4);
        return Math.hypot(x1 - x0, y1 - y0) < 0.01;
      }),
  );

/** How many edges have a last piece that goes up, down, left and right. */
const directions = (page: Page) =>
  page.evaluate(() => {
    const found = new Set<string>();
    for (const path of document.querySelectorAll<SVGPathElement>(".edge > path")) {
      const length = path.getTotalLength();
      const a = path.getPointAtLength(length - 2);
      const b = path.getPointAtLength(length);
      found.add(
        Math.abs(b.x - a.x) > Math.abs(b.y - a.y)
          ? b.x > a.x
            ? "right"
            : "left"
          : b.y > a.y
            ? "down"
            : "up",
      );
    }
    return [...found];
  });

test.each([
  ["wide", { width: 1440, height: 900 }],
  ["phone", { width: 390, height: 844 }],
])("arrowheads point along their edges: %s", async (_, viewport) => {
  const run = await codegen(sidecar, {}, "test");
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`, {
    viewport,
  });
  await page.locator(".edge > path").first().waitFor();
  expect(await pointless(page)).toEqual([]);
  // The picture has edges that do not go right: the test is about something.
  expect((await directions(page)).length).toBeGreaterThan(1);
  expect(faults).toEqual([]);
  await close();
});
