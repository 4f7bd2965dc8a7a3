/** Workers and what waits for them; webhooks and what was given up. */

import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { example, Sidecar } from "./sidecar";

let browser: Browser;
let sidecar: Sidecar;

beforeAll(async () => {
  sidecar = await Sidecar.start({ packs: [example("rfc0009-3-self-correcting.json")] });
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  await sidecar?.stop();
});

const RUN = "01KAMQ0000000000000000000A";

/** As ListWorkers answers; a worker's stream is gRPC, which a page's test does not speak. */
const LIST = {
  workers: [
    {
      workerId: "model-7",
      principal: "worker",
      client: "pawl-python/1.0.0",
      prompts: ["*"],
      tools: ["run_tests", "write_file"],
      turnCapacity: 8,
      stepCapacity: 4,
      heldTurns: 1,
      turns: [{ runId: RUN, turnSeq: "4", attempt: 2, since: new Date().toISOString() }],
      connectedAt: new Date().toISOString(),
      seenAt: new Date().toISOString(),
      draining: true,
      turnCounts: { taken: "40", failed: "12", lost: "1" },
      lastFailure: {
        at: new Date().toISOString(),
        runId: RUN,
        prompt: "coder",
        attempt: 2,
        error: { code: "MODEL_FAILED", message: "the endpoint answered 500" },
      },
      failingMoreThanPeers: true,
    },
  ],
  ready: [
    { pack: { id: "codegen", version: "1.0.0" }, prompt: "coder", count: 12, workers: 1 },
    { pack: { id: "codegen", version: "1.0.0" }, tool: "deploy", count: 3 },
  ],
  totalWorkers: 1,
};

test("without workers the page says so, and names the runs that wait", async () => {
  const { run } = await sidecar.call<{ run: { runId: string } }>("POST", "/v1/runs", {
    pack: "self-correcting",
    execution: "EXECUTION_WORKERS",
  });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/`);
  await page.getByRole("link", { name: "Workers" }).click();
  await page.getByText("No worker is connected").waitFor();
  const waiting = page.getByRole("region", { name: "Waiting runs" });
  await waiting.getByRole("link", { name: run.runId }).click();
  await page.locator(".run-title").getByText(run.runId).waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("workers show what they serve and hold, queues what waits and for whom", async () => {
  const { page, faults, close } = await open(browser, "about:blank");
  await page.route("**/v1/workers", (route) => route.fulfill({ json: LIST }));
  await page.goto(`${sidecar.url}/ui/workers`);
  const worker = page.getByRole("region", { name: "Connected workers" });
  await worker.getByRole("heading", { name: "model-7" }).waitFor();
  await worker.getByText("pawl-python/1.0.0, as worker").waitFor();
  await worker.getByText("run_tests, write_file").waitFor();
  await worker.getByText("1 of 8 turns, 0 of 4 steps").waitFor();
  await worker.getByText("Draining").waitFor();
  await worker.getByText("Fails more than its peers").waitFor();
  await worker.getByText("40 received, 12 failed, 1 lost").waitFor();
  const failure = worker.getByText(/Last failed .* prompt coder in/);
  await failure.getByText("MODEL_FAILED: the endpoint answered 500").waitFor();
  await failure.getByRole("link", { name: RUN }).waitFor();
  await worker.getByText("Held turns and steps").click();
  await worker.getByRole("link", { name: RUN }).last().waitFor();
  await worker.getByText(/attempt 2/).waitFor();
  const ready = page.getByRole("region", { name: "Ready work" });
  await ready.getByRole("row", { name: /prompt coder 12 1/ }).waitFor();
  await ready.getByRole("row", { name: /tool deploy 3 none serves it/ }).waitFor();
  expect(faults).toEqual([]);
  await close();
});

test("a webhook shows how it fares, and is deleted after a question", async () => {
  await sidecar.call("POST", "/v1/webhooks/audit", {
    url: "http://127.0.0.1:9/hook",
    secret: `whsec_${Buffer.alloc(24, 7).toString("base64")}`,
    fromBeginning: true,
  });
  await sidecar.call("POST", "/v1/runs", {
    pack: "self-correcting",
    execution: "EXECUTION_CALLER",
  });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/deliveries`);
  const hooks = page.getByRole("region", { name: "Webhooks" });
  await hooks.getByText("http://127.0.0.1:9/hook", { exact: true }).waitFor();
  await hooks.getByText(/attempts? failed/).waitFor();
  await hooks.getByRole("button", { name: "Delete webhook" }).click();
  await page.getByRole("button", { name: "Back" }).click();
  await hooks.getByText("http://127.0.0.1:9/hook", { exact: true }).waitFor();
  await hooks.getByRole("button", { name: "Delete webhook" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("No webhook", { exact: true }).waitFor();
  const { webhooks = [] } = await sidecar.call<{ webhooks?: unknown[] }>("GET", "/v1/webhooks");
  expect(webhooks).toEqual([]);
  expect(faults).toEqual([]);
  await close();
});

test("dead letters are read, sent again and deleted", async () => {
  // An event is given up after 17 minutes: what the sidecar would say then is said here.
  let dead = [1, 2].map((n) => ({
    n: String(n),
    at: new Date().toISOString(),
    error: `HTTP 50${n}`,
    size: "17",
    body: Buffer.from('{"hello":"there"}').toString("base64"),
  }));
  const request: [string, unknown][] = [];
  const { page, faults, close } = await open(browser, "about:blank");
  await page.route("**/v1/webhooks", (route) =>
    route.fulfill({
      json: { webhooks: [{ webhookId: "audit", url: "https://example.com/", deadLetters: "2" }] },
    }),
  );
  await page.route("**/v1/deliveries:dead?*", (route) => {
    expect(route.request().url()).toContain(
      "deliveryRef.kind=DELIVERY_KIND_WEBHOOK&deliveryRef.id=audit",
    );
    return route.fulfill({ json: { deadLetters: dead } });
  });
  await page.route(/deliveries:(resend|discard)/, (route) => {
    const body = route.request().postDataJSON() as { n: string };
    request.push([route.request().url().split(":").at(-1) ?? "", body]);
    dead = dead.filter((l) => l.n !== body.n);
    return route.fulfill({ json: {} });
  });
  await page.goto(`${sidecar.url}/ui/deliveries`);
  await page.getByText("Dead letters (2 so far)").click();
  await page.getByText("HTTP 501").waitFor();
  await page.getByText("Body of the delivery").first().click();
  await page.getByText('"hello": "there"').first().waitFor();
  await page.getByRole("button", { name: "Send again letter 1" }).click();
  await page.getByText("HTTP 501").waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Delete letter" }).click();
  await page.getByRole("button", { name: "Delete it" }).click();
  await page.getByText("All were sent again or deleted.").waitFor();
  const ref = { kind: "DELIVERY_KIND_WEBHOOK", id: "audit" };
  expect(request).toEqual([
    ["resend", { deliveryRef: ref, n: "1" }],
    ["discard", { deliveryRef: ref, n: "2" }],
  ]);
  expect(faults).toEqual([]);
  await close();
});
