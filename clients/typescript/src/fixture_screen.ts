import type { RunEvent } from "./index.js";

/** What was said, turn by turn, as it is said. */
export class Screen {
  readonly turns = new Map<number, string>();

  /** Takes the next event of a run. */
  show(event: RunEvent): void {
    if (event.kind === "text") {
      this.turns.set(event.turnSeq, (this.turns.get(event.turnSeq) ?? "") + event.text);
    } else if (event.kind === "reset") {
      // Of this turn alone: the others stay. What is left of it comes again.
      this.turns.set(event.turnSeq, "");
    } else if (event.kind === "wait" && event.on === "approval") {
      console.log(`${event.tool} waits for a decision about ${event.digest}`);
    } else if (event.kind === "end") {
      console.log([...this.turns.values()].filter(Boolean).join("\n"));
      console.log(event.status, event.reason);
    }
  }
}
