/** Model calls: what was asked, answered, failed and taken over, of real runs. */

import { readFileSync } from "node:fs";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { Endpoint } from "./endpoint";
import { example, Sidecar } from "./sidecar";
import { Driver, spoken, TOOLS } from "./world";

const PLAIN = JSON.stringify({
  id: "plain",
  name: "Plain",
  version: "1.0.0",
  template_engine: { version: "v1", syntax: "{{variable}}" },
  prompts: {
    clerk: { id: "clerk", name: "Clerk", version: "1.0.0", system_template: "Answer and leave." },
  },
  workflow: {
    version: 2,
    entry: "work",
    states: {
      work: { prompt_task: "clerk", on_event: { Done: "end" } },
      end: { prompt_task: "clerk", terminal: true },
    },
  },
});

let browser: Browser;
let sidecar: Sidecar;
let endpoint: Endpoint;
let run: Driver;

beforeAll(async () => {
  endpoint = await Endpoint.start((n) =>
    n === 0
      ? { calls: [{ id: "l0", name: "leave_state", arguments: '{"event":"Done"}' }] }
      : { text: "The key is under the mat." },
  );
  sidecar = await Sidecar.start({
    flags: ["--model", `gpt=${endpoint.url}`],
  });
  await sidecar.register(PLAIN);
  await sidecar.register(
    readFileSync(example("rfc0009-1-codegen-agent.yaml"), "utf8").replace(
      "  engine:\n",
      "  engine:\n    x_pawl: {max_steps: 9}\n",
    ),
  );
  run = await spoken(sidecar);
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
  endpoint?.stop();
});

const at = (seq: number) => `${sidecar.url}/ui/runs/${run.id}?seq=${seq}`;

test("the records of a call of a model are called so", async () => {
  const { page, faults, close } = await open(browser, at(4));
  const line = (seq: number, words: string) =>
    page.locator(`#record-${seq}`, { hasText: words }).waitFor();
  await line(5, "Model askedgpt #1, round 1");
  await line(6, "Model answergpt #1 MODEL_RATE_LIMITED");
  await line(7, "Model answergpt #1 calls read_file, run_tests");
  await line(8, "Tool callread_file #2");
  await line(10, "Model call updatedcall of a model #1: request changed");
  await line(12, "Model answergpt #3 It is written.");
  // Three steps are numbered, one is counted: that of the tool.
  await page.getByRole("button", { name: "Live" }).click();
  await page.locator(".meter[aria-label='Steps'][aria-valuetext='1 of 9']").waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("an answer shows its usage and its calls with the steps that they became", async () => {
  const { page, faults, close } = await open(browser, at(7));
  const record = page.locator(".record-view");
  await record.getByText("gpt #1, answered by gpt-5").waitFor();
  await record
    .locator("dd", { hasText: "1\u202f200 in (800 cached), 300 out (120 reasoning), $0.0042" })
    .waitFor();
  await record.locator("dd", { hasText: /^tool_calls$/ }).waitFor();
  await record.getByText("resp_4711").first().waitFor();
  const calls = record.getByRole("list", { name: "Tool calls of the answer" });
  // What is no JSON is shown as it came.
  await calls.getByText('{"test_path":"./..."', { exact: true }).waitFor();
  await calls.getByText("no step for this call").waitFor();
  await calls.getByRole("button", { name: "step #2" }).click();
  await page.getByRole("heading", { name: "#8 Tool call" }).waitFor();
  await record.getByText("the model, step #1, call 0").waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("a request is shown byte for byte, its failures with their pauses", async () => {
  const { page, faults, close } = await open(browser, at(5));
  const record = page.locator(".record-view");
  await record.getByText("5\u202f000 in, 800 out").waitFor();
  const text = (label: string) => record.getByRole("group", { name: label }).textContent();
  await record.getByRole("group", { name: "System prompt of the request" }).waitFor();
  expect(await text("System prompt of the request")).toBe("Write code.  Two spaces stay two.");
  expect(await text("Message of user")).toBe("Convert <b>Roman</b> numerals.");
  await record.getByText("Tools", { exact: true }).click();
  expect(await text("Tools of the request")).toBe(TOOLS);
  const request = await sidecar.call<{ parametersJson: string }>(
    "GET",
    `/v1/runs/${run.id}/steps/1/model`,
  );
  await record.getByText("Parameters", { exact: true }).click();
  expect(await text("Parameters of the request")).toBe(request.parametersJson);
  // Before it was answered there is no answer; what came of it stands below.
  expect(await record.getByRole("heading", { name: "Answer" }).count()).toBe(0);
  await record.getByText(/^failed: MODEL_RATE_LIMITED slow down; attempt 2 after \d/).waitFor();
  await record.getByText("request changed; the recorded answer counts").waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("a request by reference is shown with what it refers to", async () => {
  const { page, faults, close } = await open(browser, at(12));
  const messages = page.locator(".model-view .messages > li");
  await messages.nth(2).waitFor();
  expect(await messages.locator(".role").allTextContents()).toEqual([
    "user",
    "assistant",
    "tool answers c0",
  ]);
  await messages.nth(2).getByText('{"content":"package roman"}').waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("a turn lists its rounds, times tell models apart from tools", async () => {
  const { page, faults, close } = await open(browser, at(12));
  await page.getByRole("tab", { name: "Turn" }).click();
  await page.getByRole("heading", { name: "Model calls" }).waitFor();
  await page.getByRole("row", { name: /round 2 gpt answered, stop 2\s460 no price/ }).waitFor();
  await page.getByText("step 2, call 0 of the model's step 1").waitFor();
  await page.getByRole("tab", { name: "Times" }).click();
  await page.getByRole("heading", { name: "By model" }).waitFor();
  await page.getByRole("row", { name: /^gpt 2 / }).waitFor();
  await page.getByRole("row", { name: /^read_file 1 / }).waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("tokens of a model without a price have no price", async () => {
  const plain = await Driver.start(sidecar, { pack: "plain" });
  const [step] = await plain.askModel(1, { model: "gpt", messages: [] }, { outputTokens: "50" });
  const answer = { parts: [{ text: "Under the mat." }], finishReason: "stop" };
  await plain.answerModel(step, 1, { answer }, { inputTokens: "40", outputTokens: "2" });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/runs/${plain.id}`);
  const money = page.getByRole("region", { name: "Money", exact: true });
  const cost = money.locator(".ledger", { hasText: /^Cost/ });
  await cost.getByText("no price, no limit").waitFor();
  await cost.getByText("no price settled, $0.0000 reserved").waitFor();
  await money
    .locator(".ledger", { hasText: /^Tokens/ })
    .getByText("42 settled, 0 reserved")
    .waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("a copy shows what it has from its source", async () => {
  const { page, faults, close } = await open(browser, at(12));
  await page.getByRole("button", { name: "Fork from here" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Fork", exact: true }).click();
  await page.waitForFunction((id) => !location.pathname.endsWith(id), run.id);
  await page.getByRole("tab", { name: "Turn" }).click();
  const taken = page.locator("details", { hasText: "gpt #1, round 1: taken over from the source" });
  await taken.locator("summary").first().click();
  await taken.getByText("I look first.").waitFor();
  await taken.getByRole("group", { name: "System prompt of the request" }).waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("where the sidecar asks models a run may be started on it, and is executed", async () => {
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/start?pack=plain@1.0.0`);
  await page.getByText("there is none now").waitFor();
  await page.getByRole("radio", { name: /The sidecar/ }).check();
  await page.getByLabel(/^Input/).fill("Where is the key?");
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".run-title").getByText("Completed").waitFor();
  await page.getByText("executed by the sidecar").waitFor();
  await page
    .locator(".run-head details", { hasText: "Final output" })
    .getByText("The key is under the mat.")
    .first()
    .waitFor();
  await page.locator(".record", { hasText: "calls leave_state" }).click();
  const record = page.locator(".record-view");
  await record.getByText("Where is the key?").waitFor();
  await record.getByText("gpt #1, answered by scripted").waitFor();
  expect(faults).toEqual([]);
  await close();
});
