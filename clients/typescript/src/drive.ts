/** Drives a run, and gives its events to the caller. */

import type { Connection } from "./connection.js";
import { PawlError } from "./errors.js";
import { EventReader } from "./event_reader.js";
import { follow } from "./follow.js";
import type { RunEvent } from "./run_events.js";
import type { RunReader } from "./run_reader.js";
import { type RunResult, readResult } from "./run_result.js";
import { serverOf } from "./run_server.js";
import { type Handlers, ServedRun } from "./served_run.js";
import type { Tools } from "./tools.js";
import type { AnyPack, PackTypes } from "./types.js";

/** Gets the events of a run, in order; the next one once it has resolved. */
export type OnOutput = (event: RunEvent) => void | Promise<void>;

/**
 * A run that is driven: a promise of its result, that gives its events on the way there.
 *
 *     const driven = client.run("support", modelHandler(openai("gpt-5-mini")), {
 *       input: "Where is my order?",
 *     });
 *     for await (const event of driven) {
 *       if (event.kind === "text") process.stdout.write(event.text);
 *     }
 *     const result = await driven;
 *
 * The run is driven whether or not its events are read. Who leaves the loop early gives the run
 * up: another `drive` goes on with it. What goes wrong is thrown by both.
 */
export type Driven<P extends PackTypes> = Promise<RunResult<P>> &
  AsyncIterable<RunEvent, void, undefined>;

/** Drives a run, and gives it up on request. */
export interface Drive<P extends PackTypes> {
  readonly connection: Connection;
  readonly runId: string;
  readonly result: Promise<RunResult<P>>;
  readonly giveUp: (error: unknown) => void;
}

/** How a run is driven. */
export interface DriveOptions<P extends PackTypes = AnyPack> {
  /** Executed here. */
  readonly tools?: Tools<P>;
  /** Gives the run up. */
  readonly signal?: AbortSignal;
  /** Gets every event of the run, in order; what it throws gives the run up, and is thrown. */
  readonly onOutput?: OnOutput;
}

/** Begins to drive a run. Throws a TypeError for a handler or a tool that is no function. */
export function startDrive<P extends PackTypes>(
  connection: Connection,
  run: RunReader<P>,
  handler: Handlers,
  { signal, tools = {} }: DriveOptions<P>,
): Drive<P> {
  const served = new ServedRun(run.id, handler, tools as Tools, connection.log);
  served.over.catch(() => undefined); // It may be given up before it is served.
  const serving = serverOf(connection).serve(served, signal);
  const result = serving.then(() => readResult(run, { signal }, served));
  return { connection, runId: run.id, result, giveUp: (error) => served.fail(error) };
}

/** What is driven as soon as it has begun. */
export function driven<P extends PackTypes>(
  begin: () => Promise<Drive<P>>,
  onOutput: OnOutput | undefined,
): Driven<P> {
  const started = begin();
  const result = started.then((drive) => (onOutput ? watched(drive, onOutput) : drive.result));
  const events = () => {
    result.catch(() => undefined); // It is thrown in the loop.
    return eventsOf(started);
  };
  return Object.assign(result, { [Symbol.asyncIterator]: events });
}

async function watched<P extends PackTypes>(
  drive: Drive<P>,
  onOutput: OnOutput,
): Promise<RunResult<P>> {
  for await (const event of eventsOf(Promise.resolve(drive), onOutput)) {
    void event;
  }
  return drive.result;
}

/** The events until a run is driven to its end, or waits. */
async function* eventsOf<P extends PackTypes>(
  started: Promise<Drive<P>>,
  onOutput?: OnOutput,
): AsyncGenerator<RunEvent, void, undefined> {
  const { connection, runId, result, giveUp } = await started;
  const reader = new EventReader({ namespace: connection.namespace, runId }, {});
  const end = new AbortController();
  const ended = result.then(
    ({ run: { seq } }) => {
      reader.until = seq;
    },
    () => {
      reader.until = 0;
    },
  );
  const stream = follow(connection.runs, reader, { signal: end.signal });
  let left: unknown = new PawlError("cancelled", `the events of run ${runId} were left`);
  try {
    while (!reader.over) {
      const next = stream.next();
      next.catch(() => undefined);
      const came = await either(next, ended, reader);
      if (!came || came.done) {
        break;
      }
      for (const event of came.value) {
        await onOutput?.(event);
        yield event;
      }
    }
    await result;
    left = undefined;
  } catch (error) {
    left = error;
    throw error;
  } finally {
    if (left !== undefined) {
      giveUp(left);
      await result.catch(() => undefined);
    }
    end.abort();
    await stream.return().catch(() => undefined);
  }
}

/** The next events; undefined where the run is driven to its end and they all came. */
async function either<T>(
  next: Promise<T>,
  ended: Promise<void>,
  reader: EventReader,
): Promise<T | undefined> {
  const first = await Promise.race([next, ended]);
  if (first !== undefined) {
    return first as T;
  }
  return reader.over ? undefined : next;
}
