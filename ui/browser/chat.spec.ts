/** The chat: messages, streamed text, held calls, lost connections, a pack that was reloaded. */

import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launch, open } from "./chromium";
import { Endpoint, type ScriptedAnswer } from "./endpoint";
import { REFUNDS } from "./refunds";
import { BINARY, Sidecar, within } from "./sidecar";
import { Driver } from "./world";

const talk = (prompt: string): string =>
  JSON.stringify({
    id: "shop",
    name: "Shop",
    version: "1.0.0",
    template_engine: { version: "v1", syntax: "{{variable}}" },
    prompts: { clerk: { id: "clerk", name: "Clerk", version: "1.0.0", system_template: prompt } },
    workflow: {
      version: 2,
      entry: "talk",
      states: {
        talk: { prompt_task: "clerk", orchestration: "hybrid", on_event: { Goodbye: "close" } },
        close: { prompt_task: "clerk", terminal: true },
      },
    },
  });

let browser: Browser;
let endpoint: Endpoint;
/** Answers the next requests to the model, in order. */
let script: ScriptedAnswer[] = [];

beforeAll(async () => {
  endpoint = await Endpoint.start(() => script.shift() ?? { text: "I have nothing to say." });
  browser = await launch();
});

afterAll(async () => {
  await browser?.close();
  endpoint?.stop();
});

const start = async (data?: string, http?: string): Promise<Sidecar> => {
  const sidecar = await Sidecar.start({
    flags: ["--model", `gpt=${endpoint.url}`],
    ...(data ? { data } : {}),
    ...(http ? { http } : {}),
  });
  return sidecar;
};

test("a message starts a run, the text streams in, a reload in between loses nothing", async () => {
  const sidecar = await start();
  await sidecar.register(talk("Answer."));
  let say: (text: string) => void = () => undefined;
  const rest = new Promise<string>((resolve) => {
    say = resolve;
  });
  script = [{ text: "It is under ", rest }, { text: "Yes, a red one." }];
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/chat`);
  const field = page.getByRole("textbox", { name: "Message" });
  const log = page.getByRole("log", { name: "Conversation" });
  await page.getByText("Enter sends").waitFor();
  await page.getByRole("button", { name: "What can you do?" }).click();
  expect(await field.inputValue()).toBe("What can you do?");
  await field.fill("Where is");
  await field.press("Shift+Enter");
  await field.pressSequentially("the key?");
  await field.press("Enter");
  await log.getByText("Where is\nthe key?").waitFor();
  await log.locator("[aria-busy=true]", { hasText: "It is under" }).waitFor();
  await page.getByText("Writing…").waitFor();
  await page.reload();
  await log.locator("[aria-busy=true]", { hasText: "It is under" }).waitFor();
  say("the mat.");
  await log.locator("[aria-busy=false]", { hasText: "It is under the mat." }).waitFor();
  await page.getByText("Waiting for your message.").waitFor();
  expect(await log.getByText("It is under").count()).toBe(1);
  // The same run gets the next message.
  const { pathname } = new URL(page.url());
  expect(await field.evaluate((e) => e === document.activeElement)).toBe(true);
  await field.fill("Is there a mat?");
  await page.getByRole("button", { name: "Send" }).click();
  await log.getByText("Yes, a red one.").waitFor();
  expect(new URL(page.url()).pathname).toBe(pathname);
  // An event from outside ends it; a further message then starts another run.
  script = [{ text: "Goodbye!" }, { text: "Here again." }];
  await page.getByRole("button", { name: "Goodbye" }).click();
  await page
    .getByRole("dialog")
    .getByRole("button", { name: /^Send|Emit|Goodbye/ })
    .last()
    .click();
  await log.getByText("Goodbye!").waitFor();
  await page.getByText("The run has completed. A message starts a new one.").waitFor();
  await field.fill("And now?");
  await field.press("Enter");
  await log.getByText("Here again.").waitFor();
  expect(new URL(page.url()).pathname).not.toBe(pathname);
  expect(faults).toEqual([]);
  await close();
  await sidecar.stop();
});

test("a held call is denied in the chat, and the model says what follows", async () => {
  const sidecar = await start();
  await sidecar.register(REFUNDS);
  script = [
    { text: "", calls: [{ id: "c0", name: "refund", arguments: '{"order":"o-17"}' }] },
    { text: "The refund was declined." },
  ];
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/chat?pack=refunds`);
  const log = page.getByRole("log", { name: "Conversation" });
  await page.getByRole("textbox", { name: "Message" }).fill("Refund o-17, please.");
  await page.keyboard.press("Enter");
  const call = log.getByRole("region", { name: "Tool call refund #2" });
  await call.getByText("o-17").waitFor();
  await page.getByText("A call needs your decision.").waitFor();
  await call.getByRole("button", { name: "Deny…" }).click();
  await page
    .getByRole("dialog")
    .getByLabel(/^Reason/)
    .fill("too late");
  await page.getByRole("dialog").getByRole("button", { name: "Deny the call" }).click();
  await call.getByText("denied (too late), not made").waitFor();
  await log.getByText("The refund was declined.").waitFor();
  expect(faults).toEqual([]);
  await close();
  await sidecar.stop();
});

test("a held call is approved in the chat, is made, and the run ends", async () => {
  const sidecar = await start();
  await sidecar.register(REFUNDS);
  const run = await Driver.start(sidecar, { pack: "refunds", input: [{ text: "Refund o-18." }] });
  await run.ask("refund", { order: "o-18" });
  const { page, faults, close } = await open(browser, `${sidecar.url}/ui/chat/${run.id}`);
  const call = page.getByRole("region", { name: "Tool call refund #1" });
  await call.getByText("needs your decision").waitFor();
  await call.getByRole("button", { name: "Approve" }).click();
  await call.getByText("approved, waits for its result").waitFor();
  await run.answer(1, "refund", { paid: 18 });
  await call.getByText("approved, done").waitFor();
  await call.getByText("Result").click();
  await call.getByText('"paid": 18').waitFor();
  await run.complete("", "It is paid.");
  await page.getByText("The run has completed. A message starts a new one.").waitFor();
  await page.getByRole("log").getByText("It is paid.").waitFor();
  expect(faults).toEqual([]);
  await close();
  await sidecar.stop();
});

test("a sidecar that goes away and comes back: the text is kept and the chat goes on", async () => {
  const first = await start();
  await first.register(talk("Answer."));
  script = [{ text: "Good day." }];
  const { page, close } = await open(browser, `${first.url}/ui/chat`);
  const field = page.getByRole("textbox", { name: "Message" });
  const log = page.getByRole("log", { name: "Conversation" });
  await field.fill("Hello");
  await field.press("Enter");
  await log.getByText("Good day.").waitFor();
  await page.getByText("Waiting for your message.").waitFor();
  await first.kill();
  await page.getByText("The page connects again by itself.").waitFor();
  await field.fill("Are you there?");
  await field.press("Enter");
  await page.getByRole("alert").getByText("Your message is kept").waitFor();
  const second = await start(first.data, new URL(first.url).host);
  script = [{ text: "Here I am." }];
  await page.getByText("Waiting for your message.").waitFor();
  expect(await field.inputValue()).toBe("Are you there?");
  await field.press("Enter");
  await log.getByText("Here I am.").waitFor();
  expect(await log.getByText("Are you there?").count()).toBe(1);
  await close();
  await second.stop();
  await first.stop();
});

test("errors are in plain words: a model that refuses its key, a pack without a worker", async () => {
  const sidecar = await Sidecar.start({ flags: ["--model", `gpt=${endpoint.url}/nowhere`] });
  await sidecar.register(talk("Answer."));
  script = [{ status: 401 }];
  const { page, close } = await open(browser, `${sidecar.url}/ui/chat`);
  await page.getByRole("textbox", { name: "Message" }).fill("Hello");
  await page.keyboard.press("Enter");
  await page.getByText("Set the model's key").waitFor();
  await page.getByRole("region", { name: "Why the run ended" }).waitFor();
  await close();
  await sidecar.stop();
  const alone = await Sidecar.start();
  await alone.register(talk("Answer."));
  const second = await open(browser, `${alone.url}/ui/chat`);
  await second.page.getByRole("textbox", { name: "Message" }).fill("Hello");
  await second.page.keyboard.press("Enter");
  await second.page.getByText(/no worker is connected\. Start your app/).waitFor();
  await second.close();
  await alone.stop();
});

/** A session of `pawl dev`, and what it prints. */
class Session {
  private text = "";
  private constructor(private readonly process: ChildProcess) {}

  static start(pack: string): Session {
    const local = ["--temporary", "--no-app", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    const model = ["--model", `gpt=${endpoint.url}`];
    const session = new Session(
      spawn(BINARY, ["dev", pack, ...local, ...model], { stdio: ["ignore", "pipe", "inherit"] }),
    );
    const { stdout } = session.process;
    if (stdout) {
      createInterface({ input: stdout }).on("line", (line) => {
        session.text += `${line}\n`;
        session.process.emit("said");
      });
    }
    return session;
  }

  /** Waits for a line; returns its first group. */
  async line(words: RegExp): Promise<string> {
    for (;;) {
      const found = words.exec(this.text);
      if (found) {
        return found[1] ?? "";
      }
      await within(once(this.process, "said"), 30_000, `no ${words} in ${this.text}`);
    }
  }

  async stop(): Promise<void> {
    const gone = once(this.process, "exit");
    this.process.kill("SIGTERM");
    await within(gone, 20_000, "pawl dev does not end");
  }
}

test("pawl dev: a saved pack is noticed, and one click forks the run that waits", async () => {
  const dir = mkdtempSync(join(tmpdir(), "pawl-chat-"));
  const pack = join(dir, "shop.pack.json");
  writeFileSync(pack, talk("Answer."));
  const session = Session.start(pack);
  const address = await session.line(/chat with your agent at (\S+)/);
  const { page, faults, close } = await open(browser, address);
  script = [{ text: "Good day." }];
  await page.getByRole("textbox", { name: "Message" }).fill("Hello");
  await page.keyboard.press("Enter");
  const log = page.getByRole("log", { name: "Conversation" });
  await log.getByText("Good day.").waitFor();
  await page.getByText("Waiting for your message.").waitFor();
  const run = page.url().split("/").at(-1) ?? "";
  writeFileSync(pack, talk("Answer like a pirate."));
  const named = await session.line(/a run uses an older version of shop; fork it .* at (\S+)/);
  expect(named).toBe(`${address}/${run}`);
  await page.getByText("This run uses an older version of the pack.").waitFor();
  await page.getByRole("button", { name: "Fork onto the newest version" }).click();
  await log.getByText("A fork goes on from here.").waitFor();
  await log.getByText("Good day.").waitFor();
  script = [{ text: "Arr." }];
  await page.getByRole("textbox", { name: "Message" }).fill("And now?");
  await page.keyboard.press("Enter");
  await log.getByText("Arr.").waitFor();
  expect(await page.getByText("uses an older version").count()).toBe(0);
  // The page of the source offers the same.
  await page.goto(address.replace("/chat", `/runs/${run}`));
  await page.getByRole("button", { name: "Fork onto the newest version" }).waitFor();
  expect(faults).toEqual([]);
  await close();
  await session.stop();
  rmSync(dir, { recursive: true });
});
