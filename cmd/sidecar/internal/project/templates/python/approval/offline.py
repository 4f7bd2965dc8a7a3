"""A recorded model: the agent runs without a key, in tests and in `pawl dev`."""

import re

from pawl_client import Reply, StepDeniedError, Turn


def model(turn: Turn) -> Reply:
    """Answers as a model would: it calls tools, names an event, or says a text."""
    if turn.terminal:
        return Reply(output=turn.system_prompt.strip())
    asked = re.findall(r"\d+", turn.messages[-1].text if turn.messages else "") or ["17", "150"]
    payload = {"order": asked[0], "amount": float(asked[-1])}
    try:
        receipt = turn.step("refund", payload)
    except StepDeniedError:
        return Reply(event="Refused")
    return Reply(event="Refunded", artifacts={"receipt": receipt})
