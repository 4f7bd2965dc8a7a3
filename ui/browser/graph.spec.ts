/** The graph of many states: whatever its scale, its names can be read. */

import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar } from "./sidecar";
import { Driver, text } from "./world";

const STATES = [
  "collect_requirements",
  "draft_specification",
  "review_specification",
  "implement_change",
  "run_unit_tests",
  "run_integration_tests",
  "security_assessment",
  "await_release_approval",
  "publish_release",
  "report_to_stakeholders",
  "finished",
];

const LONG = JSON.stringify({
  id: "long",
  name: "Long",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: { worker: { id: "worker", name: "Worker", version: "1.0.0", system_template: "Work." } },
  workflow: {
    version: 2,
    entry: STATES[0],
    states: Object.fromEntries(
      STATES.map((name, i) => [
        name,
        i === STATES.length - 1
          ? { prompt_task: "worker", terminal: true }
          : {
              prompt_task: "worker",
              max_visits: 3,
              on_max_visits: "finished",
              on_event: {
                Continue: STATES[i + 1],
                ...(i > 2 && i < 7 ? { ChangesRequested: STATES[2] } : {}),
              },
            },
      ]),
    ),
  },
});

let browser: Browser;
let sidecar: Sidecar;

beforeAll(async () => {
  sidecar = await Sidecar.start({ packs: [example("rfc0009-3-self-correcting.json")] });
  await sidecar.register(LONG);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

/** Sizes on the screen of the letters that are drawn, and whether names lie over each other. */
function letters(page: Page) {
  return page.evaluate(() => {
    const svg = document.querySelector<SVGSVGElement>(".graph svg");
    const scale = svg ? svg.clientWidth / svg.viewBox.baseVal.width : 0;
    const texts = [...document.querySelectorAll<SVGTextElement>(".graph svg text")].filter(
      (t) => t.textContent !== "",
    );
    const names = texts.filter((t) => t.classList.contains("name"));
    const boxes = names.map((t) => t.getBoundingClientRect());
    const over = boxes.some((a, i) =>
      boxes.some(
        (b, n) =>
          n > i &&
          a.left < b.right - 1 &&
          b.left < a.right - 1 &&
          a.top < b.bottom - 1 &&
          b.top < a.bottom - 1,
      ),
    );
    const sizes = texts.map((t) => Number.parseFloat(getComputedStyle(t).fontSize) * scale);
    return { least: Math.min(...sizes), names: names.length, over, scale };
  });
}

/** Waits until the scale of the picture is another one. */
const rescaled = (page: Page, from: number) =>
  page.waitForFunction((before) => {
    const svg = document.querySelector<SVGSVGElement>(".graph svg");
    const now = svg ? svg.clientWidth / svg.viewBox.baseVal.width : 0;
    return Math.abs(now - before) > 0.001;
  }, from);

test.each([
  ["wide", { width: 1440, height: 900 }],
  ["phone", { width: 390, height: 844 }],
])("eleven states can be read at every scale: %s", async (_, viewport) => {
  const run = await Driver.start(sidecar, { pack: "long" });
  await run.complete("Continue", "x");
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`, {
    viewport,
  });
  await page.locator(".state.here").waitFor();
  const first = await letters(page);
  expect(first.names).toBe(STATES.length);
  expect(first.least).toBeGreaterThanOrEqual(11);
  expect(first.over).toBe(false);
  // Where it stands is in sight.
  const port = await page.locator(".graph-port").boundingBox();
  const here = await page.locator(".state.here .body").boundingBox();
  expect(here && port && here.x >= port.x && here.y >= port.y - 1).toBe(true);
  const fit = page.getByRole("button", { name: "Fit" });
  await page.getByRole("button", { name: "Zoom in" }).click();
  await rescaled(page, first.scale);
  await fit.click();
  const whole = await letters(page);
  expect(whole.least).toBeGreaterThanOrEqual(11);
  expect(whole.over).toBe(false);
  for (const name of STATES) {
    const box = await page.locator(`.state [data-name="${name}"]`).boundingBox();
    expect(box && port && box.x >= port.x - 2 && box.x + box.width <= port.x + port.width + 2).toBe(
      true,
    );
  }
  expect(faults).toEqual([]);
  await close();
});

test("buttons, wheel, keys and dragging move and zoom; the page scrolls on until then", async () => {
  const run = await Driver.start(sidecar, { pack: "long" });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.locator(".state.here").waitFor();
  const port = page.locator(".graph-port");
  const view = () => page.locator(".graph svg").getAttribute("viewBox");
  const changed = async (before: string | null) => {
    await page.waitForFunction(
      (was) => document.querySelector(".graph svg")?.getAttribute("viewBox") !== was,
      before,
    );
    return view();
  };
  let now = await view();
  const box = await port.boundingBox();
  await page.mouse.move((box?.x ?? 0) + 200, (box?.y ?? 0) + 100);
  await page.mouse.wheel(0, 40);
  await page.waitForFunction(() => scrollY > 0);
  expect(await view()).toBe(now);
  await page.evaluate(() => scrollTo(0, 0));
  await port.focus();
  await page.mouse.wheel(0, -200);
  now = await changed(now);
  for (const key of ["+", "-", "ArrowRight", "ArrowDown", "0"]) {
    await page.keyboard.press(key);
    now = await changed(now);
  }
  await page.getByRole("button", { name: "Zoom out" }).click();
  now = await changed(now);
  await page.mouse.move((box?.x ?? 0) + 60, (box?.y ?? 0) + 80);
  await page.mouse.down();
  await page.mouse.move((box?.x ?? 0) + 160, (box?.y ?? 0) + 120, { steps: 4 });
  await page.mouse.up();
  now = await changed(now);
  await page.getByRole("button", { name: "Reset" }).click();
  await changed(now);
  expect(faults).toEqual([]);
  await close();
});

test("a forced exit is drawn as the way that was taken, the event's own edge as refused", async () => {
  const run = await Driver.start(sidecar, { pack: "self-correcting" });
  for (let i = 0; i < 3; i++) {
    await run.complete("Error", "", [text("error_summary", `reset ${i}`)]);
  }
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.locator(".state.here [data-name=give_up]").waitFor();
  const { records } = await sidecar.call<{
    records: { seq: string; transition?: { to: string } }[];
  }>("GET", `/v1/runs/${run.id}/transitions?kinds=RECORD_KIND_TRANSITION`);
  const seq = records.find((r) => r.transition?.to === "give_up")?.seq;
  await page.goto(`${sidecar.url}/ui/runs/${run.id}?seq=${seq}`);
  await page.locator(".edge.on.forced", { hasText: "limit reached" }).waitFor();
  await page.locator(".edge.refused", { hasText: "Error" }).waitFor();
  expect(await page.locator(".edge.on").count()).toBe(1);
  // Two of the three events were followed, the third was turned aside.
  await page.locator(".edge.refused .figure", { hasText: "×2" }).waitFor();
  await page.locator(".edge.forced .figure", { hasText: "×1" }).waitFor();
  expect(faults).toEqual([]);
  await close();
});
