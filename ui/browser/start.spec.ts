/** Starting a run: its fields follow the pack, and so do the faults. */

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar } from "./sidecar";

const TYPED = JSON.stringify({
  id: "typed",
  name: "Typed",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: {
    worker: {
      id: "worker",
      name: "Worker",
      version: "1.0.0",
      system_template: "{{goal}} {{tries}} {{strict}} {{files}}",
      variables: [
        { name: "goal", type: "string", required: true, description: "What is to be done" },
        { name: "tries", type: "number", required: false, validation: { maximum: 9 } },
        { name: "strict", type: "boolean", required: false, default: true },
        { name: "files", type: "array", required: false },
      ],
    },
  },
  agents: { entry: "worker", members: { worker: { description: "Works" } } },
  workflow: {
    version: 2,
    entry: "work",
    states: {
      work: { prompt_task: "worker", on_event: { Done: "end" } },
      end: { prompt_task: "worker", terminal: true },
    },
  },
});

let browser: Browser;
let sidecar: Sidecar;

beforeAll(async () => {
  sidecar = await Sidecar.start({ packs: [example("rfc0009-1-codegen-agent.yaml")] });
  await sidecar.register(TYPED);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

test("a run is started with variables of their types, input, labels and an id of one's own", async () => {
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/`);
  await page.getByRole("link", { name: "Start a run" }).click();
  await page.getByLabel("Pack").selectOption("typed@1.0.0");
  await page.getByLabel(/^goal/).waitFor();
  await page.getByText("there is none now").waitFor();
  await page.getByText("This page cannot").waitFor();
  // Faults stand at their fields, before anything is sent.
  await page.getByLabel(/^tries/).fill("many");
  await page.getByLabel(/^files/).fill("{}");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.getByText("is required").waitFor();
  await page.getByText("must be a number").waitFor();
  await page.getByText("must be a list").waitFor();
  expect(await page.getByLabel(/^goal/).getAttribute("aria-invalid")).toBe("true");
  await page.getByLabel(/^goal/).fill("Convert <b>numerals</b>");
  await page.getByLabel(/^tries/).fill("3");
  await page.getByLabel(/^strict/).selectOption("false");
  await page.getByLabel(/^files/).fill('["a.go", "b.go"]');
  await page.getByLabel(/^Input/).fill("Please begin.");
  await page.getByLabel(/^Labels/).fill("team=payments\nticket=PAY-1");
  await page.getByLabel(/^Request id/).fill("order-4711");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".run-title").waitFor();
  const id = page.url().split("/").at(-1) ?? "";
  const got = await sidecar.call<{
    run: { labels: Record<string, string>; execution: string };
    variablesJson: string;
  }>("GET", `/v1/runs/${id}?includeVariables=true`);
  expect(JSON.parse(got.variablesJson)).toEqual({
    goal: "Convert <b>numerals</b>",
    tries: 3,
    strict: false,
    files: ["a.go", "b.go"],
  });
  expect(got.run.labels).toMatchObject({ team: "payments", ticket: "PAY-1" });
  expect(got.run.execution).toBe("EXECUTION_WORKERS");
  // The header has what it was given.
  await page.locator(".side", { hasText: "Please begin." }).waitFor();
  await page.getByRole("link", { name: "ticket=PAY-1" }).waitFor();
  // The same id with another body is another run's: it is told at its field.
  await page.goto(`${sidecar.url}/ui/start?pack=typed@1.0.0`);
  await page.getByLabel(/^goal/).fill("Something else");
  await page.getByLabel(/^Request id/).fill("order-4711");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".field", { hasText: "Request id" }).getByText("ID_REUSED").waitFor();
  expect(faults.filter((f) => !f.includes("Failed to load resource"))).toEqual([]);
  await close();
});

test("what only the sidecar can judge stands at its field too", async () => {
  const { page, close } = await open(browser, `${sidecar.url}/ui/start?pack=typed@1.0.0`);
  await page.getByLabel(/^goal/).fill("x");
  await page.getByLabel(/^tries/).fill("12");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".field", { hasText: "tries" }).getByText(/9/).waitFor();
  expect(await page.getByLabel(/^tries/).inputValue()).toBe("12");
  await page.getByLabel(/^tries/).fill("9");
  await page.getByLabel("Entry").selectOption("agent worker");
  await page.getByRole("radio", { name: /Its caller/ }).check();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".run-title").waitFor();
  await page.getByText("agent worker").waitFor();
  await page.getByText("executed by its caller").waitFor();
  await close();
});
