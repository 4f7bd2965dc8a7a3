"""Model calls, as the sidecar records them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from pawl_client._values import Fault, Json, Message, Part, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationRange:
    """Messages of the conversation that a turn sees: `count` messages from `first` on, 0: all."""

    first: int = 0
    count: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of an answered tool step, for the model that requested it."""

    step: int
    call_id: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallRef:
    """The tool call number `index`, from 0, of an answered MODEL step."""

    model_step: int
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelMessage:
    """One element of a request: a new message, or a reference to an earlier one. Exactly one field
    is set.
    """

    message: Message | None = None
    conversation: ConversationRange | None = None
    answer: int | None = None
    result: ToolResult | None = None
    included_seq: int | None = None
    """Record of a steering message or a notice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRequest:
    """One request to a model.

    `previous_step` is a MODEL step whose messages and answer precede this request, and whose
    `system`, `tools` and `parameters` apply where they are None here. The sidecar sets the hashes;
    writing calls ignore them.
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
    """One tool call of an answer. `arguments` is the text of a JSON object.

    If the model wrote no JSON object, `broken_arguments` is its text and `arguments` is "{}".
    """

    id: str = ""
    name: str = ""
    arguments: str = ""
    broken_arguments: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAnswer:
    """The answer of a model.

    `provider` is the message in the form of the executor's library, {"library", "version",
    "message"}; later requests repeat it unchanged. `provider_name` is for example "openai".
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
    """The fields of a MODEL step besides those of every step."""

    request: ModelRequest | None = None
    answer: ModelAnswer | None = None
    usage: Usage | None = None
    response_id: str = ""
    not_before: datetime | None = None
    request_changed: bool = False
    max_output_tokens: int = 0
    """Tokens that the call reserved for the answer, and the most that it may request; 0: no budget
    bounds it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLimits:
    """The rate limits that a provider reports: what is left, and when the full amount is available
    again. None: not reported.
    """

    requests: int | None = None
    requests_reset: timedelta | None = None
    tokens: int | None = None
    tokens_reset: timedelta | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFailure:
    """The failure of a model call. `non_retryable`: no further attempt is made."""

    error: Fault
    non_retryable: bool = False
    retry_after: timedelta | None = None
