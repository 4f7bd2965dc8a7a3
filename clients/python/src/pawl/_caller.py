"""Performs the calls of the blocking client."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import grpc

from pawl._base import BaseClient
from pawl._errors import PawlError
from pawl._flow import Effect, Flow, Follow, Handle, Invoke, Operation, Send, Sleep
from pawl._records import Record
from pawl._status import error_from_rpc
from pawl._streams import Reader

T = TypeVar("T")


class Caller(BaseClient):
    """The channel of a client, and how flows are performed by blocking."""

    def _connect(self) -> None:
        settings = self._settings
        if settings.tls is None:
            self._channel = grpc.insecure_channel(settings.address, settings.options())
        else:
            self._channel = grpc.secure_channel(
                settings.address, settings.tls.credentials(), settings.options()
            )
        self._methods: dict[str, Callable[..., Any]] = {}

    def close(self) -> None:
        """Closes the connection. Calls under way end with CallCancelledError."""
        self._channel.close()

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
        if isinstance(effect, Send):
            return self._send(effect)
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
        return self._with_token(
            lambda metadata: method(operation.request, timeout=effect.timeout, metadata=metadata)
        )

    def _send(self, effect: Send) -> Any:
        method = self._channel.stream_unary(
            effect.path,
            request_serializer=effect.request.SerializeToString,
            response_deserializer=effect.response.FromString,
        )
        return self._with_token(
            lambda metadata: method(
                iter(effect.messages()), timeout=effect.timeout, metadata=metadata
            )
        )

    def _with_token(self, call: Callable[[Any], Any]) -> Any:
        """Makes a call; one whose token was rotated meanwhile, once more."""
        try:
            return call(self._settings.metadata())
        except grpc.RpcError as error:
            failure = error_from_rpc(error, self._settings.address)
            if not self._settings.may_renew(failure):
                raise failure from None
        try:
            return call(self._settings.metadata())
        except grpc.RpcError as error:
            raise error_from_rpc(error, self._settings.address) from None

    def _follow(self, effect: Follow) -> Record | None:
        tail = self._follower(effect)
        with contextlib.closing(self.read(tail, timeout=effect.timeout)) as records:
            return next((record for record in records if effect.enough(record)), None)

    def read(self, reader: Reader[T], *, timeout: float | None = None) -> Generator[T, None, None]:
        """What a reader reads, over as many connections as it takes. `timeout` ends it."""
        end = None if timeout is None else time.monotonic() + timeout
        renewed = False
        while True:
            try:
                with contextlib.closing(self._read_once(reader, end)) as values:
                    for value in values:
                        renewed = False
                        yield value
                reader.end()
                return
            except PawlError as error:
                if end is not None and time.monotonic() >= end:
                    return
                if self._settings.may_renew(error) and not renewed:
                    renewed = True
                    continue
                pause = reader.pause(error)
            time.sleep(pause)

    def _read_once(self, reader: Reader[T], end: float | None) -> Generator[T, None, None]:
        stream: Callable[..., Any] = self._channel.unary_stream(
            reader.path,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=reader.response.FromString,
        )
        left = None if end is None else max(end - time.monotonic(), 0.001)
        call = stream(reader.request(), timeout=left, metadata=self._settings.metadata())
        try:
            for item in call:
                value = reader.read(item)
                if value is not None:
                    yield value
        except grpc.RpcError as error:
            raise error_from_rpc(error, self._settings.address) from None
        finally:
            call.cancel()


def _plain(value: Any) -> Any:
    """Refuses a coroutine, which nothing here would ever run."""
    if hasattr(value, "__await__"):
        if hasattr(value, "close"):
            value.close()
        raise TypeError("coroutines (a handler, a tool, pieces of a blob) need AsyncClient")
    return value
