import type { Browser, CDPSession, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar } from "./sidecar";
import { Driver, populate, text } from "./world";

/** Runs and records of the large tests; the figures of docs/operations/web-page.md are with 100 000 and 20 000. */
const RUNS = Number(process.env.PAWL_UI_RUNS ?? 1_500);
const RECORDS = Number(process.env.PAWL_UI_RECORDS ?? 1_200);
/** Calls that are under way at once while the large tests are set up. */
const LANES = 16;

let browser: Browser;
let small: Sidecar;
let large: Sidecar;

beforeAll(async () => {
  const packs = [
    "rfc0009-1-codegen-agent.yaml",
    "rfc0009-3-self-correcting.json",
    "rfc0009-4-ops-remediation.yaml",
  ].map(example);
  small = await Sidecar.start({ packs });
  large = await Sidecar.start({ packs });
  await populate(small);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await small?.stop();
  await large?.stop();
});

const footnote = (page: Page, words: string) =>
  page.locator(".foot").getByText(words, { exact: true }).waitFor();

test("filters by status, pack, state, reason, label and time", async () => {
  const { page, faults, close } = await open(browser, `${small.url}/ui/`);
  await footnote(page, "9 runs");
  await page.getByRole("button", { name: "Waiting 1" }).click();
  await footnote(page, "1 runs");
  expect(page.url()).toContain("status=WAITING");
  await page.getByRole("button", { name: "All 9" }).click();
  await page.getByLabel("Pack").selectOption("codegen-agent");
  await footnote(page, "5 runs");
  await page.getByLabel("State").fill("review");
  await page.keyboard.press("Enter");
  await footnote(page, "1 runs");
  await page.getByLabel("State").fill("");
  await page.getByLabel("Reason").fill("cancelled");
  await page.keyboard.press("Enter");
  await footnote(page, "1 runs");
  await page.getByLabel("Reason").fill("");
  await page.getByLabel("Label").fill("team=search");
  await page.keyboard.press("Enter");
  await footnote(page, "2 runs");
  await page.getByLabel("Started").selectOption("the last hour");
  await footnote(page, "2 runs");
  await page.getByLabel("Label").fill("team=nobody");
  await page.keyboard.press("Enter");
  await page.getByText("No run matches").waitFor();
  await page.getByRole("button", { name: "Clear the filters" }).click();
  await footnote(page, "9 runs");
  expect(faults).toEqual([]);
  await close();
});

test("an id is shown with its middle left out, copied whole, and found by any of its forms", async () => {
  const { page, faults, close } = await open(browser, `${large.url}/ui/`, {
    permissions: ["clipboard-read", "clipboard-write"],
  });
  // More runs than one page of the list has: the one that is looked for is the oldest.
  const old = await Driver.start(large, { pack: "self-correcting", labels: { find: "me-now" } });
  await inLanes(520, async () => {
    await large.call("POST", "/v1/runs", {
      pack: "self-correcting",
      execution: "EXECUTION_CALLER",
    });
  });
  await page.reload();
  await page.locator("[data-index='0']").waitFor();
  const row = page.locator("[data-index='0']");
  const id = (await row.getAttribute("data-run")) ?? "";
  expect(await row.locator(".run-id").innerText()).toBe(id);
  expect(await row.locator(".run-id").getAttribute("title")).toBe(id);
  // What the eye sees is short: the middle takes the room of one letter.
  const seen = await row.locator(".run-id").boundingBox();
  const middle = await row.locator(".run-id-middle").boundingBox();
  expect((middle?.width ?? 99) * 12).toBeLessThan(seen?.width ?? 0);
  await row.hover();
  await row.getByRole("button", { name: `Copy id ${id}` }).click();
  await row.locator("[data-done=copied]").waitFor();
  expect(await page.evaluate(() => navigator.clipboard.readText())).toBe(id);
  const search = page.getByLabel("Search");
  const found = async (text: string) => {
    await search.fill(text);
    await page.locator(`[data-run="${old.id}"]`).waitFor();
    await search.fill("");
    await page.locator(`[data-run="${id}"]`).waitFor();
  };
  await page.locator(`[data-run="${old.id}"]`).waitFor({ state: "detached" });
  await found(old.id);
  await found(old.id.slice(0, 20).toLowerCase());
  await found(`${old.id.slice(0, 10)}…${old.id.slice(-6)}`);
  await found("find=me-now");
  await search.fill(old.id);
  await page.keyboard.press("Enter");
  await page.locator(".run-title").getByText(old.id).waitFor();
  expect(faults).toEqual([]);
  await close();
}, 120_000);

test("search and keyboard: / searches, arrows go through the rows, Enter opens", async () => {
  const { page, faults, close } = await open(browser, `${small.url}/ui/`);
  await footnote(page, "9 runs");
  await page.keyboard.press("/");
  await page.keyboard.type("team=data");
  await footnote(page, "2 found in 9 runs");
  await page.getByLabel("Search").fill("");
  await footnote(page, "9 runs");
  const links = page.locator("[data-run] a");
  await links.first().focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("j");
  const third = await page.locator("[data-index='2'] a").getAttribute("href");
  await page.locator("[data-index='2'] a:focus").waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".run-title").waitFor();
  expect(page.url()).toContain(third);
  expect(faults).toEqual([]);
  await close();
});

test("a list that cannot be read says why, and is asked for once", async () => {
  const { page, close } = await open(browser, `${small.url}/ui/?status=NOPE`);
  let prompt = 0;
  page.on("request", (request) => {
    prompt += request.url().includes("/v1/runs?") ? 1 : 0;
  });
  await page.getByText("The request failed").waitFor();
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("The request failed").waitFor();
  expect(prompt).toBeLessThanOrEqual(2);
  await close();
});

test(`${RUNS} runs: pages of the server, rows that exist only while they are seen`, async () => {
  const { counts } = await large.call<{ counts: { runs?: string }[] }>("GET", "/v1/runs:count");
  const there = counts.reduce((n, c) => n + Number(c.runs ?? 0), 0);
  await inLanes(RUNS - there, async (i) => {
    await large.call("POST", "/v1/runs", {
      pack: "self-correcting",
      execution: "EXECUTION_CALLER",
      labels: { n: String(i % 10) },
    });
  });
  const { page, faults, close } = await open(browser, `${large.url}/ui/`);
  await page.locator("[data-index='0']").waitFor();
  await page.getByText(`All ${figure(RUNS)}`).waitFor();
  const cpu = await page.context().newCDPSession(page);
  await cpu.send("Performance.enable", { timeDomain: "threadTicks" });
  const before = await busy(cpu);
  const frames = await scroll(page);
  console.log(
    `scrolling ${RUNS} runs: p50 ${at(frames, 0.5)} ms, p95 ${at(frames, 0.95)} ms of ${frames.length} frames`,
  );
  const work = ((await busy(cpu)) - before) / frames.length;
  // Whatever else the machine does: what one frame costs the page's own thread.
  console.log(`processor time of the page's thread: at most ${work.toFixed(1)} ms a frame`);
  expect(await page.locator("[data-run]").count()).toBeLessThan(100);
  await page.locator(`[data-index='${RUNS - 1}']`).waitFor();
  await footnote(page, `${figure(RUNS)} runs`);
  expect(faults).toEqual([]);
  await close();
}, 600_000);

/** Processor milliseconds that the tasks of the page have taken. */
async function busy(cpu: CDPSession): Promise<number> {
  const { metrics } = await cpu.send("Performance.getMetrics");
  return 1000 * (metrics.find((m) => m.name === "TaskDuration")?.value ?? 0);
}

/** Scrolls to the end; gives the times between the first frames, sorted. */
function scroll(page: Page): Promise<number[]> {
  return page.evaluate(
    () =>
      new Promise<number[]>((resolve, reject) => {
        const box = document.querySelector(".tbody");
        const MEASURED = 240;
        const times: number[] = [];
        const begin = performance.now();
        let last = begin;
        let rest = 0;
        const frame = (now: number) => {
          times.push(now - last);
          last = now;
          const before = box?.scrollTop ?? 0;
          // A fast wheel while it is measured, then on to the end.
          box?.scrollBy(0, times.length < MEASURED ? 600 : 20_000);
          // At the end of what was read the next page is awaited.
          rest = box?.scrollTop === before ? rest + 1 : 0;
          const done =
            rest > 5 && !document.querySelector(".foot")?.textContent?.includes("loaded");
          if (done) {
            resolve(times.slice(1, MEASURED).sort((a, b) => a - b));
          } else if (now - begin > 240_000) {
            reject(
              new Error(`the end is not reached: ${document.querySelector(".foot")?.textContent}`),
            );
          } else {
            requestAnimationFrame(frame);
          }
        };
        requestAnimationFrame(frame);
      }),
  );
}

test(`a run of ${RECORDS} records opens at its end, and any record is a link`, async () => {
  const run = await Driver.start(large, {
    pack: "ops-remediation",
    variablesJson: '{"alert_description":"x"}',
  });
  await run.complete("DiagnosisReady", "", [text("diagnosis", "first")]);
  await run.complete("FixProposed", "");
  for (let i = 0; i < RECORDS; i++) {
    await run.post("/artifacts", { artifacts: [text("diagnosis", `finding ${i}`)] });
  }
  const begin = performance.now();
  const { page, faults, close } = await open(browser, `${large.url}/ui/runs/${run.id}`);
  await page
    .getByText(`finding ${RECORDS - 1}`)
    .first()
    .waitFor();
  await page.locator(".graph svg").waitFor();
  console.log(
    `opening a run of ${RECORDS} records in a fresh browser: ${Math.round(performance.now() - begin)} ms`,
  );
  const inside = await page.evaluate(() => performance.now());
  console.log(`of it in the page: ${Math.round(inside)} ms`);
  const middle = Math.round(RECORDS / 2);
  await page.goto(`${large.url}/ui/runs/${run.id}?seq=${middle}`);
  await page.locator(`#record-${middle}[aria-selected=true]`).waitFor();
  await page.getByRole("heading", { name: new RegExp(`^#${middle} `) }).waitFor();
  await page
    .getByText(`finding ${middle - 6}`)
    .first()
    .waitFor();
  // The slider and its neighbours move everything along.
  await page.getByRole("button", { name: "Next record" }).click();
  await page.getByRole("heading", { name: new RegExp(`^#${middle + 1} `) }).waitFor();
  await page
    .getByText(`finding ${middle - 5}`)
    .first()
    .waitFor();
  await page.getByRole("slider", { name: "Record" }).focus();
  await page.keyboard.press("Home");
  await page.getByRole("heading", { name: "#1 Transition" }).waitFor();
  await page.getByTestId("state").getByText("diagnose").waitFor();
  await page.getByText("Nothing written yet").waitFor();
  expect(page.url()).toContain("seq=1");
  expect(faults).toEqual([]);
  await close();
}, 600_000);

async function inLanes(n: number, work: (i: number) => Promise<void>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < n) {
      await work(next++);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}

const figure = (n: number): string =>
  new Intl.NumberFormat("en").format(n).replaceAll(",", "\u202f");
const at = (sorted: number[], share: number): string =>
  (sorted[Math.floor(sorted.length * share)] ?? 0).toFixed(1);
