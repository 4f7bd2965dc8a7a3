from pawl_client import Event


class Screen:
    """What was said, turn by turn, as it is said."""

    def __init__(self) -> None:
        self.turns: dict[int, str] = {}

    def show(self, event: Event) -> None:
        """Takes the next event of a run."""
        if event.kind == "text":
            self.turns[event.turn_seq] = self.turns.get(event.turn_seq, "") + event.text
        elif event.kind == "reset":
            # Of this turn alone: the others stay. What is left of it comes again.
            self.turns[event.turn_seq] = ""
        elif event.kind == "wait" and event.on == "approval":
            print(f"{event.tool} waits for a decision about {event.digest}")
        elif event.kind == "end":
            print("\n".join(text for text in self.turns.values() if text))
            print(event.status, event.reason)
