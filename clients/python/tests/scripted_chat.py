"""A chat model of LangChain that gives answers by script, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.runnables import Runnable
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import PrivateAttr
from typing_extensions import Self

USAGE: Any = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}


class ScriptedChat(BaseChatModel):
    """Gives the answers in order: the place is the number of answers that a request has.

    A text is an answer, a list of tools with arguments are calls, and an exception is raised.
    `asked` has the messages of each call.
    """

    answers: list[Any]
    model_name: str = "scripted"
    _asked: list[list[BaseMessage]] = PrivateAttr(default_factory=list)
    _options: list[dict[str, Any]] = PrivateAttr(default_factory=list)

    @classmethod
    def of(cls, *answers: Any) -> Self:
        """Returns a model with these answers."""
        return cls(answers=list(answers))

    @property
    def asked(self) -> list[list[BaseMessage]]:
        return self._asked

    @property
    def options(self) -> list[dict[str, Any]]:
        return self._options

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def asked_for(self, answers: int) -> None:
        """Is called when the model is asked."""

    def streaming(self, answers: int) -> None:
        """Is called in the midst of a stream."""

    def bind_tools(self, tools: Sequence[Any], **options: Any) -> Runnable[Any, AIMessage]:
        return self.bind(tools=[convert_to_openai_tool(tool) for tool in tools], **options)

    def _answer(self, messages: list[BaseMessage], options: dict[str, Any]) -> tuple[int, Any]:
        before = sum(isinstance(message, AIMessage) for message in messages)
        self._asked.append(messages)
        self._options.append(options)
        self.asked_for(before)
        answer = self.answers[min(before, len(self.answers) - 1)]
        if isinstance(answer, Exception):
            raise answer
        return before, answer

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> ChatResult:
        before, answer = self._answer(messages, options)
        return ChatResult(generations=[ChatGeneration(message=_message(self, before, answer))])

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **options: Any,
    ) -> Iterator[ChatGenerationChunk]:
        before, answer = self._answer(messages, options)
        message = _message(self, before, answer)
        words = str(message.content).split(" ") if message.content else []
        for index, word in enumerate(words):
            text = word if index == 0 else f" {word}"
            yield ChatGenerationChunk(message=AIMessageChunk(content=text))
            self.streaming(before)
        calls: list[Any] = [
            {"name": c["name"], "args": json.dumps(c["args"]), "id": c["id"], "index": i}
            for i, c in enumerate(message.tool_calls)
        ]
        end = AIMessageChunk(content="", tool_call_chunks=calls, usage_metadata=USAGE)
        yield ChatGenerationChunk(message=end)


def _message(model: ScriptedChat, before: int, answer: Any) -> AIMessage:
    if isinstance(answer, str):
        return AIMessage(answer, usage_metadata=USAGE)
    calls: list[Any] = [
        {"name": name, "args": arguments, "id": f"call_{id(model)}_{before}.{index}"}
        for index, (name, arguments) in enumerate(answer)
    ]
    return AIMessage("", tool_calls=calls, usage_metadata=USAGE)
