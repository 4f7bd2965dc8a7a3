"""Values that travel with a run: messages, artifacts, usage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from pawl_client._enums import ArtifactMode

Json: TypeAlias = Any
"""What the `json` module reads and writes: None, bool, int, float, str, list, dict."""


_Digest: TypeAlias = bytes  # A field of that class is itself named `bytes`.


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value where a bare Python value would be read as something else.

    >>> JsonValue("a string in an application/json artifact").value
    'a string in an application/json artifact'
    """

    value: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One piece of a message: exactly one of text, json, data and uri.

    `media_type` is empty by default, which reads as text/plain, application/json or
    application/octet-stream by the form of the content.

    >>> Part.of("hello").text
    'hello'
    >>> Part(json=JsonValue({"n": 1})).json.value
    {'n': 1}
    """

    text: str | None = None
    json: JsonValue | None = None
    data: bytes | None = None
    uri: str | None = None
    media_type: str = ""
    filename: str = ""
    metadata: Mapping[str, Json] | None = None

    def __post_init__(self) -> None:
        given = [n for n in ("text", "json", "data", "uri") if getattr(self, n) is not None]
        if len(given) != 1:
            raise ValueError(
                f"a part holds exactly one of text, json, data and uri, not {len(given)}: {given}"
            )

    @staticmethod
    def of(value: PartLike) -> Part:
        """A part of a bare value: str is text, bytes is data, all else is JSON."""
        if isinstance(value, Part):
            return value
        if isinstance(value, str):
            return Part(text=value)
        if isinstance(value, bytes):
            return Part(data=value)
        return Part(json=value if isinstance(value, JsonValue) else JsonValue(value))


PartLike: TypeAlias = "Part | str | bytes | JsonValue | Mapping[str, Any]"
"""What can be given as one part."""

Content: TypeAlias = "PartLike | Sequence[PartLike]"
"""What can be given as the parts of a message: one part or several."""

ArtifactLike: TypeAlias = Any
"""What can be given as an artifact: str is text, bytes is data, `JsonValue` and all
else is JSON. Where the declared media type is known (in a turn), a str for a JSON
artifact is a JSON string."""


def parts_of(content: Content | None) -> tuple[Part, ...]:
    """The parts of any content.

    >>> [p.text for p in parts_of(["a", "b"])]
    ['a', 'b']
    """
    if content is None:
        return ()
    if isinstance(content, (str, bytes, Part, JsonValue, Mapping)):
        return (Part.of(content),)
    return tuple(Part.of(item) for item in content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """What a message to an agent says besides its parts (A2A Message)."""

    message_id: str
    context_id: str
    reference_task_ids: tuple[str, ...]
    extensions: tuple[str, ...]
    metadata: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One entry of a conversation.

    `role` is user, assistant, tool or system. `tool_calls` are a model's own tool
    calls, kept as they are; `tool_call_id` says which of them a tool message answers.
    `provider` is what the model's provider wants to have back with the message.
    `envelope` is set where it came as a message to an agent; it is only read.
    """

    role: str
    parts: tuple[Part, ...] = ()
    tool_calls: Json = None
    tool_call_id: str = ""
    provider: Json = None
    refusal: str = ""
    envelope: Envelope | None = None

    @staticmethod
    def of(role: str, content: Content) -> Message:
        """A message of that role.

        >>> Message.of("user", "hi").text
        'hi'
        """
        return Message(role=role, parts=parts_of(content))

    @property
    def text(self) -> str:
        """Its text parts, joined."""
        return "".join(part.text for part in self.parts if part.text is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPiece:
    """A piece of output that is kept while its turn is under way.

    It is a part of the artifact `id` of the run's A2A task. `append`: it adds to what
    the artifact has (default: it replaces that); `last`: nothing more comes for it from
    this execution. `name` and `description` are for people.
    """

    id: str
    name: str = ""
    description: str = ""
    parts: tuple[Part, ...] = ()
    append: bool = False
    last: bool = False
    metadata: Mapping[str, Json] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What an execution consumed outside the sidecar.

    Tokens are counted, `cost_micro_usd` is in millionths of a US dollar, `tool_calls`
    are those made without a step; they count against max_tool_calls. `cached_tokens` are
    those of `input_tokens` that the provider had cached, `reasoning_tokens` those of
    `output_tokens` that the model thought with. With `model` named, the pack's price of it
    (x_pawl.prices), else the operator's (--prices), says what the tokens cost, and
    `cost_micro_usd` counts only where there is none. `estimated`: not all of it was reported;
    in a record what was missing is that of the bound of the call. `counted_before`: what a call
    of a model consumed was told with another attempt.

    A sum names the model that both name, or the only one that is named; of two models
    there is none: ValueError.

    >>> a = Usage(input_tokens=3, model="small") + Usage(input_tokens=4, output_tokens=1)
    >>> a == Usage(input_tokens=7, output_tokens=1, model="small")
    True
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cost_micro_usd: int = 0
    tool_calls: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    model: str = ""
    estimated: bool = False
    counted_before: bool = False

    def __add__(self, other: Usage) -> Usage:
        if self.model and other.model and self.model != other.model:
            raise ValueError(f"usage of {self.model!r} and of {other.model!r} has no one price")
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cost_micro_usd=self.cost_micro_usd + other.cost_micro_usd,
            tool_calls=self.tool_calls + other.tool_calls,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            reasoning_tokens=self.reasoning_tokens + other.reasoning_tokens,
            model=self.model or other.model,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An error as data: a machine-readable word and text for people.

    `trace` is where the reporter's code raised it, for whoever mends that code.
    """

    code: str
    message: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """Why a step request was refused before it got a number."""

    code: str
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactWrite:
    """One recorded write to one artifact; `value` is a str, bytes or JSON value."""

    name: str
    value: ArtifactLike
    media_type: str = field(default="", metadata={"proto": "value.media_type"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactHead:
    """An artifact without its value.

    `seq` is the record that wrote it last, `writes` how often it was written, `bytes`
    the size of the current value, `hash` its SHA-256.
    """

    name: str
    media_type: str
    mode: ArtifactMode
    seq: int
    writes: int
    bytes: int
    hash: _Digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An artifact with its value: a str for text, bytes for data, else the JSON value.
    `redacted`: a mark stands in its place, since the caller lacks the scope values:sensitive."""

    head: ArtifactHead
    value: ArtifactLike
    redacted: bool = False

    @property
    def name(self) -> str:
        """Name in the run."""
        return self.head.name


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobHead:
    """A stored blob; `size` is in bytes, `duplicate`: these bytes were stored before.

    `ref` ("blob:sha256:<64 hex>") is what to write into an artifact or a tool's result:
    a blob that no run's journal refers to is removed a day after it was stored last.
    """

    ref: str = field(metadata={"proto": "blob_ref"})
    size: int
    duplicate: bool

    def __str__(self) -> str:
        return self.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobPiece:
    """A piece of a blob of `size` bytes; `data` begins at byte `offset` of it.

    `media_type` is what the blob's first writer gave; it may be empty.
    """

    size: int
    media_type: str
    offset: int
    data: bytes = field(repr=False)


def blob_ref(data: bytes) -> str:
    """The reference of some bytes.

    >>> blob_ref(b"")[:24]
    'blob:sha256:e3b0c44298fc'
    """
    return f"blob:sha256:{hashlib.sha256(data).hexdigest()}"
