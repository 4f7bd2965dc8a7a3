"""A recorded model: the agent runs without a key, in tests and in `pawl dev`."""

import re

from pawl_client import Reply, Turn


def model(turn: Turn) -> Reply:
    """Answers as a model would: it calls tools, names an event, or says a text."""
    if turn.state == "answer":
        return Reply(output=turn.system_prompt.strip())
    if turn.state == "apologize":
        return Reply(output="I cannot find that order.")
    asked = re.search(r"\d+", turn.messages[-1].text if turn.messages else "")
    status = turn.step("order_status", {"order": asked[0]}) if asked else "unknown"
    if status == "unknown":
        return Reply(event="Unknown")
    return Reply(event="Found", artifacts={"status": status})
