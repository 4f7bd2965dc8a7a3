/** One run that this process may drive. */

import { brand } from "./brand.js";
import { type Driven, type DriveOptions, driven, startDrive } from "./drive.js";
import type { ExactHandlers } from "./exact_types.js";
import type {
  DeleteRunResponse,
  DiffRunsResponse,
  EraseRunResponse,
  VerifyRunResponse,
} from "./gen/pawl/v1/run_pb.js";
import type { Plain } from "./plain_message.js";
import type { CallOptions } from "./retry.js";
import { RunTurns } from "./run_turns.js";
import type { Handlers } from "./served_run.js";
import {
  type DiffOptions,
  deleteRun,
  diffRuns,
  eraseRun,
  exportRun,
  type ForkOptions,
  forkRun,
  verifyRun,
} from "./time_travel.js";
import type { AnyPack, PackTypes } from "./types.js";

/**
 * A run by its id, with the calls of the executor of its turns.
 *
 *     const run = await client.open("my-pack");
 *     const { turn, allowedEvents } = await run.turn();
 *     if (turn) {
 *       await run.complete(turn, { event: allowedEvents[0] });
 *     }
 */
export class Run<P extends PackTypes = AnyPack> extends RunTurns<P> {
  static {
    brand(Run, "Run");
  }

  /**
   * Executes its turns until it ends or waits for an input from outside. As
   * `PawlClient.run`, for a run that was started before, perhaps by another process; events begin
   * with the first one of the run.
   */
  drive<H extends Handlers<P> = Handlers<P>>(
    handler: H & ExactHandlers<H, P>,
    options: DriveOptions<P> = {},
  ): Driven<P> {
    const begin = async () => startDrive(this.connection, this, handler as Handlers, options);
    return driven(begin, options.onOutput);
  }

  /**
   * A copy of it, as it was at a record or is: a new run with its visits per state,
   * artifacts and messages, and totals at zero. Reasons: FORK_TERMINAL,
   * RECORD_NOT_FOUND, FORK_STATE_MISSING, FORK_ARTIFACT_MISMATCH, BAD_VARIABLES, ...
   */
  async fork(options: ForkOptions = {}): Promise<Run<P>> {
    return new Run(this.connection, await forkRun(this.connection, this.target, options));
  }

  /** What differs between two of its points, or from another run. */
  diff(options: DiffOptions = {}): Promise<Plain<DiffRunsResponse>> {
    return diffRuns(this.connection, this.target, options);
  }

  /** Proves its journal; `badSeq` names the first bad record, 0 if there is none. */
  verify(options: CallOptions = {}): Promise<Plain<VerifyRunResponse>> {
    return verifyRun(this.connection, this.target, options);
  }

  /**
   * Deletes it for ever, if it has ended; again, it says the same. From then on it is
   * RUN_DELETED to every call. Reasons: RUN_NOT_ENDED (cancel it first), RUN_NEEDED,
   * AGENT_UNTOLD.
   */
  delete(options: CallOptions = {}): Promise<Plain<DeleteRunResponse>> {
    return deleteRun(this.connection, this.target, options);
  }

  /**
   * Erases its values for ever, if it has ended and its pack says x_pawl.erasable; again, it
   * says the same. Calls that would tell a value are RUN_ERASED from then on. Reasons:
   * RUN_NOT_ENDED (cancel it first), RUN_NEEDED, RUN_NOT_ERASABLE.
   */
  erase(reason: string, options: CallOptions = {}): Promise<Plain<EraseRunResponse>> {
    return eraseRun(this.connection, this.target, reason, options);
  }

  /** The portable file of the run, for `PawlClient.importRun`. */
  exportFile(options: CallOptions = {}): Promise<Uint8Array> {
    return exportRun(this.connection, this.target, options);
  }
}
