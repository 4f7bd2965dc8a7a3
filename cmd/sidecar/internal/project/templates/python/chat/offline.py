"""A recorded model: the agent runs without a key, in tests and in `pawl dev`."""

from pawl_client import Reply, Turn


def model(turn: Turn) -> Reply:
    """Answers as a model would: an event that the state allows, or a text."""
    if turn.state == "close":
        return Reply(output="Goodbye!")
    said = turn.messages[-1].text if turn.messages else ""
    if "bye" in said.lower():
        return Reply(event="Goodbye")
    return Reply(output=f"You said: {said}")
