"""A recorded model: the agents run without a key, in tests and in `pawl dev`."""

from pawl_client import Reply, Turn


def model(turn: Turn) -> Reply:
    """Answers as a model would: it asks agents, names an event, or says a text."""
    if turn.prompt == "lead":
        question = turn.messages[-1].text if turn.messages else ""
        facts = turn.step("researcher", {"message": question})
        doubts = turn.step("skeptic", {"message": question})
        return Reply(event="Ready", artifacts={"facts": facts["output"], "doubts": doubts["output"]})
    if turn.prompt == "researcher":
        return Reply(output="A ratchet turns one way only.")
    if turn.prompt == "skeptic":
        return Reply(output="Its teeth wear out.")
    return Reply(output=turn.system_prompt.strip())
