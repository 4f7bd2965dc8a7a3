"""A recorded model: the agent runs without a key, in tests and in `pawl dev`."""

from pawl_client import Reply, Turn


def model(turn: Turn) -> Reply:
    """Answers as a model would: an event that the state allows, or a text."""
    if turn.state == "write":
        return Reply(event="Written", artifacts={"draft": f"This is draft {turn.visit}."})
    if turn.state == "criticize":
        if turn.visit < 2:
            return Reply(event="Weak", artifacts={"review": "Say more."})
        return Reply(event="Good")
    return Reply(output=turn.system_prompt.strip())
