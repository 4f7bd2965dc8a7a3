/** All work that a worker holds. */

import type { MessageInitShape } from "@bufbuild/protobuf";
import { durationMs } from "@bufbuild/protobuf/wkt";
import type {
  Revocation,
  StepAnswers,
  StepLease,
  TurnLease,
  WorkerRegistered,
  WorkerRegistrationSchema,
} from "./gen/pawl/v1/worker_pb.js";
import type { LeasedStep } from "./leased_step.js";
import type { LeasedTurn } from "./leased_turn.js";

/**
 * Whether two leases are of one delivery of a turn. The next delivery may arrive before the receipt
 * that ends the previous one; the worker then holds both.
 */
function sameDelivery(a: TurnLease, b: TurnLease): boolean {
  return (
    a.runId === b.runId &&
    a.turnSeq === b.turnSeq &&
    a.attempt === b.attempt &&
    a.delivery === b.delivery
  );
}

/** Whether two leases are of one attempt of a step. */
function sameAttempt(a: StepLease, b: StepLease): boolean {
  return a.runId === b.runId && a.step === b.step && a.attempt === b.attempt;
}

/** The turns and steps that a worker executes now. */
export class Leases {
  readonly turns = new Set<LeasedTurn>();
  readonly steps = new Set<LeasedStep>();

  /** Removes one piece of work and aborts its handler. */
  drop(held: LeasedTurn | LeasedStep): void {
    this.turns.delete(held as LeasedTurn);
    this.steps.delete(held as LeasedStep);
    held.lose();
  }

  /** Returns the leases that a registration names. */
  leases(): Pick<MessageInitShape<typeof WorkerRegistrationSchema>, "heldTurns" | "heldSteps"> {
    return {
      heldTurns: [...this.turns].map(({ lease, requests: request }) => ({
        ...lease,
        stepRequests: request,
      })),
      heldSteps: [...this.steps].map(({ lease }) => lease),
    };
  }

  /** Keeps the work that the sidecar confirmed, and stops the rest. */
  keep({ keptTurns, keptSteps }: WorkerRegistered): void {
    for (const held of this.turns) {
      const kept = keptTurns.find((lease) => sameDelivery(lease, held.lease));
      held.lease = kept ?? held.lease;
      if (!kept) {
        held.lose();
      }
    }
    for (const held of this.steps) {
      const kept = keptSteps.find((lease) => sameAttempt(lease, held.lease));
      held.lease = kept ?? held.lease;
      if (!kept) {
        held.lose();
      }
    }
  }

  /** Stops revoked work. */
  revoke({ work, cause }: Revocation): void {
    for (const held of work.case === "turn" ? this.turns : this.steps) {
      if (held.lease.token === work.value?.token) {
        held.lose(cause);
      }
    }
  }

  /** Stops the turns whose leases a heartbeat did not extend. */
  lost(tokens: readonly string[]): void {
    for (const held of this.turns) {
      if (tokens.includes(held.lease.token)) {
        held.lose();
      }
    }
  }

  /** Passes answers to steps on to their turn. */
  answered(answers: StepAnswers): void {
    for (const held of this.turns) {
      if (held.lease.runId === answers.runId && held.lease.turnSeq === answers.turnSeq) {
        held.answered(answers);
      }
    }
  }

  /**
   * Stops the turns of an abandoned run. `stopsTools` asks its tools to stop; the worker still
   * reports their results.
   */
  giveUp(runId: string, why: unknown, stopsTools: boolean): void {
    for (const held of this.turns) {
      if (held.lease.runId === runId) {
        held.revoke(() => why);
      }
    }
    for (const held of this.steps) {
      if (held.lease.runId === runId && stopsTools) {
        held.stop(why);
      }
    }
  }

  /** As `giveUp`, for all runs. */
  giveUpAll(why: unknown): void {
    for (const held of this.turns) {
      held.revoke(() => why);
    }
    for (const held of this.steps) {
      held.stop(why);
    }
  }

  /** Stops all work. */
  revokeAll(): void {
    for (const held of [...this.turns, ...this.steps]) {
      held.lose();
    }
  }

  /** Returns the shortest lease in milliseconds. Undefined means that no lease ends by time. */
  shortestLeaseMs(): number | undefined {
    const all = [...this.turns].map(({ lease }) =>
      lease.duration ? durationMs(lease.duration) : 0,
    );
    const bounded = all.filter((ms) => ms > 0);
    return bounded.length > 0 ? Math.min(...bounded) : undefined;
  }
}
