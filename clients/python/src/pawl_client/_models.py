"""Calls of models, as the sidecar records them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pawl_client._values import Fault, Json, Message, Part, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRange:
    """Messages of the conversation that a turn sees: `count` from `first` on, 0: all."""

    first: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """What an answered tool step says to the model that asked for it."""

    step: int
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRef:
    """A tool call of an answered MODEL step, from 0."""

    model_step: int
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMessage:
    """One element of a request: a new message, or what was said before. One is set."""

    message: Message | None = None
    conversation: ConversationRange | None = None
    answer: int | None = None
    result: ToolResult | None = None
    included_seq: int | None = None
    """Record of what a person said to the run, or of a notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """What a model is asked.

    `previous_step` is a MODEL step whose messages and answer come first, and whose texts hold
    where they are None here. The hashes are only read.
    """

    model: str
    previous_step: int = 0
    system: str | None = None
    tools: Json = None
    parameters: Json = None
    messages: tuple[ModelMessage, ...] = ()
    system_hash: bytes = b""
    tools_hash: bytes = b""
    parameters_hash: bytes = b""
    hash: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCall:
    """One tool call of an answer. `arguments` are the text of a JSON object.

    `broken_arguments` is what the model wrote where that was no object; `arguments` is "{}" then.
    """

    id: str = ""
    name: str = ""
    arguments: str = ""
    broken_arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """What a model answered.

    `provider` is the message as the executor's library has it, repeated in later requests as it is:
    {"library", "version", "message"}. `provider_name` says who answered, for example "openai".
    """

    parts: tuple[Part, ...] = ()
    calls: tuple[ModelCall, ...] = ()
    refusal: str = ""
    finish_reason: str = ""
    model: str = ""
    response_id: str = ""
    provider: Json = None
    provider_name: str = ""

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return "".join(part.text for part in self.parts if part.text is not None)

    @property
    def message(self) -> Message:
        """The answer as a message of the conversation."""
        calls = [{"id": c.id, "name": c.name, "arguments": c.arguments} for c in self.calls]
        return Message(
            role="assistant",
            parts=self.parts,
            tool_calls=calls or None,
            provider=self.provider,
            refusal=self.refusal,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelStep:
    """What there is to a MODEL step besides what every step has."""

    request: ModelRequest | None = None
    answer: ModelAnswer | None = None
    usage: Usage | None = None
    response_id: str = ""
    not_before: datetime | None = None
    request_changed: bool = False
    max_output_tokens: int = 0
    """Tokens that the call reserved for the answer, and is to ask for at most; 0: no budget
    holds it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimits:
    """What a provider tells of its own limits: how much is left, and when all of it is there
    again. None: it does not tell."""

    requests: int | None = None
    requests_reset: timedelta | None = None
    tokens: int | None = None
    tokens_reset: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailure:
    """Why a call of a model came to nothing. `non_retryable`: no further attempt can help."""

    error: Fault
    non_retryable: bool = False
    retry_after: timedelta | None = None
