"""A recorded model: the agent runs without a key, in tests and in `pawl dev`."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

asked = 0
"""How often the model was asked in this process."""


class RecordedModel(Model):
    """Answers as a model would: it calls a tool, and then says what the tool returned."""

    async def get_response(
        self, system_instructions: str | None, input: str | list[Any], *rest: Any, **more: Any
    ) -> ModelResponse:
        """Answers the last item of the conversation."""
        global asked
        asked += 1
        last = input if isinstance(input, str) else input[-1]
        if not isinstance(last, str) and last.get("type") == "function_call_output":
            item: Any = say(str(last["output"]))
        else:
            item = call(last if isinstance(last, str) else str(last.get("content")))
        return ModelResponse(output=[item], usage=Usage(requests=1), response_id=None)

    async def stream_response(self, *rest: Any, **more: Any) -> AsyncIterator[Any]:
        """Has no recorded stream."""
        raise NotImplementedError("the recorded model does not stream")
        yield


def say(text: str) -> ResponseOutputMessage:
    """Returns an answer of text."""
    part = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        type="message", id="m", role="assistant", status="completed", content=[part]
    )


def call(question: str) -> ResponseFunctionToolCall:
    """Returns the call of a tool that the question needs."""
    numbers = re.findall(r"\d+", question) or ["17"]
    if "refund" in question.lower():
        name, arguments = "refund", {"order": numbers[0], "amount": float(numbers[-1])}
    else:
        name, arguments = "order_status", {"order": numbers[0]}
    return ResponseFunctionToolCall(
        type="function_call", call_id="c1", name=name, arguments=json.dumps(arguments)
    )
