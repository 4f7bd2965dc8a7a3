/**
 * Executes the verbs of conformance scenarios with pawl-client. Reads one request a
 * line and writes one answer a line; what is to be expected of an answer it does not
 * know.
 */

import { createInterface } from "node:readline";
import { type Args, Driver } from "./calls.js";
import { fault } from "./canon.js";
import { write } from "./lines.js";

interface Request {
  readonly id: number;
  readonly op: string;
  readonly args: Args | null;
}

async function answer(driver: Driver, { id, op, args }: Request): Promise<void> {
  try {
    const verb = driver.verbs[op];
    if (!verb) {
      throw new RangeError(`no verb ${op}`);
    }
    write({ id, result: (await verb(args ?? {})) ?? {} });
  } catch (error) {
    write({ id, error: fault(error) });
  }
}

const driver = new Driver();
const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => void answer(driver, JSON.parse(line) as Request));
lines.on("close", () => process.exit(0));
