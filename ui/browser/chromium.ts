/** The Chromium of the machine, and pages of it that report their own faults. */

import { existsSync } from "node:fs";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

const PLACES = [process.env.PAWL_CHROMIUM ?? "", "/usr/bin/chromium", "/usr/bin/chromium-browser"];

/** Longest wait of every action and condition, milliseconds. */
const PATIENCE = 30_000;

export async function launch(): Promise<Browser> {
  const executablePath = PLACES.find((path) => path !== "" && existsSync(path));
  if (!executablePath) {
    throw new Error("there is no Chromium; .ci/browser-env installs it");
  }
  return chromium.launch({
    executablePath,
    args: [
      "--no-sandbox",
      "--disable-dev-shm-usage",
      "--force-color-profile=srgb",
      "--font-render-hinting=none",
    ],
    timeout: 60_000,
  });
}

export interface Watched {
  page: Page;
  /** What went wrong in the page: exceptions, errors of the console, broken policy. */
  faults: string[];
  close(): Promise<void>;
}

/** A fresh page in a context of its own. */
export async function open(
  browser: Browser,
  url: string,
  options: BrowserContextOptions = {},
): Promise<Watched> {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(`exception: ${error.message}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    if (message.type() === "error") {
      faults.push(`console: ${message.text()}`);
    }
  });
  await page.goto(url);
  return { page, faults, close: () => context.close() };
}
