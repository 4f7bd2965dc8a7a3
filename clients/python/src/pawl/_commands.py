"""The calls of a client's drivers as commands of one stream, without the stream itself.

Pure: whoever has the stream sends what `take` gives, hands in what it reads, and says
when the stream is over. Not safe between threads.
"""

from __future__ import annotations

from collections import deque
from copy import copy
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message

from pawl._errors import (
    AuthenticationError,
    CallCancelledError,
    DeadlineError,
    PawlError,
    PermissionDeniedError,
    ServerError,
    UnavailableError,
)
from pawl._status import error_from_status
from pawl.v1 import run_pb2

_DRIVE = "/pawl.v1.RunService/Drive"
_MOST_BYTES = 64 << 10
"""Size up to which commands share a message: every sidecar takes that (its limit of
messages is 64 KiB at least), and a message that it does not take would end the stream for
all. A larger request is a call of its own."""
_FRAME_BYTES = 24
"""What being a command adds to a request at most."""
_FIELDS: dict[type[Message], str] = {
    type(getattr(run_pb2.DriveCommand(), field.name)): field.name
    for field in run_pb2.DriveCommand.DESCRIPTOR.oneofs_by_name["command"].fields
}
"""The field of a command by the type of its request."""


def method_of(channel: Any) -> Any:
    """What opens the stream on a channel."""
    return channel.stream_stream(
        _DRIVE,
        request_serializer=run_pb2.DriveRequest.SerializeToString,
        response_deserializer=run_pb2.DriveResponse.FromString,
    )


def late(address: str) -> DeadlineError:
    """The error of a command whose time is over, as a single call has it."""
    return DeadlineError(f"sidecar at {address}: Deadline Exceeded", code="DEADLINE_EXCEEDED")


class StreamRefusedError(Exception):
    """The stream ended before the sidecar announced its window: nothing of it was done.
    The call can be made by itself."""


class StreamUnknownError(StreamRefusedError):
    """The sidecar has no such stream (UNIMPLEMENTED)."""


class Promise(Protocol):
    """A future of asyncio, or of threads."""

    def done(self) -> bool:
        """Nobody waits for it any more, or it has its answer."""

    def set_result(self, result: Any, /) -> None:
        """Gives the answer."""

    def set_exception(self, exception: Any, /) -> None:
        """Gives the error."""


@dataclass(slots=True)
class _Waiting:
    command: run_pb2.DriveCommand
    size: int
    promise: Promise


class Commands:
    """The commands of one stream: those that wait to be sent, and those without answer.

    Commands of one run are done in the order in which they were put in. At most `window`
    are under way, none before the sidecar has said what it takes: a stream that it refuses
    ends without a message that met the end, whose error gRPC would tell in its place.
    """

    def __init__(self) -> None:
        self._window = 0
        self._last = 0
        self._waiting: deque[_Waiting] = deque()
        self._open: dict[int, Promise] = {}
        self._over: Exception | None = None

    @staticmethod
    def takes(request: Message) -> bool:
        """Whether a request can be a command: of its kind, and of its size."""
        known = type(request) in _FIELDS
        return known and request.ByteSize() <= _MOST_BYTES - _FRAME_BYTES

    @property
    def over(self) -> bool:
        """The stream is over: the next command needs another one."""
        return self._over is not None

    @property
    def ready(self) -> bool:
        """Something waits to be sent, and there is room for it."""
        return bool(self._waiting) and len(self._open) < self._window

    def put(self, request: Message, promise: Promise) -> None:
        """Takes a command, whose answer the promise gets: the response, or a PawlError;
        on a stream that broke UnavailableError, or StreamRefusedError."""
        if self._over is not None:
            promise.set_exception(_again(self._over))
            return
        self._last += 1
        field = _FIELDS[type(request)]
        command = run_pb2.DriveCommand(id=self._last, **{field: request})  # type: ignore[arg-type]
        self._waiting.append(_Waiting(command, command.ByteSize() + _FRAME_BYTES, promise))

    def take(self) -> run_pb2.DriveRequest | None:
        """The next message: as much of what waits as there is room for; None: nothing."""
        commands: list[run_pb2.DriveCommand] = []
        total = 0
        while self._waiting and len(self._open) < self._window:
            first = self._waiting[0]
            if commands and total + first.size > _MOST_BYTES:
                break
            self._waiting.popleft()
            if first.promise.done():
                continue  # Its time was over before it was sent.
            total += first.size
            self._open[first.command.id] = first.promise
            commands.append(first.command)
        return run_pb2.DriveRequest(commands=commands) if commands else None

    def read(self, response: run_pb2.DriveResponse) -> None:
        """Gives answers to whoever waits for them."""
        if response.window:
            self._window = response.window
        for answer in response.answers:
            promise = self._open.pop(answer.id, None)
            if promise is None or promise.done():
                continue
            kind = answer.WhichOneof("answer")
            if kind is None:
                promise.set_exception(ServerError("the sidecar answered a command with nothing"))
            elif kind == "error":
                promise.set_exception(error_from_status(answer.error))
            else:
                promise.set_result(getattr(answer, kind))

    def end(self, error: PawlError | None) -> None:
        """The stream is over; None: the sidecar ended it as if all were well. Of what has
        no answer nobody knows whether it was done."""
        if self._over is None:
            self._finish(_lost(error) if error is None or self._window else _refused(error))

    def close(self) -> None:
        """The client ended the stream, so that nobody asks again; as `end`."""
        if self._over is None:
            self._finish(CallCancelledError("the client was closed"))

    def _finish(self, over: Exception) -> None:
        self._over = over
        promises = [*self._open.values(), *(waiting.promise for waiting in self._waiting)]
        self._open.clear()
        self._waiting.clear()
        for promise in promises:
            if not promise.done():
                promise.set_exception(_again(over))


def _lost(error: PawlError | None) -> PawlError:
    """The error of commands whose stream ended. It says nothing of any of them, so they
    are asked again, unless who asks may not."""
    if isinstance(error, (UnavailableError, AuthenticationError, PermissionDeniedError)):
        return error
    text = "the stream ended" if error is None else f"the stream ended: {error.message}"
    wait = None if error is None else error.retry_after
    lost = UnavailableError(text, code="UNAVAILABLE", retry_after=wait)
    lost.__cause__ = error
    return lost


def _refused(error: PawlError) -> Exception:
    """The error of commands whose stream was not opened: it is theirs where a single call
    would have it too."""
    if isinstance(error, (UnavailableError, AuthenticationError, PermissionDeniedError)):
        return error
    if isinstance(error, CallCancelledError):
        return error  # The channel was closed.
    refused = StreamUnknownError() if error.code == "UNIMPLEMENTED" else StreamRefusedError()
    refused.__cause__ = error
    return refused


def _again(error: Exception) -> Exception:
    """The same error for somebody else, with a traceback of its own."""
    one = copy(error)
    one.__cause__ = error.__cause__
    return one
