import type { RunEvent } from "./index.js";

/** Collects the text of each turn from the events of a run, as a user would see it. */
export class Screen {
  readonly turns = new Map<number, string>();

  /** Takes the next event of a run. */
  show(event: RunEvent): void {
    if (event.kind === "text") {
      this.turns.set(event.turnSeq, (this.turns.get(event.turnSeq) ?? "") + event.text);
    } else if (event.kind === "reset") {
      // A reset voids the text of this turn only. The valid part of the text follows again.
      this.turns.set(event.turnSeq, "");
    } else if (event.kind === "wait" && event.on === "approval") {
      console.log(`${event.tool} waits for a decision about ${event.digest}`);
    } else if (event.kind === "end") {
      console.log([...this.turns.values()].filter(Boolean).join("\n"));
      console.log(event.status, event.reason);
    }
  }
}
