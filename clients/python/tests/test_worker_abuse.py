"""Workers that break the protocol: the answers of the sidecar, as errors of this package.

They use `WorkerSession` directly, since `Worker` does none of this.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator

import grpc
import pytest

from conftest import STEPS
from pawl_client import (
    Client,
    LimitError,
    NotFoundError,
    OverloadedError,
    PawlError,
    RecordKind,
    Reply,
    RequestError,
    Run,
    RunStatus,
    TurnRef,
    TurnTokenError,
    Worker,
    WorkerReplacedError,
)
from pawl_client._convert import from_proto
from pawl_client._settings import Settings
from pawl_client._turn_requests import complete_request
from pawl_client._worker_session import WORK, WorkerSession
from pawl_client.testing import Sidecar
from pawl_client.v1 import run_pb2, worker_pb2
from workers import WAIT, ended, serving


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    with Sidecar(packs=[STEPS], allow_tools=["*"]) as process:
        yield process


@pytest.fixture
def here(shared: Sidecar) -> Iterator[Client]:
    with shared.client() as client:
        yield client


class Raw:
    """One stream of a worker, whose messages the test writes."""

    def __init__(self, session: WorkerSession) -> None:
        self.session = session
        self.turns: asyncio.Queue[worker_pb2.TurnAssignment] = asyncio.Queue()
        self.end: asyncio.Task[PawlError] | None = None

    async def register(self, **registration: object) -> worker_pb2.WorkerRegistered:
        register = worker_pb2.WorkerRegistration(**registration)  # type: ignore[arg-type]
        one = worker_pb2.WorkCredits(turns=1)
        request = worker_pb2.WorkRequest(register=register, credits=one)
        answer = await self.session.register(request)
        self.end = asyncio.create_task(self.session.receive(self._take))
        return answer

    def _take(self, response: worker_pb2.WorkResponse) -> None:
        if response.WhichOneof("item") == "turn":
            self.turns.put_nowait(response.turn)

    async def turn(self) -> worker_pb2.TurnAssignment:
        return await asyncio.wait_for(self.turns.get(), WAIT)

    async def ask(self, **item: object) -> worker_pb2.WorkReceipt:
        request = worker_pb2.WorkRequest(**item)  # type: ignore[arg-type]
        return await asyncio.wait_for(self.session.request_receipt(request), WAIT)


@contextlib.asynccontextmanager
async def raw(sidecar: Sidecar) -> AsyncIterator[Callable[[], Raw]]:
    """Makes streams to a sidecar."""
    made: list[Raw] = []
    async with grpc.aio.insecure_channel(sidecar.address) as channel:
        work = channel.stream_stream(
            WORK,
            request_serializer=worker_pb2.WorkRequest.SerializeToString,
            response_deserializer=worker_pb2.WorkResponse.FromString,
        )

        def make() -> Raw:
            made.append(Raw(WorkerSession(work(), Settings(address="there:1"))))
            return made[-1]

        try:
            yield make
        finally:
            for stream in made:
                stream.session.close()
            ends = [stream.end for stream in made if stream.end is not None]
            await asyncio.gather(*ends, return_exceptions=True)


def completion(turn: worker_pb2.TurnAssignment, token: str) -> run_pb2.CompleteTurnRequest:
    ref: TurnRef = from_proto(turn.turn.turn)
    request = complete_request("", ref, Reply(event="Done"), (), "")
    request.turn_token = token
    return request


async def finish(sidecar: Sidecar, run: Run) -> None:
    """A correct worker completes the run, which shows that nothing of the run was lost."""
    worker = Worker(address=sidecar.address)
    worker.prompt("calc")(lambda turn: Reply(event="" if turn.terminal else "Done"))
    async with serving(worker):
        assert await ended(run) is RunStatus.COMPLETED
    assert list(run.records(kinds=[RecordKind.TURN_FAILED])) == []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("prompt", "UNKNOWN_PROMPT"), ("agent", "UNKNOWN_AGENT"), ("tool", "UNKNOWN_TOOL")],
)
async def test_names_that_no_pack_has(shared: Sidecar, kind: str, reason: str) -> None:
    worker = Worker(address=shared.address)
    getattr(worker, kind)("no_such_thing")(lambda _: None)
    with pytest.raises(RequestError) as caught:
        await asyncio.wait_for(worker.serve(), WAIT)
    assert caught.value.reason == reason
    if kind != "agent":
        assert caught.value.allowed


async def test_a_pack_that_is_not_registered(shared: Sidecar) -> None:
    worker = Worker(address=shared.address, packs=["no-such-pack"])
    worker.prompt("*")(lambda turn: None)
    with pytest.raises(NotFoundError) as caught:
        await asyncio.wait_for(worker.serve(), WAIT)
    assert caught.value.reason == "PACK_NOT_FOUND"


async def test_unknown_names_that_are_allowed(shared: Sidecar) -> None:
    async with raw(shared) as stream:
        registered = await stream().register(
            worker_id="early", prompts=["later"], tools=["soon"], allow_unknown=True
        )
    assert list(registered.unknown) == ["prompt:later", "tool:soon"]


async def test_the_same_worker_twice(shared: Sidecar) -> None:
    first = Worker(address=shared.address, worker_id="twin")
    first.prompt("calc")(lambda turn: None)
    async with raw(shared) as stream:
        served = asyncio.create_task(first.serve())
        second = stream()
        # The first worker receives the error when the second one has registered after it.
        while not served.done():
            await second.register(worker_id="twin", prompts=["calc"])
            await asyncio.wait({served}, timeout=0.2)
            second.session.close()
            second = stream()
        with pytest.raises(WorkerReplacedError):
            await served


async def test_a_flood_of_heartbeats(shared: Sidecar, here: Client) -> None:
    run = here.start("steps", variables={"n": 1})
    async with raw(shared) as stream:
        worker = stream()
        await worker.register(worker_id="flood", prompts=["calc"], turn_capacity=1)
        turn = await worker.turn()
        beat = {"heartbeat": worker_pb2.WorkerHeartbeat()}
        beats = [worker.ask(**beat) for _ in range(1000)]
        answers = await asyncio.gather(*beats, return_exceptions=True)
        refused = [answer for answer in answers if isinstance(answer, BaseException)]
        assert refused
        for error in refused:
            assert isinstance(error, OverloadedError)
            assert error.reason == "RATE_LIMITED"
            assert error.retry_after
        # The worker still holds its turn, and may complete it.
        done = await worker.ask(complete_turn=completion(turn, turn.lease.token))
        assert done.complete_turn.state == "end"
    await finish(shared, run)


async def test_the_turn_of_another_worker(shared: Sidecar, here: Client) -> None:
    run = here.start("steps", variables={"n": 1})
    async with raw(shared) as stream:
        holder, thief = stream(), stream()
        await holder.register(worker_id="holder", prompts=["calc"], turn_capacity=1)
        turn = await holder.turn()
        # A registration does not let a worker keep a turn of another worker.
        registered = await thief.register(
            worker_id="thief", prompts=["calc"], turn_capacity=1, held_turns=[turn.lease]
        )
        assert list(registered.kept_turns) == []
        for token in (turn.lease.token, "guessed"):
            with pytest.raises(TurnTokenError) as caught:
                await thief.ask(complete_turn=completion(turn, token))
            assert caught.value.reason in ("TURN_TOKEN_STALE", "TURN_LEASED")
            with pytest.raises(TurnTokenError):
                await thief.ask(output=worker_pb2.WorkerOutput(token=token, text="mine"))
            with pytest.raises(TurnTokenError):
                await thief.ask(release=worker_pb2.WorkRelease(turn_token=token))
            beat = worker_pb2.WorkerHeartbeat(tokens=[token])
            assert list((await thief.ask(heartbeat=beat)).heartbeat.lost) == [token]
        done = await holder.ask(complete_turn=completion(turn, turn.lease.token))
        assert done.complete_turn.state == "end"
    await finish(shared, run)


async def test_a_second_registration(shared: Sidecar) -> None:
    async with raw(shared) as stream:
        worker = stream()
        await worker.register(worker_id="again", prompts=["calc"])
        with pytest.raises(RequestError) as caught:
            await worker.ask(register=worker_pb2.WorkerRegistration(worker_id="again"))
        assert caught.value.reason == "ALREADY_REGISTERED"
        assert worker.end is not None
        assert not worker.end.done()


async def test_no_registration(shared: Sidecar) -> None:
    async with raw(shared) as stream:
        with pytest.raises(RequestError) as caught:
            await stream().session.register(
                worker_pb2.WorkRequest(heartbeat=worker_pb2.WorkerHeartbeat())
            )
    assert caught.value.reason == "REGISTRATION_REQUIRED"


async def test_a_message_that_is_too_large(shared: Sidecar, here: Client) -> None:
    """The worker does not send the message at all: it would end the stream, and with it all that
    the worker holds."""
    run = here.start("steps", variables={"n": 1})
    async with raw(shared) as stream:
        worker = stream()
        await worker.register(worker_id="large", prompts=["calc"], turn_capacity=1)
        turn = await worker.turn()
        request = completion(turn, turn.lease.token)
        request.output.add(text="x" * 10_000_000)
        with pytest.raises(LimitError) as caught:
            await worker.ask(complete_turn=request)
        assert caught.value.reason == "MESSAGE_TOO_LARGE"
        assert caught.value.limit == 4 << 20
        del request.output[:]
        assert (await worker.ask(complete_turn=request)).complete_turn.state == "end"
    await finish(shared, run)
