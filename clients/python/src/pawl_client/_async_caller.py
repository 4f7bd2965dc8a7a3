"""Performs the calls of a client."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any, TypeVar

import grpc

from pawl_client._async_io import ClientChannel, call_handler, closing, sleep
from pawl_client._async_serve import RunServer
from pawl_client._client_base import BaseClient
from pawl_client._errors import PawlError
from pawl_client._flow import Effect, Flow, Handle, Invoke, Operation, Send
from pawl_client._status import error_from_rpc
from pawl_client._streams import Reader

T = TypeVar("T")


class AsyncCaller(BaseClient):
    """The channel of a client. It performs the client's flows."""

    def _connect(self) -> None:
        self._channel = ClientChannel(self._settings)
        self._run_server = RunServer(self._settings)
        self._methods: dict[str, Callable[..., Any]] = {}

    async def close(self) -> None:
        """Closes the connection. Active calls end with CallCancelledError."""
        self._methods = {}
        await self._run_server.close()
        await self._channel.close()

    async def call(self, operation: Operation[T], *, timeout: float | None = None) -> T:
        """Makes one call, with repetitions."""
        return await self.perform(self._attempt(operation, timeout))

    async def perform(self, flow: Flow[T]) -> T:
        """Runs a flow to its end."""
        result: Any = None
        error: BaseException | None = None
        while True:
            try:
                effect = flow.send(result) if error is None else flow.throw(error)
            except StopIteration as stop:
                value: T = stop.value
                return value
            try:
                result, error = await self._effect(effect), None
            except BaseException as fault:
                result, error = None, fault

    async def _effect(self, effect: Effect) -> Any:
        if isinstance(effect, Invoke):
            return await self._unary(effect)
        if isinstance(effect, Send):
            return await self._send(effect)
        if isinstance(effect, Handle):
            return await call_handler(effect.function, effect.arguments)
        return await sleep(effect.seconds)

    async def _unary(self, effect: Invoke) -> Any:
        operation = effect.operation
        method = self._methods.get(operation.path)
        if method is None:
            method = self._methods[operation.path] = self._channel.channel.unary_unary(
                operation.path,
                request_serializer=type(operation.request).SerializeToString,
                response_deserializer=operation.response.FromString,
            )
        return await self._with_token(
            lambda metadata: method(operation.request, timeout=effect.timeout, metadata=metadata)
        )

    async def _send(self, effect: Send) -> Any:
        method = self._channel.channel.stream_unary(
            effect.path,
            request_serializer=effect.request.SerializeToString,
            response_deserializer=effect.response.FromString,
        )
        return await self._with_token(
            lambda metadata: method(
                iter(effect.messages()), timeout=effect.timeout, metadata=metadata
            )
        )

    async def _with_token(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        """Makes a call, and makes it once more if its token was rotated."""
        try:
            return await call(self._settings.metadata())
        except grpc.RpcError as error:
            failure = error_from_rpc(error, self._settings)
            if not self._settings.may_renew(failure):
                raise failure from None
        try:
            return await call(self._settings.metadata())
        except grpc.RpcError as error:
            raise error_from_rpc(error, self._settings) from None

    async def read(
        self, reader: Reader[T], *, timeout: float | None = None
    ) -> AsyncGenerator[T, None]:
        """Yields the values of a reader, and reconnects after lost connections. It ends after
        `timeout`.
        """
        end = None if timeout is None else time.monotonic() + timeout
        renewed = False
        while True:
            try:
                async with closing(self._read_once(reader, end)) as values:
                    async for value in values:
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
            await sleep(pause)

    async def _read_once(self, reader: Reader[T], end: float | None) -> AsyncGenerator[T, None]:
        stream: Callable[..., Any] = self._channel.channel.unary_stream(
            reader.path,
            request_serializer=lambda request: request.SerializeToString(),
            response_deserializer=reader.response.FromString,
        )
        left = None if end is None else max(end - time.monotonic(), 0.001)
        call = stream(reader.request(), timeout=left, metadata=self._settings.metadata())
        reader.reading(call)
        try:
            async for item in call:
                value = reader.read(item)
                if value is not None:
                    yield value
                if reader.over():
                    return
        except grpc.RpcError as error:
            if reader.over():
                return
            raise error_from_rpc(error, self._settings) from None
        finally:
            call.cancel()
