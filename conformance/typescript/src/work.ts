/** A worker that plays a script. */

import type { PawlClient } from "@pawl/client";
import { fault } from "./canon.js";
import { event } from "./lines.js";
import { type Holds, Player, type Script } from "./script.js";

/** A worker under way. */
export interface Served {
  /** Drains it. */
  stop(): Promise<void>;
}

/** Begins to work; tells by an event how that ended. */
export function serve(
  client: PawlClient,
  args: Script & {
    readonly name?: string;
    readonly worker_id?: string;
    readonly packs?: readonly string[];
  },
  holds: Holds,
  ledger: string,
): Served {
  const worker = client.worker({
    workerId: args.worker_id ?? args.name,
    packs: args.packs,
    turns: args.capacity,
    steps: args.capacity,
    allowUnknown: args.allow_unknown,
    handlerTimeoutMs: args.handler_ms ?? 0,
    suspendAfterMs: args.suspend_ms ?? 0,
    drainTimeoutMs: args.drain_ms,
    onError: (error) => event("error", fault(error)),
  });
  const player = new Player(args, holds, ledger);
  for (const name of Object.keys(args.turns ?? {})) {
    worker.prompt(name, player.turn("turns", name));
  }
  for (const name of Object.keys(args.agents ?? {})) {
    worker.agent(name, player.turn("agents", name));
  }
  for (const name of Object.keys(args.tools ?? {})) {
    worker.tool(name, player.tool(name));
  }
  worker.serve().then(
    () => event("served"),
    (error: unknown) => event("served", { error: fault(error) }),
  );
  return worker;
}
