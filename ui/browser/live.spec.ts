import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar } from "./sidecar";
import { codegen, incident, populate } from "./world";

let browser: Browser;
let sidecar: Sidecar;

beforeAll(async () => {
  sidecar = await Sidecar.start({
    packs: [
      "rfc0009-1-codegen-agent.yaml",
      "rfc0009-3-self-correcting.json",
      "rfc0009-4-ops-remediation.yaml",
    ].map(example),
  });
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

test("the runs page shows runs, and a new one by itself", async () => {
  await populate(sidecar);
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/`);
  await page.getByText("9 runs").waitFor();
  await page.locator(".link-state.live").waitFor();
  const run = await incident(sidecar, { team: "sre" });
  const row = page.locator(`[data-run="${run.id}"]`);
  await row.getByText("await_approval").waitFor();
  await row.getByText("Waiting").waitFor();
  await page.getByText("10 runs").waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("the run page shows the state graph, the records and the artifacts, live", async () => {
  const run = await codegen(sidecar, {}, "test");
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${run.id}`);
  await page.getByTestId("state").getByText("test").waitFor();
  await page.locator(".state.here .name", { hasText: "test" }).waitFor();
  await page.getByRole("button", { name: /^commit_sha/ }).waitFor();
  await page.locator(".link-state.live").waitFor();
  await run.complete("TestsFailed", "one is red");
  await page.locator(".state.here .name", { hasText: "implement" }).waitFor();
  await page.getByRole("option", { name: /test → implement/ }).waitFor();
  expect(faults).toEqual([]);
  await close();
});
