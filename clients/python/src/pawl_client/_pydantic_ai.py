"""Calls models through pydantic-ai: builds requests and reads answers.

The library makes one request at a time; Pawl controls rounds, tools, retries and records.
"""

from __future__ import annotations

import logging
import re
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, fields, replace
from typing import Any, cast
from urllib.parse import urlsplit, urlunsplit

import pydantic_ai
from pydantic_ai import exceptions
from pydantic_ai.messages import (
    BinaryContent,
    FilePart,
    ImageUrl,
    InstructionPart,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
    ToolReturnPart,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse, infer_model
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition
from pydantic_ai.usage import RequestUsage

from pawl_client._errors import FailTurnError
from pawl_client._json_text import dump_json, whole
from pawl_client._models import ModelAnswer, ModelCall, ModelFailure, ProviderLimits
from pawl_client._normalize import NormalizedAnswer, normalize
from pawl_client._provider_errors import (
    error_text,
    failure_of_error,
    final,
    limits_of,
    of_http,
    redact_keys,
    unusable,
)
from pawl_client._provider_request import PAUSED, ProviderRequest, calls_of, media_of, text_of
from pawl_client._response_repair import (
    CURRENT_WATCH,
    EndpointError,
    ResponseWatch,
    too_large,
    watch_model,
)
from pawl_client._values import Fault, Json, Message, Part, Usage

LIBRARY = "pydantic-ai"
_TIMEOUT = "MODEL_TIMEOUT"
_log = logging.getLogger("pawl_client")

_PARAMETERS = {
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "max_tokens": "max_tokens",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
    "seed": "seed",
    "stop": "stop_sequences",
}
"""Parameters of packs, and their names in the settings of the library."""


def model_of(model: Any) -> Model[Any]:
    """Returns the model with this name, `provider:model`, or the given model. Raises ValueError,
    ImportError.
    """
    if isinstance(model, Model):
        return model
    if not isinstance(model, str):
        raise ValueError(
            f"model: must be 'provider:model' or a pydantic_ai Model, not {type(model).__name__}"
        )
    provider = model.partition(":")[0]
    try:
        return infer_model(model)
    except ImportError as error:
        extra = _EXTRAS.get(provider, provider)
        text = f"model {model!r}: its package is missing: pip install 'pawl-client[{extra}]'"
        raise ImportError(text) from error
    except exceptions.UserError as error:
        raise ValueError(f"model {model!r}: {error}") from None


_EXTRAS = {"openai-chat": "openai", "openai-responses": "openai", "azure": "openai"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A piece of a model's answer, as it arrives."""

    text: str = ""
    reasoning: str = ""


@dataclass(slots=True)
class _Halves:
    """Joins pieces of text that may end within a surrogate pair."""

    left: str = ""

    def take(self, text: str) -> str:
        text, self.left = self.left + text, ""
        if text and "\ud800" <= text[-1] <= "\udbff":
            text, self.left = text[:-1], text[-1]
        return whole(text)


@dataclass(slots=True)
class Call:
    """One model call. `outcome` is set when its pieces have ended."""

    model: Model[Any]
    prompt: ProviderRequest
    watch: ResponseWatch
    seconds: float | None = None
    """Longest wait for the next data. None means the library's own timeout."""
    outcome: ModelAnswer | ModelFailure | None = None
    limits: ProviderLimits | None = None
    _used: Usage | None = None
    _size: int = 0
    _native: bool = True
    """The provider enforces the schema of a text. False means that the library asks for it in the
    prompt.
    """

    @property
    def usage(self) -> Usage:
        """Its usage, as far as the provider reported it."""
        timeout = isinstance(self.outcome, ModelFailure) and self.outcome.error.code == _TIMEOUT
        started = self.watch.started and self.watch.failure is None
        return self._used or Usage(estimated=self.outcome is None or timeout or started)

    async def pieces(self) -> AsyncGenerator[Piece, None]:
        """Yields the model's answer. An error of the endpoint becomes the outcome, not an
        exception.
        """
        token = CURRENT_WATCH.set(self.watch)
        for client in watch_model(self.model):
            keys = (getattr(client, name, None) for name in ("api_key", "auth_token"))
            self.watch.keys.update(key for key in keys if isinstance(key, str))
        try:
            async with aclosing(self._stream_with_fallback()) as pieces:
                async for piece in pieces:
                    yield piece
        except Exception as error:
            self.outcome = self.watch.failure or failure_of(error, self.watch.started)
            headers = getattr(error, "headers", None)
            self.limits = limits_of(headers) if headers else None
        finally:
            CURRENT_WATCH.reset(token)
        self.limits = self.watch.limits or self.limits
        if isinstance(self.outcome, ModelFailure):
            self.outcome = redact_keys(self.watch.keys, self.outcome)

    async def _stream_with_fallback(self) -> AsyncGenerator[Piece, None]:
        """Yields the model's answer, and repeats a request at once that must be changed."""
        while True:
            try:
                async with aclosing(self._stream()) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except exceptions.ModelAPIError as error:
                if not self._change_request(error):
                    raise

    def _change_request(self, error: exceptions.ModelAPIError) -> bool:
        """Changes the next request if the endpoint refused its form; returns whether it did."""
        status, failure = getattr(error, "status_code", None), self.watch.failure
        if status is None and isinstance(error, exceptions.ModelRequestRejectedError):
            # The library refused it: the provider cannot enforce the schema.
            native, self._native = self._native and self.prompt.schema is not None, False
            return native and not self.watch.started
        if status != 400 or failure is None or not _needs_max_tokens(self.model):
            return False
        if not self.prompt.max_output_tokens or _MAX_COMPLETION_TOKENS not in failure.error.message:
            return False
        _refused_max_tokens.add(_host(self.model))
        self.watch.failure = None
        return True

    async def _stream(self) -> AsyncGenerator[Piece, None]:
        request = Request.of(self.model, self.prompt, self.seconds, native=self._native)
        async with self.model.request_stream(
            request.messages, request.settings, request.parameters
        ) as stream:
            async with aclosing(self._read_stream(stream)) as pieces:
                async for piece in pieces:
                    yield piece
            message = stream.get()
        self.outcome = self._outcome(request, message)

    async def _read_stream(self, stream: StreamedResponse) -> AsyncGenerator[Piece, None]:
        """Yields the pieces of one response and counts its usage."""
        _last_counts(stream)
        self.watch.started = True
        self._used = Usage(estimated=True)
        text, reasoning = _Halves(), _Halves()
        try:
            async for event in stream:
                new_text, new_reasoning = self._text_of_event(event)
                piece = Piece(text=text.take(new_text), reasoning=reasoning.take(new_reasoning))
                if piece.text or piece.reasoning:
                    yield piece
        finally:
            self._used = usage_of(stream.usage, self.watch)

    def _text_of_event(self, event: ModelResponseStreamEvent) -> tuple[str, str]:
        """Returns the text and the reasoning of an event. Raises EndpointError for an answer that
        is too long.
        """
        item = getattr(event, "part", None) if isinstance(event, PartStartEvent) else None
        if isinstance(event, PartDeltaEvent):
            item = event.delta
        text = reasoning = ""
        if isinstance(item, TextPart):
            text = item.content
        elif isinstance(item, TextPartDelta):
            text = item.content_delta
        elif isinstance(item, ThinkingPart):
            reasoning = item.content
        elif isinstance(item, ThinkingPartDelta):
            reasoning = item.content_delta or ""
        elif isinstance(item, (ToolCallPart, ToolCallPartDelta)):
            arguments = item.args if isinstance(item, ToolCallPart) else item.args_delta
            self._size += len(arguments if isinstance(arguments, str) else str(arguments or ""))
        self._size += len(text) + len(reasoning)
        if self.watch.max_bytes and self._size > self.watch.max_bytes:
            self.watch.failure = too_large(self.watch.max_bytes)
            raise EndpointError
        return text, reasoning

    def _outcome(self, request: Request, message: ModelResponse) -> ModelAnswer | ModelFailure:
        """Returns the outcome of the complete message."""
        if (self.watch.format_known and not self.watch.ended) or message.state == "incomplete":
            words = "the stream ended in the midst of the answer"
            return unusable("STREAM_TRUNCATED", words)
        details = message.provider_details or {}
        finish = message.finish_reason or ""
        if details.get("refusal"):
            return unusable("REFUSED", whole(str(details["refusal"])))
        if finish == "content_filter":
            return unusable("CONTENT_FILTER", "the answer was filtered")
        if finish == "length":
            return unusable("TRUNCATED", "the answer was longer than max_tokens")
        if finish == "error":
            return unusable("MODEL_ERROR", "the provider ended the answer with an error")
        known = [
            c["id"] for message_before in self.prompt.messages for c in calls_of(message_before)
        ]
        normalized = normalize(message, self.prompt.round, known)
        if normalized is None:
            return unusable("NO_ANSWER", "the answer has no text, no call and no refusal")
        answer = answer_of(normalized, request.names)
        if (
            self.watch.max_bytes
            and _size(answer) > self.watch.max_bytes
            and not _has_provider_data(message)
        ):
            _log.warning("an answer is recorded without the library's own form, which is too large")
            return replace(answer, provider=None)
        return answer


def _last_counts(stream: StreamedResponse) -> None:
    """Makes the library use the last usage counts of a stream.

    Endpoints that send usage in each chunk send running totals, but by default the library adds
    them up. The setting that stops it also asks the endpoint for running totals.
    """
    settings = getattr(stream, "_model_settings", None)
    if hasattr(stream, "_model_settings"):
        changed = {**(settings or {}), "openai_continuous_usage_stats": True}
        stream._model_settings = changed


def usage_of(usage: RequestUsage, watch: ResponseWatch) -> Usage:
    """Returns the usage of a response, as far as the provider reported it."""
    input_tokens, written = max(usage.input_tokens, 0), max(usage.output_tokens, 0)
    thinking = usage.output_reasoning_tokens or usage.details.get("reasoning_tokens", 0)
    unreported = bool(usage.unmeasured_requests) or not written
    return Usage(
        input_tokens=input_tokens,
        output_tokens=written,
        cached_tokens=min(max(usage.cache_read_tokens, 0), input_tokens),
        reasoning_tokens=min(max(thinking, 0), written),
        estimated=unreported or (watch.format_known and not watch.ended),
    )


def call(model: Model[Any], prompt: ProviderRequest, max_bytes: int, seconds: float | None) -> Call:
    """Returns a call whose answer has at most `max_bytes` bytes, 0: no bound."""
    return Call(model, prompt, ResponseWatch(max_bytes), seconds)


# Requests


@dataclass(frozen=True, slots=True)
class Request:
    """A request in the terms of the library."""

    messages: list[ModelMessage]
    settings: ModelSettings
    parameters: ModelRequestParameters
    names: dict[str, str]
    """The pack's names of tools, by their names in the request."""

    @staticmethod
    def of(
        model: Model[Any], prompt: ProviderRequest, seconds: float | None, *, native: bool = True
    ) -> Request:
        """Returns the request. Raises FailTurnError for content that the model does not support."""
        names = names_of([tool["name"] for tool in prompt.tools])
        wire_names = {name: wired for wired, name in names.items()}
        tools = [
            ToolDefinition(
                name=wire_names[tool["name"]],
                description=tool["description"],
                parameters_json_schema=dict(tool["parameters"]),
            )
            for tool in prompt.tools
        ]
        system = [InstructionPart(content=prompt.system)] if prompt.system else None
        parameters = ModelRequestParameters(function_tools=tools, instruction_parts=system)
        if prompt.schema is not None:
            form = OutputObjectDefinition(json_schema=dict(prompt.schema), name="answer")
            parameters.output_mode, parameters.output_object = "native", form
            if not native or not model.profile.get("supports_json_schema_output", False):
                parameters.output_mode = "prompted"
        messages = list(_messages(model, prompt.messages, wire_names))
        return Request(messages, _settings(model, prompt, seconds), parameters, names)


def names_of(tools: Sequence[str]) -> dict[str, str]:
    """Returns names of tools that every endpoint accepts, each with the pack's own name.

    >>> names_of(["order", "shop.order", "shop-order", "shop_order"])
    {'order': 'order', 'shop_order_2': 'shop.order', 'shop-order': 'shop-order', \
'shop_order': 'shop_order'}
    """
    taken = set(tools)
    names: dict[str, str] = {}
    for tool in tools:
        name = plain = _safe(tool)
        count = 1
        while name in names or (name != tool and name in taken):
            count += 1
            name = f"{plain[: 64 - len(str(count)) - 1]}_{count}"
        names[name] = tool
    return names


def _safe(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:64]


def _settings(model: Model[Any], prompt: ProviderRequest, seconds: float | None) -> ModelSettings:
    """Returns the settings of the call. Raises FailTurnError for an unsupported parameter."""
    lacks: frozenset[str] = getattr(model, "unsupported_settings", frozenset())
    given: dict[str, Any] = {}
    for name, value in prompt.parameters.items():
        own_name = _PARAMETERS.get(name)
        if own_name is None or own_name in lacks:
            supported = sorted(
                name for name, setting in _PARAMETERS.items() if setting not in lacks
            )
            raise FailTurnError(
                "PARAMETER_UNSUPPORTED",
                f"parameters.{name}: {model.model_id} has no such parameter, only {supported}",
                retryable=False,
            )
        given[own_name] = [value] if name == "stop" and isinstance(value, str) else value
    settings: dict[str, Any] = {"openai_store": False, **given, **prompt.extra}
    if prompt.max_output_tokens and _needs_max_tokens(model):
        body = settings.get("extra_body")
        settings["extra_body"] = {"max_tokens": prompt.max_output_tokens, **(body if body else {})}
        settings.pop("max_tokens", None)
    elif prompt.max_output_tokens:
        settings["max_tokens"] = prompt.max_output_tokens
    if prompt.choice != "auto":
        settings["tool_choice"] = prompt.choice
    own = settings.get("timeout")
    if seconds is not None and not (isinstance(own, (int, float)) and own <= seconds):
        settings["timeout"] = seconds
    settings["max_retries"] = 0  # Pawl repeats the call, as the pack says.
    return cast("ModelSettings", settings)


_MAX_COMPLETION_TOKENS = "max_completion_tokens"
_refused_max_tokens: set[str] = set()
"""Addresses that refused max_tokens and named max_completion_tokens."""


def _unwrapped(model: Any) -> Any:
    """Returns the model inside its wrappers."""
    while (inner := getattr(model, "wrapped", None)) is not None:
        model = inner
    return model


def _host(model: Any) -> str:
    return str(getattr(_unwrapped(model), "base_url", ""))


def _needs_max_tokens(model: Any) -> bool:
    """Whether the endpoint needs max_tokens: it serves chat completions and is not OpenAI's own.

    An endpoint that knows only max_tokens ignores max_completion_tokens, and its answer has no
    bound.
    """
    model = _unwrapped(model)
    chat = any(cls.__name__ == "OpenAIChatModel" for cls in type(model).__mro__)
    host = _host(model)
    own = (urlsplit(host).hostname or "").endswith("api.openai.com")
    declares = "openai_chat_supports_max_completion_tokens" in model.profile if chat else False
    return chat and not own and not declares and host not in _refused_max_tokens


def _messages(
    model: Model[Any], messages: Sequence[Message], names: Mapping[str, str]
) -> Iterator[ModelMessage]:
    """Returns the conversation as alternating requests and responses."""
    tools: dict[str, str] = {}
    request_parts: list[Any] = []
    for message in messages:
        if message.role != "assistant":
            request_parts += _request_parts(model, message, tools)
            continue
        response = _response(message, names)
        tools.update(
            {c.tool_call_id: c.tool_name for c in response.parts if isinstance(c, ToolCallPart)}
        )
        if request_parts:
            yield ModelRequest(parts=request_parts)
        request_parts = []
        if response.parts:
            yield response
    if request_parts:
        yield ModelRequest(parts=request_parts)


def _request_parts(model: Model[Any], message: Message, tools: Mapping[str, str]) -> list[Any]:
    if message.role == "tool":
        texts = [_result_text(part) for part in message.parts]
        values = [part.json.value for part in message.parts if part.json is not None]
        failed = any(isinstance(value, dict) and set(value) == {"error"} for value in values)
        called = message.tool_call_id
        return [
            _ExactToolReturn(
                tool_name=tools.get(called, "tool"),
                content="\n".join(texts),
                tool_call_id=called,
                outcome="failed" if failed else "success",
            )
        ]
    content = [_content(model, part) for part in message.parts if part.text != ""]
    if not content:
        return []
    words = [item for item in content if isinstance(item, str)]
    return [UserPromptPart(content="\n".join(words) if len(words) == len(content) else content)]


def _result_text(part: Part) -> str:
    if part.json is not None and isinstance(part.json.value, str):
        return part.json.value
    text = text_of(part)
    return _placeholder(part) if text is None else text


def _placeholder(part: Part) -> str:
    """Returns the text that replaces bytes in a tool's result."""
    size = f"{len(part.data)} bytes" if part.data is not None else str(part.uri)
    return f"({media_of(part) or 'application/octet-stream'}, {size})"


def _accepts_media(model: Model[Any], media: str) -> bool:
    """Whether the model accepts data of the media type."""
    kind, profile = media.partition("/")[0], model.profile
    if kind == "audio":
        wired = media in ("audio/wav", "audio/x-wav", "audio/mpeg", "audio/mp3")
        return wired and bool(profile.get("supports_audio_file_input", True))
    if kind in ("image", "video"):
        return bool(profile.get(f"supports_{kind}_input", True))
    documents: Any = profile.get("supported_document_media_types", ())
    return media in documents and bool(profile.get("supports_document_input", True))


def _content(model: Model[Any], part: Part) -> UserContent:
    """Returns a part of a user's message. Raises FailTurnError for unsupported content."""
    text, media = text_of(part), media_of(part)
    if text is not None:
        return text
    if part.data is not None and _accepts_media(model, media):
        return BinaryContent(data=part.data, media_type=media)
    if media.startswith("image/") and str(part.uri).startswith(("http://", "https://")):
        return ImageUrl(url=str(part.uri), media_type=media)
    if media.startswith("image/") and str(part.uri).startswith("data:"):
        return BinaryContent.from_data_uri(str(part.uri))
    name = f" ({part.filename})" if part.filename else ""
    form = "data" if part.data is not None else f"the address {part.uri}"
    raise FailTurnError(
        "MEDIA_UNSUPPORTED",
        f"a part of {media or 'application/octet-stream'}{name} as {form}: a model accepts text, "
        "images at http addresses, and data of the media types that the model's profile names",
        retryable=False,
    )


def _response(message: Message, names: Mapping[str, str]) -> ModelResponse:
    """Returns a recorded answer, or one rebuilt from its parts."""
    kept = _recorded_message(message.provider)
    if kept is not None:
        return kept
    parts: list[Any] = [
        TextPart(content=text)
        for text in map(text_of, message.parts)
        if text is not None and text.strip()
    ]
    for call in calls_of(message):
        name = call["name"]
        parts.append(
            _ExactToolCall(
                names.get(name, _safe(name)), args=call["arguments"], tool_call_id=call["id"]
            )
        )
    return ModelResponse(parts=parts)


def _recorded_message(envelope: Json) -> ModelResponse | None:
    """Returns the library's message in a record; None if another library, or a version that cannot
    be read, wrote it.
    """
    if not isinstance(envelope, dict):
        return None
    library, version = envelope.get("library"), envelope.get("version")
    try:
        if library != LIBRARY:
            raise ValueError("another library")
        (message,) = ModelMessagesTypeAdapter.validate_python([envelope.get("message")])
        if not isinstance(message, ModelResponse):
            raise ValueError("no response")
    except Exception as error:
        _log.warning(
            "a recorded answer of library %s %s is rebuilt from its text and calls: %s",
            *(library, version, type(error).__name__),
        )
        return None
    parts = [_exact_call(part) for part in message.parts]
    return replace(message, parts=parts)


class _ExactToolReturn(ToolReturnPart):
    """A tool's result or error, with exactly the recorded text."""

    def model_response_str(self, *, wrap_if_error: bool = True) -> str:
        return super().model_response_str(wrap_if_error=False)


class _ExactToolCall(ToolCallPart):
    """A call of an earlier answer, with its arguments exactly as written."""

    def args_as_json_str(self) -> str:
        return self.args if isinstance(self.args, str) else super().args_as_json_str()


def _exact_call(part: Any) -> Any:
    if type(part) is not ToolCallPart:
        return part
    given = {f.name: getattr(part, f.name) for f in fields(part) if f.init}
    return _ExactToolCall(**given)


# Answers


def answer_of(normalized: NormalizedAnswer, names: Mapping[str, str]) -> ModelAnswer:
    """Returns a normalised message in the form of a record."""
    message = normalized.message
    parts: list[Part] = []
    calls: list[ModelCall] = []
    for part in message.parts:
        if isinstance(part, TextPart):
            parts.append(Part(text=part.content))
        elif isinstance(part, FilePart):
            parts.append(Part(data=part.content.data, media_type=part.content.media_type))
        elif isinstance(part, ToolCallPart):
            broken = normalized.broken.get(len(calls), "")
            name = _clip(names.get(part.tool_name, part.tool_name))
            calls.append(
                ModelCall(
                    id=part.tool_call_id,
                    name=name,
                    arguments=str(part.args),
                    broken_arguments=broken,
                )
            )
    return ModelAnswer(
        parts=tuple(parts),
        calls=tuple(calls),
        finish_reason=_clip(_finish(message, bool(calls)), 128),
        model=_clip(message.model_name or ""),
        response_id=_clip(message.provider_response_id or ""),
        provider=_envelope(message),
        provider_name=_clip(message.provider_name or "", 128),
    )


def _size(answer: ModelAnswer) -> int:
    """Bytes of the parts that grow with an answer."""
    texts = [answer.text, *(call.arguments + call.broken_arguments for call in answer.calls)]
    return sum(len(text.encode()) for text in [*texts, dump_json(answer.provider, "provider")])


def _has_provider_data(message: ModelResponse) -> bool:
    """Whether the message has data, besides its text, that its provider needs in later requests."""
    return any(
        isinstance(part, ThinkingPart) or getattr(part, "provider_details", None)
        for part in message.parts
    )


def _finish(message: ModelResponse, calls: bool) -> str:
    """Returns why the answer ended: the chat completions term, else the provider's own."""
    raw = (message.provider_details or {}).get("finish_reason")
    if raw in (None, PAUSED) or message.finish_reason is None:
        return str(raw or "")
    if calls and raw == "completed":
        return "tool_calls"
    return "tool_calls" if message.finish_reason == "tool_call" else message.finish_reason


def _envelope(message: ModelResponse) -> Json:
    """Returns the library's message; None, with a log line, if it cannot be serialised."""
    kept = replace(message, usage=RequestUsage(), failed_attempts=None, metadata=None)
    kept.provider_url = _without_secrets(message.provider_url)
    try:
        (form,) = ModelMessagesTypeAdapter.dump_python([kept], mode="json")
        dump_json(form, "message")
    except Exception as error:
        _log.warning("an answer is recorded without the library's own form: %s", error)
        return None
    return {"library": LIBRARY, "version": pydantic_ai.__version__, "message": form}


def _without_secrets(url: str | None) -> str | None:
    """Returns an address without its parts that may be secret."""
    if not url:
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _clip(text: str, max_bytes: int = 256) -> str:
    """Returns the first bytes of a name, within the bound of the contract."""
    return whole(text).encode()[:max_bytes].decode(errors="ignore")


def failure_of(error: Exception, started: bool) -> ModelFailure:
    """Returns the failure for an exception of the library or of the layers below it."""
    if isinstance(error, FailTurnError):
        fault = Fault(code=error.reason, message=error.message)
        return ModelFailure(error=fault, non_retryable=not error.retryable)
    status = getattr(error, "status_code", None)
    if isinstance(status, int) and status >= 400:
        words = error_text(getattr(error, "body", None)) or str(error)
        return of_http(status, words, getattr(error, "headers", None))
    if isinstance(error, exceptions.ModelTimeoutError):
        return unusable(_TIMEOUT, str(error))
    if isinstance(error, exceptions.ModelConnectionError) and not started:
        return unusable("MODEL_UNREACHABLE", str(error))
    if isinstance(error, exceptions.ModelAPIError) and isinstance(error.body, dict):
        return failure_of_error(error.body)
    if (
        isinstance(error, (exceptions.UserError, NotImplementedError, AssertionError))
        and not started
    ):
        return final("REQUEST_UNSUPPORTED", f"{type(error).__name__}: {error}")
    code = "STREAM_TRUNCATED" if started else "MODEL_ERROR"
    return unusable(code, f"{type(error).__name__}: {error}")
