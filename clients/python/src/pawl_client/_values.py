"""Values of a run: messages, artifacts, usage."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, is_dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

from pawl_client._enums import ArtifactMode

Json: TypeAlias = Any
"""Any value that the `json` module reads and writes: None, bool, int, float, str, list, dict."""


_Digest: TypeAlias = bytes  # ArtifactHead has a field named `bytes`, which hides the type.


@dataclass(frozen=True, slots=True)
class JsonValue:
    """Marks a value as JSON, where a bare Python value has another meaning.

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
                f"a part must have exactly one of text, json, data and uri, not {given or 'none'}"
            )

    @staticmethod
    def of(value: PartLike) -> Part:
        """Returns the part for a bare value: str is text, bytes is data, any other value is
        JSON. An instance of a pydantic model or a dataclass is dumped to JSON.
        """
        if isinstance(value, Part):
            return value
        if isinstance(value, str):
            return Part(text=value)
        if isinstance(value, (bytes, bytearray, memoryview)):
            return Part(data=bytes(value))
        return Part(json=value if isinstance(value, JsonValue) else JsonValue(plain(value)))


class _Model(Protocol):
    """An instance of a pydantic model."""

    __pydantic_core_schema__: ClassVar[Any]


class _Dataclass(Protocol):
    """An instance of a dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]


PartLike: TypeAlias = "Part | str | bytes | JsonValue | Mapping[str, Any] | _Model | _Dataclass"
"""A value that is accepted as one part."""

Content: TypeAlias = "PartLike | Sequence[PartLike]"
"""A value that is accepted as the parts of a message: one part or several."""

ArtifactLike: TypeAlias = Any
"""A value that is accepted as an artifact: str is text, bytes is data, `JsonValue` and any other
value is JSON. An instance of a pydantic model or a dataclass is dumped to JSON. In a turn, where
the declared media type is known, a str for a JSON artifact is a JSON string.
"""


def is_instance(value: object) -> bool:
    """Whether a value is an instance of a pydantic model or a dataclass of the program."""
    cls = type(value)
    if cls.__module__.partition(".")[0] == "pawl_client":
        return False  # A Message or a Fault is no JSON.
    return hasattr(cls, "__pydantic_core_schema__") or is_dataclass(cls)


def plain(value: Any) -> Json:
    """Returns an instance of a pydantic model or a dataclass as JSON, any other value unchanged."""
    if not is_instance(value):
        return value
    try:
        from pydantic_core import to_jsonable_python
    except ImportError:  # Then it is a dataclass.
        return asdict(value)
    return to_jsonable_python(value)


def parts_of(content: Content | None) -> tuple[Part, ...]:
    """Returns the parts of any content. Raises TypeError for a value that is none.

    >>> [p.text for p in parts_of(["a", "b"])]
    ['a', 'b']
    """
    if content is None:
        return ()
    if isinstance(content, _ONE_PART) or is_instance(content):
        return (Part.of(content),)  # type: ignore[arg-type]
    if isinstance(content, Sequence) and not hasattr(content, "_fields"):
        items: Sequence[Any] = content
        return tuple(Part.of(item) for item in items)
    raise TypeError(f"content: must be {CONTENT}, not {type(content).__name__}")


_ONE_PART = (str, bytes, bytearray, memoryview, Part, JsonValue, Mapping)

CONTENT = (
    "a text, bytes, a JSON value in JsonValue, a mapping, an instance of a pydantic model or a "
    "dataclass, a Part or a list of these"
)
"""The values that are accepted as content, for messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """The fields of a message to an agent besides its parts (A2A Message)."""

    message_id: str
    context_id: str
    reference_task_ids: tuple[str, ...]
    extensions: tuple[str, ...]
    metadata: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One entry of a conversation.

    `role` is user, assistant, tool or system. `tool_calls` are a model's own tool calls, unchanged;
    `tool_call_id` names the call that a tool message answers. `provider` is the data that the
    model's provider needs with the message in later requests. `envelope` is set for a message to an
    agent; writing calls ignore it.
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
        """Returns a message of that role.

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
    """A piece of output that is stored while its turn is open.

    It is part of the artifact `id` of the run's A2A task. `append`: it is added to the artifact
    (default: it replaces the artifact). `last`: this execution sends no further piece of the
    artifact. `name` and `description` are for people.
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

    `cost_micro_usd` is in millionths of a US dollar. `tool_calls` are calls without a step; they
    count towards max_tool_calls. `cached_tokens` is the part of `input_tokens` that the provider
    had cached, `reasoning_tokens` the part of `output_tokens` that the model used for reasoning. If
    `model` is named, the pack's price of it (x_pawl.prices), else the operator's (--prices), gives
    the cost of the tokens; `cost_micro_usd` counts only without a price. `estimated`: not all usage
    was reported; in a record, the bound of the call replaces what was missing. `counted_before`:
    another attempt has already reported the usage of this model call.

    A sum has the model of both operands, or of the one that names a model. Adding the usage of two
    models raises ValueError.

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
            raise ValueError(
                f"model: usage of {self.model!r} and of {other.model!r} cannot be added, because "
                "their prices differ; keep one sum for each model"
            )
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
    """An error as data: a machine-readable code and a text for people.

    `trace` is the traceback of the code that reported it.
    """

    code: str
    message: str = ""
    trace: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Denial:
    """The reason why a step request was refused before it got a number."""

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

    `seq` is the record that wrote it last, `writes` how often it was written, `bytes` the size of
    the current value, `hash` its SHA-256.
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
    """An artifact with its value: str for text, bytes for data, else the JSON value.

    `redacted`: a mark replaces the value, because the caller lacks the scope values:sensitive.
    """

    head: ArtifactHead
    value: ArtifactLike
    redacted: bool = False

    @property
    def name(self) -> str:
        """Name in the run."""
        return self.head.name


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobHead:
    """A stored blob; `size` is in bytes. `duplicate`: it was stored before.

    `ref` ("blob:sha256:<64 hex>") is what an artifact or a tool's result holds. A blob that no
    run's journal refers to is removed one day after it was last stored.
    """

    ref: str = field(metadata={"proto": "blob_ref"})
    size: int
    duplicate: bool

    def __str__(self) -> str:
        return self.ref


@dataclass(frozen=True, slots=True, kw_only=True)
class BlobPiece:
    """A piece of a blob of `size` bytes; `data` begins at byte `offset`.

    `media_type` is the one that the blob's first writer gave; it may be empty.
    """

    size: int
    media_type: str
    offset: int
    data: bytes = field(repr=False)


def blob_ref(data: bytes) -> str:
    """Returns the reference of a blob with these bytes.

    >>> blob_ref(b"")[:24]
    'blob:sha256:e3b0c44298fc'
    """
    return f"blob:sha256:{hashlib.sha256(data).hexdigest()}"
