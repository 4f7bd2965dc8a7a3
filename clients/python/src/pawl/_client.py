"""The blocking client."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import grpc

from pawl._base import BaseClient, document, start_of
from pawl._errors import PawlError
from pawl._flow import Effect, Flow, Follow, Handle, Invoke, Operation, Sleep, T
from pawl._outcomes import RunResult
from pawl._packs import Pack, PackDetails, PackGraph, PackReport, RegisteredPack
from pawl._records import Record
from pawl._run import Handlers, Run, Tool
from pawl._runs import RunFilter, RunInfo
from pawl._status import error_from_rpc
from pawl._streams import STREAM, Tail
from pawl._values import Content, Json
from pawl.v1 import run_pb2


class Client(BaseClient):
    """A blocking client of one sidecar. Safe to share between threads.

    `address` is "HOST:PORT" or "unix:PATH" (default 127.0.0.1:7291). `token` is a bearer
    token or a function that returns one. `timeout` bounds each call in seconds,
    repetitions included; `retry_for` how long a call is repeated while the sidecar is
    away or asks to wait. Every writing call has an idempotency id that is kept over its
    repetitions, so that it takes effect once.

    Use it in a `with` statement or call `close`. Errors: see `PawlError`.

    >>> Client(address="127.0.0.1:7291", timeout=0)
    Traceback (most recent call last):
    ...
    ValueError: timeout: more than 0, not 0
    """

    def _connect(self) -> None:
        settings = self._settings
        if settings.tls is None:
            self._channel = grpc.insecure_channel(settings.address, settings.options())
        else:
            self._channel = grpc.secure_channel(
                settings.address, settings.tls.credentials(), settings.options()
            )
        self._methods: dict[str, Callable[..., Any]] = {}
        self._stream = self._channel.unary_stream(
            STREAM,
            request_serializer=run_pb2.StreamTransitionsRequest.SerializeToString,
            response_deserializer=run_pb2.StreamTransitionsResponse.FromString,
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection. Calls under way end with CallCancelledError."""
        self._channel.close()

    # Packs

    def validate_pack(
        self, source: Path | str | bytes, *, filename: str = "", strict_schema: str = ""
    ) -> PackReport:
        """Checks a document (a Path is read, str and bytes are the text) and stores
        nothing. `strict_schema` is "1.4.0", "1.5.0" or empty, the union of both."""
        content, name = document(source, filename)
        return self.call(self._packs.validate(content, name, strict_schema))

    def register_pack(
        self,
        source: Path | str | bytes,
        *,
        filename: str = "",
        make_default: bool = True,
        move_version: bool = False,
    ) -> RegisteredPack:
        """Checks and stores a document. The same bytes again are the same answer.

        Raises PackInvalidError, PackVersionTakenError.
        """
        content, name = document(source, filename)
        return self.call(self._packs.register(content, name, make_default, move_version))

    def get_pack(self, pack: str, *, include_content: bool = False) -> PackDetails:
        """A registered pack by "id", "id@version" or digest. Raises NotFoundError."""
        return self.call(self._packs.get(pack, include_content))

    def list_packs(self, *, page_size: int = 100) -> Iterator[Pack]:
        """All registered packs by id and version, read page by page."""
        token = ""
        while True:
            page, token = self.call(self._packs.list(page_size, token))
            yield from page
            if not token:
                return

    def pack_graph(self, pack: str, *, agent: str = "") -> PackGraph:
        """States and edges of one entry of a pack."""
        return self.call(self._packs.graph(pack, agent))

    # Runs

    def start(
        self,
        pack: str,
        *,
        agent: str = "",
        state: str = "",
        variables: Mapping[str, Json] | None = None,
        input: Content | None = None,
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        max_steps: int = 0,
    ) -> Run:
        """Starts a run and leaves its turns to workers.

        `pack` is "id", "id@version" or a digest; `agent` a member key; `state` another
        entry, by right of admin; `input` the first message; `request_id` an idempotency
        id of the caller's own (default: a fresh one, kept over repetitions).
        Raises NotFoundError, VariablesError, RequestError, LimitError.
        """
        return self._start("WORKERS", **_without_self(locals()))

    def run(
        self,
        pack: str,
        handler: Handlers,
        *,
        tools: Mapping[str, Tool] | None = None,
        agent: str = "",
        state: str = "",
        variables: Mapping[str, Json] | None = None,
        input: Content | None = None,
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        max_steps: int = 0,
    ) -> RunResult:
        """Starts a run and drives it until it ends or waits for something from outside.

        `handler` takes a Turn and returns a Reply (or None), or is a mapping from prompt
        to such a function. `tools` makes the tools named in it here; steps of others wait
        for a worker. The rest is as for `start`. A handler that raises fails its turn,
        which is retried as the pack says.
        """
        arguments = _without_self(locals())
        del arguments["handler"], arguments["tools"]
        return self._start("CALLER", **arguments).drive(handler, tools=tools)

    def open(
        self,
        pack: str,
        *,
        agent: str = "",
        state: str = "",
        variables: Mapping[str, Json] | None = None,
        input: Content | None = None,
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        max_steps: int = 0,
    ) -> Run:
        """Starts a run that the caller drives, and returns it undriven. As `start`."""
        return self._start("CALLER", **_without_self(locals()))

    def attach(self, run_id: str) -> Run:
        """A run by its id. Makes no call: an unknown id shows at the first one."""
        return Run(self, run_id)

    def list_runs(
        self, filter: RunFilter | None = None, *, order: str = "NEWEST_FIRST", page_size: int = 100
    ) -> Iterator[RunInfo]:
        """All runs under a filter, read page by page."""
        token = ""
        while True:
            page, token = self.call(self._runs.list(filter, order, page_size, token))
            yield from page
            if not token:
                return

    def transitions(
        self,
        filter: RunFilter | None = None,
        *,
        kinds: Sequence[str] = (),
        after_cursor: str = "",
        follow: bool = True,
        snapshots: bool = False,
        reconnect_for: float = 60.0,
    ) -> Iterator[Record]:
        """Records of all runs under a filter, in the order of the journal.

        As `Run.transitions`, but from a cursor (`Record.cursor`). With `follow` it
        never ends by itself.
        """
        return self.read(
            self._tail(
                "",
                0,
                after_cursor,
                runs=filter,
                kinds=kinds,
                follow=follow,
                snapshots=snapshots,
                reconnect_for=reconnect_for,
            )
        )

    def _start(self, execution: str, pack: str, **what: Any) -> Run:
        info = self.call(self._runs.start(start_of(pack, **what), execution))
        return Run(self, info.run_id)

    # Performing

    def call(self, operation: Operation[T], *, timeout: float | None = None) -> T:
        """Makes one call with repetitions."""
        return self.perform(self._attempt(operation, timeout))

    def perform(self, flow: Flow[T]) -> T:
        """Runs a flow to its end by blocking."""
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = flow.send(result) if error is None else flow.throw(error)
            except StopIteration as stop:
                value: T = stop.value
                return value
            try:
                result, error = self._effect(effect), None
            except BaseException as fault:
                result, error = None, fault

    def _effect(self, effect: Effect) -> Any:
        if isinstance(effect, Invoke):
            return self._invoke(effect)
        if isinstance(effect, Sleep):
            return time.sleep(effect.seconds)
        if isinstance(effect, Handle):
            return _plain(effect.function(*effect.arguments))
        return self._follow(effect)

    def _invoke(self, effect: Invoke) -> Any:
        operation = effect.operation
        method = self._methods.get(operation.path)
        if method is None:
            method = self._channel.unary_unary(
                operation.path,
                request_serializer=type(operation.request).SerializeToString,
                response_deserializer=operation.response.FromString,
            )
            self._methods[operation.path] = method
        try:
            return method(
                operation.request, timeout=effect.timeout, metadata=self._settings.metadata()
            )
        except grpc.RpcError as error:
            raise error_from_rpc(error) from None

    def _follow(self, effect: Follow) -> Record | None:
        tail = self._tail(
            effect.run_id,
            effect.after_seq,
            "",
            runs=None,
            kinds=effect.kinds,
            follow=True,
            snapshots=False,
            reconnect_for=self._settings.retry_for,
        )
        with contextlib.closing(self.read(tail, timeout=effect.timeout)) as records:
            return next((record for record in records if effect.enough(record)), None)

    def read(self, tail: Tail, *, timeout: float | None = None) -> Generator[Record, None, None]:
        """Records of a tail, over as many connections as it takes. `timeout` ends it."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            try:
                yield from self._read_once(tail, end)
                return
            except PawlError as error:
                if end is not None and time.monotonic() >= end:
                    return
                pause = tail.pause(error)
            time.sleep(pause)

    def _read_once(self, tail: Tail, end: float | None) -> Iterator[Record]:
        left = None if end is None else max(end - time.monotonic(), 0.001)
        call = self._stream(tail.request(), timeout=left, metadata=self._settings.metadata())
        try:
            for item in call:
                record = tail.read(item)
                if record is not None:
                    yield record
        except grpc.RpcError as error:
            raise error_from_rpc(error) from None
        finally:
            call.cancel()


def _plain(value: Any) -> Any:
    """Refuses a coroutine, which nothing here would ever run."""
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise TypeError("a coroutine function as handler needs AsyncClient")
    return value


def _without_self(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "self"}
