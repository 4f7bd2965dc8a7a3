"""A model of the OpenAI Agents SDK that gives answers by script, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

from agents import Model, ModelResponse, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseTextDeltaEvent,
)

from pawl_client._durable_openai_messages import completed, streamed

Answer = list[Any]


def text(words: str) -> ResponseOutputMessage:
    """A message of the model."""
    part = ResponseOutputText(text=words, annotations=[], type="output_text")
    return ResponseOutputMessage(
        id="msg", content=[part], role="assistant", status="completed", type="message"
    )


def call(name: str, **arguments: Any) -> ResponseFunctionToolCall:
    """A function call of the model; the model numbers it."""
    return ResponseFunctionToolCall(
        arguments=json.dumps(arguments), call_id="", name=name, type="function_call"
    )


class ScriptedModel(Model):
    """Gives the answers in order: the place is the number of answers that a request has.

    An exception of the script is raised. `asked` counts the calls, `seen` has their items.
    """

    def __init__(self, *answers: Answer | Exception) -> None:
        self.answers, self.asked = answers, 0
        self.seen: list[Any] = []
        self.settings: list[Any] = []

    def asked_for(self, answers: int) -> None:
        """Is called when the model is asked."""

    def streaming(self, answers: int) -> None:
        """Is called in the midst of a stream."""

    def _answer(self, items: Any, settings: Any) -> tuple[int, ModelResponse]:
        self.asked += 1
        self.seen.append(items)
        self.settings.append(settings)
        given = [] if isinstance(items, str) else items
        before = len({one["call_id"].split(".")[0] for one in given if "arguments" in one})
        self.asked_for(before)
        answer = self.answers[min(before, len(self.answers) - 1)]
        if isinstance(answer, Exception):
            raise answer
        output = [
            one.model_copy(update={"call_id": f"call_{id(self)}_{before}.{index}"})
            if isinstance(one, ResponseFunctionToolCall)
            else one
            for index, one in enumerate(answer)
        ]
        usage = Usage(requests=1, input_tokens=100, output_tokens=10, total_tokens=110)
        return before, ModelResponse(output=output, usage=usage, response_id=f"resp_{before}")

    async def get_response(
        self, system_instructions: Any, input: Any, model_settings: Any, *rest: Any, **more: Any
    ) -> ModelResponse:
        return self._answer(input, model_settings)[1]

    async def stream_response(
        self, system_instructions: Any, input: Any, model_settings: Any, *rest: Any, **more: Any
    ) -> AsyncIterator[Any]:
        before, response = self._answer(input, model_settings)
        for number, word in enumerate(("I", " think")):
            yield ResponseTextDeltaEvent(
                type="response.output_text.delta",
                delta=word,
                content_index=0,
                item_id="msg",
                logprobs=[],
                output_index=0,
                sequence_number=number,
            )
            self.streaming(before)
        yield completed(streamed("script", response))
