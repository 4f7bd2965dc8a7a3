"""The drivers of a client share one stream, and promise there what single calls do."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.rpc import code_pb2, error_details_pb2, status_pb2

from conftest import STEPS
from pawl import (
    AsyncClient,
    AsyncTurn,
    CallCancelledError,
    Client,
    DeadlineError,
    LimitError,
    PawlError,
    PermissionDeniedError,
    Reply,
    RunResult,
    RunStatus,
    SeqMismatchError,
    ServerError,
    Turn,
    TurnView,
    UnavailableError,
)
from pawl._commands import Commands, StreamRefusedError, StreamUnknownError
from pawl.testing import Sidecar
from pawl.v1 import record_pb2, run_pb2
from proxy import Proxy
from workers import WAIT, variant

FLAVOURS = ["blocking", "coroutines"]


@pytest.fixture(scope="module")
def shared() -> Iterator[Sidecar]:
    large = ["--limits-artifact-bytes=2MiB", "--limits-run-artifact-bytes=4MiB"]
    with Sidecar(packs=[STEPS], allow_tools=["*"], flags=large) as process:
        with process.client() as client:
            client.register_pack(variant(STEPS, "large", {"max_artifact_bytes": 4 << 20}))
        yield process


def count_to(most: int) -> Callable[[TurnView], Reply]:
    """A handler of one run: so many visits of `calc`, each of which writes its number."""

    def handle(turn: TurnView) -> Reply:
        if turn.terminal:
            return Reply()
        event = "Done" if turn.visit >= most else "Again"
        return Reply(event=event, artifacts={"log": str(turn.visit)})

    return handle


async def drive(
    flavour: str, runs: int, handler: Any, pack: str = "steps", **settings: Any
) -> list[RunResult]:
    """Drives many runs at once with one client."""
    if flavour == "coroutines":
        async with AsyncClient(**settings) as client:
            many = (client.run(pack, handler, variables={"n": 1}) for _ in range(runs))
            return await asyncio.wait_for(asyncio.gather(*many), WAIT)
    with Client(**settings) as blocking:
        each = (
            asyncio.to_thread(blocking.run, pack, handler, variables={"n": 1}) for _ in range(runs)
        )
        return await asyncio.wait_for(asyncio.gather(*each), WAIT)


def check(results: list[RunResult], turns: int) -> None:
    """Each turn took effect once, in each run."""
    for result in results:
        assert result.status is RunStatus.COMPLETED
        assert result.errors == ()
        assert result.run.visits == {"calc": turns, "end": 1}
        assert result.artifacts["log"] == "\n".join(str(n + 1) for n in range(turns))


class Middleman(grpc.GenericRpcHandler):
    """A server that hands single calls on to a sidecar, and behaves on Drive as it is told.

    `calls` are the names of the calls that it got. `drive` is what it does with a stream;
    None: it knows no such call.
    """

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self.calls: list[str] = []
        self.drive: Callable[[Iterator[bytes], grpc.ServicerContext], Iterator[Any]] | None = None

    def service(self, details: grpc.HandlerCallDetails) -> Any:
        name = details.method.rpartition("/")[2]
        self.calls.append(name)
        if name != "Drive":
            return grpc.unary_unary_rpc_method_handler(self._handing_on(details.method))
        if self.drive is None:
            return None
        behave = self.drive

        def answer(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
            for message in behave(requests, context):
                yield message.SerializeToString()

        return grpc.stream_stream_rpc_method_handler(answer)

    def _handing_on(self, method: str) -> Callable[[bytes, grpc.ServicerContext], bytes]:
        def hand_on(request: bytes, context: grpc.ServicerContext) -> bytes:
            try:
                call: Callable[..., bytes] = self._channel.unary_unary(method)
                return call(request, timeout=WAIT)
            except grpc.RpcError as fault:
                error: Any = fault
                context.set_trailing_metadata(error.trailing_metadata())
                context.abort(error.code(), error.details())
                raise

        return hand_on


@contextlib.contextmanager
def serve(middleman: Middleman) -> Iterator[str]:
    server = grpc.server(ThreadPoolExecutor(16))
    server.add_generic_rpc_handlers([middleman])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait(WAIT)


@pytest.fixture
def middleman(shared: Sidecar) -> Iterator[tuple[Middleman, str]]:
    with grpc.insecure_channel(shared.address) as channel:
        one = Middleman(channel)
        with serve(one) as address:
            yield one, address


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_many_runs_share_messages(
    shared: Sidecar, flavour: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[int] = []
    take = Commands.take

    def seen(commands: Commands) -> run_pb2.DriveRequest | None:
        message = take(commands)
        messages.extend([] if message is None else [len(message.commands)])
        return message

    monkeypatch.setattr(Commands, "take", seen)
    results = await drive(flavour, 16, count_to(5), address=shared.address)
    check(results, 5)
    # One get_turn for each run, then for each of its six turns one pair of calls.
    assert sum(messages) == 16 * (1 + 2 * 6)
    assert len(messages) < 16 * (1 + 6), "no message has the commands of two runs"


async def test_coroutine_handlers_run_side_by_side(shared: Sidecar) -> None:
    here, everybody = 0, asyncio.Event()

    async def handle(turn: AsyncTurn) -> Reply:
        nonlocal here
        if turn.terminal:
            return Reply()
        here += 1
        if here == 8:
            everybody.set()
        await everybody.wait()
        return Reply(event="Done")

    results = await drive("coroutines", 8, handle, address=shared.address)
    assert {result.status for result in results} == {RunStatus.COMPLETED}


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_links_that_break(shared: Sidecar, flavour: str) -> None:
    """What has no answer is sent again, with the same ids: each turn takes effect once."""
    turns, breaks = 25, 4
    with Proxy(shared.address) as proxy:
        count = 0
        each = count_to(turns)
        lock = threading.Lock()

        def handle(turn: Turn) -> Reply:
            nonlocal count
            with lock:
                count += 1
                if count % 25 == 0 and proxy.cuts < breaks:
                    proxy.cut_after = 700  # In the midst of one of the next messages.
            return each(turn)

        check(await drive(flavour, 4, handle, address=proxy.address), turns)
        assert proxy.cuts >= 2


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_sidecar_without_the_stream(middleman: tuple[Middleman, str], flavour: str) -> None:
    server, address = middleman
    check(await drive(flavour, 3, count_to(3), address=address), 3)
    assert 1 <= server.calls.count("Drive") <= 3
    assert server.calls.count("CompleteTurn") == 3 * 4


def refusing(code: grpc.StatusCode) -> Any:
    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
        context.abort(code, "no")
        yield from ()

    return behave


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (grpc.StatusCode.PERMISSION_DENIED, PermissionDeniedError),
        (grpc.StatusCode.UNAVAILABLE, UnavailableError),
    ],
)
async def test_an_error_that_single_calls_would_have_too(
    middleman: tuple[Middleman, str], flavour: str, code: grpc.StatusCode, error: type[Exception]
) -> None:
    server, address = middleman
    server.drive = refusing(code)
    with pytest.raises(error):
        await drive(flavour, 1, count_to(1), address=address, retry_for=0)
    assert server.calls == ["StartRun", "Drive"]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize("code", [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL])
async def test_a_stream_that_is_refused(
    middleman: tuple[Middleman, str], flavour: str, code: grpc.StatusCode
) -> None:
    """The calls are made by themselves; the next one tries the stream again."""
    server, address = middleman
    server.drive = refusing(code)
    check(await drive(flavour, 1, count_to(2), address=address, retry_for=0), 2)
    assert server.calls[:4] == ["StartRun", "Drive", "GetTurn", "Drive"]


@pytest.mark.parametrize("flavour", FLAVOURS)
@pytest.mark.parametrize(
    "code",
    [grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.INTERNAL, grpc.StatusCode.CANCELLED],
)
async def test_a_stream_that_ends_fails_no_turn(
    middleman: tuple[Middleman, str], flavour: str, shared: Sidecar, code: grpc.StatusCode
) -> None:
    """Whatever it ends with was said of nobody's command: they are sent again."""
    server, address = middleman
    streams = 0

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
        nonlocal streams
        streams += 1
        mine = streams
        with grpc.insecure_channel(shared.address) as channel:
            method: Any = channel.stream_stream("/pawl.v1.RunService/Drive")
            told = method(requests)
            for number, raw in enumerate(told):
                if mine <= 2 and number == 2:
                    context.abort(code, "no")
                yield run_pb2.DriveResponse.FromString(raw)

    server.drive = behave
    check(await drive(flavour, 4, count_to(3), address=address), 3)
    assert streams > 2
    assert "FailTurn" not in server.calls


def silent(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
    """Announces a window and answers nothing."""
    yield run_pb2.DriveResponse(window=8)
    for _ in requests:
        pass


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_command_without_answer(middleman: tuple[Middleman, str], flavour: str) -> None:
    server, address = middleman
    server.drive = silent
    with pytest.raises(DeadlineError) as caught:
        await drive(flavour, 2, count_to(1), address=address, timeout=0.3)
    assert caught.value.code == "DEADLINE_EXCEEDED"
    assert address in str(caught.value)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_client_that_is_closed_meanwhile(
    middleman: tuple[Middleman, str], flavour: str
) -> None:
    server, address = middleman
    reached = threading.Event()

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
        yield run_pb2.DriveResponse(window=8)
        for _ in requests:
            reached.set()

    server.drive = behave
    if flavour == "coroutines":
        aclient = AsyncClient(address=address)
        task = asyncio.create_task(aclient.run("steps", count_to(1), variables={"n": 1}))
        assert await asyncio.to_thread(reached.wait, WAIT)
        await aclient.close()
    else:
        client = Client(address=address)
        task = asyncio.create_task(
            asyncio.to_thread(client.run, "steps", count_to(1), variables={"n": 1})
        )
        assert await asyncio.to_thread(reached.wait, WAIT)
        client.close()
    with pytest.raises(CallCancelledError):
        await asyncio.wait_for(task, WAIT)


async def test_a_driver_that_is_cancelled_keeps_nobody_else(shared: Sidecar) -> None:
    entered, never = asyncio.Event(), asyncio.Event()

    async def stuck(turn: AsyncTurn) -> Reply:
        entered.set()
        await never.wait()
        return Reply()

    async with shared.async_client() as client:
        task = asyncio.create_task(client.run("steps", stuck, variables={"n": 1}))
        await asyncio.wait_for(entered.wait(), WAIT)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        check([await client.run("steps", count_to(3), variables={"n": 1})], 3)


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_a_token_that_was_withdrawn(middleman: tuple[Middleman, str], flavour: str) -> None:
    """The stream is opened once more, with what the source of tokens says then."""
    server, address = middleman
    tokens: list[str] = []

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
        token = dict(context.invocation_metadata())["authorization"]
        tokens.append(str(token))
        if len(tokens) == 1:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "withdrawn")
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "enough")
        yield from ()

    server.drive = behave
    given = iter("abcdefgh")
    with pytest.raises(PermissionDeniedError):
        await drive(flavour, 1, count_to(1), address=address, token=lambda: next(given))
    # The first token went to StartRun.
    assert tokens == ["Bearer b", "Bearer c"]


@pytest.mark.parametrize("flavour", FLAVOURS)
async def test_what_is_large_is_a_call_of_its_own(
    middleman: tuple[Middleman, str], flavour: str, shared: Sidecar
) -> None:
    """It could end the stream for all others. Here: its stream knows small commands only."""
    server, address = middleman
    commands: list[str] = []

    def behave(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[Any]:
        yield run_pb2.DriveResponse(window=1)
        with grpc.insecure_channel(shared.address) as channel:
            method: Any = channel.stream_stream("/pawl.v1.RunService/Drive")
            told = method(requests)
            next(told)
            for raw in told:
                response = run_pb2.DriveResponse.FromString(raw)
                commands.extend(str(a.WhichOneof("answer")) for a in response.answers)
                yield response

    server.drive = behave

    def handle(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply()
        return Reply(event="Done", artifacts={"blob": b"x" * (1 << 20)})

    (result,) = await drive(flavour, 1, handle, "large", address=address)
    assert result.status is RunStatus.COMPLETED
    assert server.calls.count("CompleteTurn") == 1, "the large one"
    assert commands.count("complete_turn") == 1, "the small one"


# The commands by themselves


def get_turn(run: str) -> run_pb2.GetTurnRequest:
    return run_pb2.GetTurnRequest(run_id=run)


def put(commands: Commands, *runs: str) -> list[Future[Any]]:
    promises: list[Future[Any]] = [Future() for _ in runs]
    for run, promise in zip(runs, promises, strict=True):
        commands.put(get_turn(run), promise)
    return promises


def taken(commands: Commands) -> list[str]:
    message = commands.take()
    return [] if message is None else [command.get_turn.run_id for command in message.commands]


def opened(window: int) -> Commands:
    commands = Commands()
    commands.read(run_pb2.DriveResponse(window=window))
    return commands


def test_nothing_is_sent_before_the_window_is_told() -> None:
    commands = Commands()
    put(commands, "a", "b", "c")
    assert not commands.ready
    assert taken(commands) == []
    commands.read(run_pb2.DriveResponse(window=2))
    assert commands.ready
    assert taken(commands) == ["a", "b"]
    assert not commands.ready
    assert taken(commands) == []


def test_an_answer_makes_room() -> None:
    commands = opened(2)
    first, second, third = put(commands, "a", "b", "c")
    assert taken(commands) == ["a", "b"]
    answer = run_pb2.DriveAnswer(id=2, get_turn=run_pb2.GetTurnResponse(prompt="p"))
    commands.read(run_pb2.DriveResponse(answers=[answer]))
    assert second.result(0).prompt == "p"
    assert taken(commands) == ["c"]
    assert not first.done()
    assert not third.done()


def test_large_commands_do_not_share_a_message() -> None:
    commands = opened(10)
    put(commands, "a", "b" * (1 << 15), "c" * (1 << 15), "d")
    assert [len(run) for run in taken(commands)] == [1, 1 << 15]
    assert [len(run) for run in taken(commands)] == [1 << 15, 1]


def test_what_nobody_waits_for_is_not_sent() -> None:
    commands = opened(2)
    first, _ = put(commands, "a", "b")
    first.cancel()
    assert taken(commands) == ["b"]


def test_an_answer_that_came_too_late() -> None:
    commands = opened(2)
    (first,) = put(commands, "a")
    assert taken(commands) == ["a"]
    first.cancel()
    commands.read(run_pb2.DriveResponse(answers=[run_pb2.DriveAnswer(id=1)]))
    commands.read(run_pb2.DriveResponse(answers=[run_pb2.DriveAnswer(id=77)]))
    assert first.cancelled()


def test_errors_have_their_details() -> None:
    commands = opened(2)
    first, second = put(commands, "a", "b")
    taken(commands)
    status = status_pb2.Status(code=code_pb2.ABORTED, message="moved")
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="SEQ_MISMATCH"))
    status.details.add().Pack(record_pb2.Record(run_id="a", seq=9))
    answers = [run_pb2.DriveAnswer(id=1, error=status), run_pb2.DriveAnswer(id=2)]
    commands.read(run_pb2.DriveResponse(answers=answers))
    error = first.exception(0)
    assert isinstance(error, SeqMismatchError)
    assert error.winner is not None
    assert error.winner.seq == 9
    assert isinstance(second.exception(0), ServerError), "an answer of an unknown kind"


@pytest.mark.parametrize("end", [None, UnavailableError("gone", code="UNAVAILABLE")])
def test_the_end_of_a_stream(end: UnavailableError | None) -> None:
    commands = opened(1)
    first, second = put(commands, "a", "b")
    taken(commands)
    commands.end(end)
    errors = [first.exception(0), second.exception(0), put(commands, "c")[0].exception(0)]
    assert {type(error) for error in errors} == {UnavailableError}
    assert len(set(map(id, errors))) == 3, "each has a traceback of its own"
    assert commands.over
    assert taken(commands) == []
    commands.end(PermissionDeniedError("the first end counts"))
    assert isinstance(put(commands, "d")[0].exception(0), UnavailableError)


@pytest.mark.parametrize(
    "end",
    [
        ServerError("no", code="INTERNAL"),
        CallCancelledError("no", code="CANCELLED"),
        LimitError("no", code="RESOURCE_EXHAUSTED", retry_after=3),
        ServerError("no", code="UNIMPLEMENTED"),
    ],
)
def test_an_end_that_says_nothing_of_a_command(end: PawlError) -> None:
    commands = opened(1)
    promises = put(commands, "a", "b")
    taken(commands)
    commands.end(end)
    for promise in [*promises, *put(commands, "c")]:
        error = promise.exception(0)
        assert isinstance(error, UnavailableError)
        assert error.__cause__ is end
        assert error.retry_after == end.retry_after


def test_an_end_that_concerns_all() -> None:
    commands = opened(1)
    (first,) = put(commands, "a")
    commands.end(PermissionDeniedError("no"))
    assert isinstance(first.exception(0), PermissionDeniedError)


@pytest.mark.parametrize("window", [0, 1])
def test_an_end_by_the_client(window: int) -> None:
    commands = opened(window)
    (first,) = put(commands, "a")
    commands.close()
    commands.end(ServerError("too late"))
    assert isinstance(first.exception(0), CallCancelledError)


@pytest.mark.parametrize("code", ["INTERNAL", "RESOURCE_EXHAUSTED"])
def test_an_end_before_the_window(code: str) -> None:
    commands = Commands()
    (first,) = put(commands, "a")
    commands.end(ServerError("no", code=code))
    assert type(first.exception(0)) is StreamRefusedError


def test_a_stream_that_is_not_known() -> None:
    commands = Commands()
    (first,) = put(commands, "a")
    commands.end(ServerError("no", code="UNIMPLEMENTED"))
    assert isinstance(first.exception(0), StreamUnknownError)


def test_what_can_be_a_command() -> None:
    assert Commands.takes(get_turn("a"))
    assert not Commands.takes(run_pb2.GetRunRequest(run_id="a"))
    assert not Commands.takes(get_turn("a" * (64 << 10)))
