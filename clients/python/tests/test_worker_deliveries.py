"""What a worker sends when it connects again, and in its heartbeats, to a scripted sidecar."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
from google.rpc import code_pb2, error_details_pb2, status_pb2

from pawl_client import AsyncTurn, Worker
from pawl_client.v1 import worker_pb2, worker_pb2_grpc
from workers import WAIT, serving


class Stream:
    """One stream of the scripted sidecar."""

    def __init__(self, requests: AsyncIterator[worker_pb2.WorkRequest], context: Any) -> None:
        self._requests, self._context = requests, context
        self.register = worker_pb2.WorkerRegistration()

    async def until(self, found: Callable[[worker_pb2.WorkRequest], bool]) -> None:
        """Reads requests until one is found."""
        async for request in self._requests:
            # All requests of a message are checked, also those after the one that ends the wait.
            met = [found(one) for one in (request, *request.more)]
            if any(met):
                return
        raise AssertionError("the worker's stream ended")

    async def begin(self) -> None:
        def registers(request: worker_pb2.WorkRequest) -> bool:
            self.register = request.register
            return request.HasField("register")

        await self.until(registers)

    async def registered(self, *kept: worker_pb2.TurnLease) -> None:
        registered = worker_pb2.WorkerRegistered(
            max_message_bytes=1 << 20, turn_capacity=2, step_capacity=2, kept_turns=kept
        )
        registered.heartbeat_interval.FromMilliseconds(20)
        await self._context.write(worker_pb2.WorkResponse(registered=registered))

    async def say(self, response: worker_pb2.WorkResponse) -> None:
        await self._context.write(response)

    async def step(self, step: int, delivery: int) -> None:
        lease = worker_pb2.StepLease(
            run_id="r", step=step, tool="book", attempt=1, token=f"step-{step}"
        )
        assignment = worker_pb2.StepAssignment(lease=lease, payload_json="{}", delivery=delivery)
        await self._context.write(worker_pb2.WorkResponse(step=assignment))

    async def turn(self, lease: worker_pb2.TurnLease) -> None:
        assignment = worker_pb2.TurnAssignment(lease=lease)
        assignment.turn.prompt = "p"
        assignment.turn.turn.turn_seq = lease.turn_seq
        assignment.turn.turn.attempt = lease.attempt
        await self._context.write(worker_pb2.WorkResponse(turn=assignment))


Part = Callable[[Stream], Awaitable[None]]


class Script(worker_pb2_grpc.WorkerServiceServicer):
    """A sidecar whose streams run these parts, one after the other."""

    def __init__(self, *parts: Part) -> None:
        self._parts = list(parts)
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    async def Work(self, requests: Any, context: Any) -> None:  # noqa: N802
        if not self._parts:
            await asyncio.shield(asyncio.Event().wait())
        stream, part = Stream(requests, context), self._parts.pop(0)
        try:
            await stream.begin()
            await part(stream)
            if not self._parts and not self.done.done():
                self.done.set_result(None)
        except AssertionError as error:
            if not self.done.done():
                self.done.set_exception(error)


async def play(build: Callable[[str], Worker], *parts: Part) -> None:
    script, server = Script(*parts), grpc.aio.server()
    worker_pb2_grpc.add_WorkerServiceServicer_to_server(script, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with serving(build(f"127.0.0.1:{port}")):
            await asyncio.wait_for(script.done, WAIT)
    finally:
        await server.stop(None)


async def test_deliveries_are_counted() -> None:
    """Each registration has the highest number of a step received on any stream, including steps
    that the worker refused."""
    instances: list[str] = []

    def says(stream: Stream, want: int) -> None:
        instances.append(stream.register.instance)
        assert stream.register.HasField("received_steps")
        assert stream.register.received_steps == want

    def answers(step: int) -> Callable[[worker_pb2.WorkRequest], bool]:
        return lambda request: request.resolve_step.step == step

    async def first(stream: Stream) -> None:
        says(stream, 0)
        await stream.registered()
        await stream.step(1, 3)
        await stream.step(2, 7)
        await stream.until(answers(2))

    async def second(stream: Stream) -> None:
        says(stream, 7)
        await stream.registered()
        await stream.step(3, 5)  # A lower number does not reduce the count.
        await stream.until(answers(3))

    async def third(stream: Stream) -> None:
        says(stream, 7)
        assert instances[0]
        assert instances == instances[:1] * 3

    def build(address: str) -> Worker:
        worker = Worker(address=address, worker_id="w", drain_timeout=0)

        @worker.tool("book")
        async def book(payload: object) -> int:
            return 1

        return worker

    await play(build, first, second, third)


def lease(attempt: int, delivery: int, token: str) -> worker_pb2.TurnLease:
    made = worker_pb2.TurnLease(
        run_id="r", turn_seq=2, attempt=attempt, delivery=delivery, token=token
    )
    made.duration.FromSeconds(60)
    return made


async def test_only_the_delivery_that_is_kept_goes_on() -> None:
    """The next attempt of a turn may arrive before the receipt for the failure of the previous
    one. Each heartbeat names both. If the stream breaks then, the worker keeps only the lease of
    the new attempt. With both, it would report the old failure under the new lease."""
    places = 0

    def fails(request: worker_pb2.WorkRequest) -> bool:
        return request.HasField("fail_turn")

    async def first(stream: Stream) -> None:
        await stream.registered()
        await stream.turn(lease(1, 1, "one"))
        await stream.until(fails)
        await stream.turn(lease(2, 2, "two"))
        await stream.until(lambda request: set(request.heartbeat.tokens) == {"one", "two"})

    async def second(stream: Stream) -> None:
        assert len(stream.register.held_turns) == 2
        await stream.registered(lease(2, 2, "kept"))

        def credited(request: worker_pb2.WorkRequest) -> bool:
            """One credit for the free place, one for the abandoned turn."""
            nonlocal places
            assert not fails(request), "a failure under the lease of another delivery"
            places += request.credits.turns
            return places == 2

        await stream.until(credited)

    def build(address: str) -> Worker:
        worker = Worker(address=address, worker_id="w", turns=2, drain_timeout=0)

        @worker.prompt("*")
        async def execute(turn: AsyncTurn) -> str:
            if turn.info.turn.attempt == 1:
                raise ValueError("it fails")
            await asyncio.Event().wait()
            return ""

        return worker

    await play(build, first, second)


async def test_an_answer_that_there_is_no_room_for_is_told_again() -> None:
    """If the worker reported an error or dropped the answer, the call would be made a second
    time."""
    told: list[tuple[int, str]] = []

    def answers(request: worker_pb2.WorkRequest) -> bool:
        if request.HasField("resolve_step"):
            told.append((request.id, request.resolve_step.result_json))
        return request.HasField("resolve_step")

    async def refuses(stream: Stream) -> None:
        await stream.registered()
        await stream.step(1, 1)
        for refusals in range(4):
            await stream.until(answers)
            receipt = worker_pb2.WorkReceipt(id=told[-1][0])
            if refusals < 3:
                receipt.error.CopyFrom(no_room())
            await stream.say(worker_pb2.WorkResponse(receipt=receipt))
        # The place of the step is free again.
        await stream.until(lambda request: request.credits.steps == 1)

    def build(address: str) -> Worker:
        worker = Worker(address=address, worker_id="w", drain_timeout=0)
        worker.tool("book")(lambda payload: {"seat": 1})
        return worker

    await play(build, refuses)
    assert [text for _, text in told] == ['{"seat":1}'] * 4


def no_room() -> status_pb2.Status:
    status = status_pb2.Status(code=code_pb2.RESOURCE_EXHAUSTED, message="no room")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="DISK_LOW", domain="pawl.dev"))
    retry = error_details_pb2.RetryInfo()
    retry.retry_delay.FromMilliseconds(1)
    status.details.add().Pack(retry)
    return status
