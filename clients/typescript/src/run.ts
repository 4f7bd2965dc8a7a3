/** A run that this process can drive. */

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
 * A run by its id, with the calls that execute its turns.
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
   * Executes the turns of the run until it ends or waits for an outside input. As `PawlClient.run`,
   * but for a run that exists already, perhaps started by another process. Its events begin with
   * the first event of the run.
   */
  drive<H extends Handlers<P> = Handlers<P>>(
    handler: H & ExactHandlers<H, P>,
    options: DriveOptions<P> = {},
  ): Driven<P> {
    const begin = async () => startDrive(this.connection, this, handler as Handlers, options);
    return driven(begin, options.onOutput);
  }

  /**
   * Copies the run as it is, or as it was at a record, into a new run. The copy has the visits per
   * state, artifacts and messages; its totals are zero. Reasons: FORK_TERMINAL, RECORD_NOT_FOUND,
   * FORK_STATE_MISSING, FORK_ARTIFACT_MISMATCH, BAD_VARIABLES, ...
   */
  async fork(options: ForkOptions = {}): Promise<Run<P>> {
    return new Run(this.connection, await forkRun(this.connection, this.target, options));
  }

  /** Compares two records of the run, or a record of it with one of another run. */
  diff(options: DiffOptions = {}): Promise<Plain<DiffRunsResponse>> {
    return diffRuns(this.connection, this.target, options);
  }

  /**
   * Verifies the run's journal. `badSeq` is the seq of the first invalid record, 0 if all are
   * valid.
   */
  verify(options: CallOptions = {}): Promise<Plain<VerifyRunResponse>> {
    return verifyRun(this.connection, this.target, options);
  }

  /**
   * Deletes a run that has ended. This cannot be undone; a repeated call returns the same answer,
   * and every other call then fails with RUN_DELETED. Reasons: RUN_NOT_ENDED (cancel it first),
   * RUN_NEEDED, AGENT_UNTOLD.
   */
  delete(options: CallOptions = {}): Promise<Plain<DeleteRunResponse>> {
    return deleteRun(this.connection, this.target, options);
  }

  /**
   * Erases the values of a run that has ended, if its pack sets x_pawl.erasable. This cannot be
   * undone; a repeated call returns the same answer, and calls that read a value then fail with
   * RUN_ERASED. Reasons: RUN_NOT_ENDED (cancel it first), RUN_NEEDED, RUN_NOT_ERASABLE.
   */
  erase(reason: string, options: CallOptions = {}): Promise<Plain<EraseRunResponse>> {
    return eraseRun(this.connection, this.target, reason, options);
  }

  /** Returns the run as a portable file, for `PawlClient.importRun`. */
  exportFile(options: CallOptions = {}): Promise<Uint8Array> {
    return exportRun(this.connection, this.target, options);
  }
}
