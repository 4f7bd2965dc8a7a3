/** The worker of my-agent: its model and its tools. `pawl dev` starts it. */

import { pathToFileURL } from "node:url";
import { PawlClient } from "pawl-client";
import { model } from "./model.js";

// Only as a program; tests import this file.
if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  using client = new PawlClient(); // PAWL_ADDR is the sidecar
  const worker = client.worker({ turns: 4, steps: 4 });
  worker.prompt("*", await model());
  await worker.run();
}
