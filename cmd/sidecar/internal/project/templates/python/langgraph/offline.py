"""A recorded model: the graph runs without a key, in tests and in `pawl dev`."""

import re
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult

asked = 0
"""How often the model was asked in this process."""


class RecordedModel(BaseChatModel):
    """Answers as a model would: it calls a tool, and then says what the tool returned."""

    @property
    def _llm_type(self) -> str:
        return "recorded"

    def bind_tools(self, tools: Any, **options: Any) -> Any:
        """Knows the tools already."""
        return self.bind(**options)

    def _generate(
        self, messages: list[BaseMessage], stop: Any = None, run_manager: Any = None, **options: Any
    ) -> ChatResult:
        global asked
        asked += 1
        last = messages[-1]
        if last.type == "tool":
            answer = AIMessage(f"{last.name}: {last.content}")
        else:
            answer = AIMessage("", tool_calls=[call(str(last.content))])
        return ChatResult(generations=[ChatGeneration(message=answer)])


def call(question: str) -> Any:
    """Returns the call of a tool that the question needs."""
    numbers = re.findall(r"\d+", question) or ["17"]
    if "refund" in question.lower():
        arguments: dict[str, Any] = {"order": numbers[0], "amount": float(numbers[-1])}
        return {"name": "refund", "args": arguments, "id": "c1"}
    return {"name": "order_status", "args": {"order": numbers[0]}, "id": "c1"}
