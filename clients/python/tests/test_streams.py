"""A stream of records over lost connections: each once, in order."""

from __future__ import annotations

import os
import threading

import pytest

from pawl_client import (
    AsyncClient,
    Client,
    OverloadedError,
    PositionError,
    Record,
    RecordKind,
    Run,
    RunFilter,
    StreamGapError,
    UnavailableError,
)
from pawl_client._errors import error_of
from pawl_client._requests import number
from pawl_client._streams import StreamPosition, Tail
from pawl_client.testing import Sidecar
from pawl_client.v1 import record_pb2, run_pb2
from proxy import Proxy

slow = pytest.mark.skipif(not os.environ.get("PAWL_SLOW"), reason="set PAWL_SLOW=1")
# How far a writer may be ahead of its reader: less than a connection can hold.
WINDOW = 5
SIZES = [(300, 12), pytest.param(9_990, 100, marks=[slow, pytest.mark.timeout(300)])]


def a_run(client: Client, transitions: int) -> Run:
    """A run with that many transitions, then cancelled."""
    run = client.open("steps", variables={"n": 1})
    _write(run, transitions, threading.Semaphore(transitions))
    return run


class Cutter:
    """Breaks each new connection after some more records were read."""

    def __init__(self, proxy: Proxy, every: int) -> None:
        self._proxy, self._every = proxy, every
        self._left = every
        self.losses = 0

    def read(self) -> None:
        self._left -= 1
        # What was read after a loss may still come from the lost connection.
        if self._left <= 0 and self._proxy.connections > self.losses:
            self._left = self._every
            self.losses = self._proxy.connections
            self._proxy.cut()


def check(records: list[Record], transitions: int) -> None:
    assert len(records) == transitions + 1
    assert records[-1].kind is RecordKind.ENDED
    before = 0
    for record in records:
        assert record.prev_seq == before
        assert record.seq > before
        before = record.seq


@pytest.mark.parametrize(("transitions", "losses"), SIZES)
def test_blocking_reader_loses_its_connection(
    sidecar: Sidecar, client: Client, transitions: int, losses: int
) -> None:
    run = client.open("steps", variables={"n": 1})
    window = threading.Semaphore(WINDOW)
    writer = threading.Thread(target=_write, args=(run, transitions, window))
    writer.start()
    with Proxy(sidecar.address) as proxy, Client(address=proxy.address) as reader:
        seen = []
        cutter = Cutter(proxy, transitions // losses // 3)
        for record in reader.attach(run.id).transitions():
            seen.append(record)
            cutter.read()
            window.release()
        assert cutter.losses >= losses
    writer.join()
    check(seen, transitions)


def _write(run: Run, transitions: int, window: threading.Semaphore) -> None:
    token = run.turn().turn.token
    for _ in range(transitions - 1):
        window.acquire()
        moved = run.emit("Again", turn_token=token)
        assert moved.turn is not None
        token = moved.turn.token or run.turn().turn.token
    run.cancel()


@pytest.mark.parametrize(("transitions", "losses"), SIZES)
async def test_async_reader_loses_its_connection(
    sidecar: Sidecar, client: Client, transitions: int, losses: int
) -> None:
    run = client.open("steps", variables={"n": 1})
    window = threading.Semaphore(WINDOW)
    writer = threading.Thread(target=_write, args=(run, transitions, window))
    writer.start()
    seen = []
    with Proxy(sidecar.address) as proxy:
        cutter = Cutter(proxy, transitions // losses // 3)
        async with AsyncClient(address=proxy.address) as reader:
            async for record in reader.attach(run.id).transitions():
                seen.append(record)
                cutter.read()
                window.release()
        assert cutter.losses >= losses
    writer.join()
    check(seen, transitions)


def test_over_restarts_of_the_sidecar() -> None:
    with Sidecar(packs=[str(_steps())]) as own, own.client() as client, own.client() as reader:
        run = client.open("steps", variables={"n": 1})
        seen: list[Record] = []
        thread = threading.Thread(target=lambda: seen.extend(reader.attach(run.id).transitions()))
        thread.start()
        for _ in range(3):
            for _ in range(5):
                run.emit("Again", turn_token=run.turn().turn.token)
            own.restart()
        run.cancel()
        thread.join(timeout=120)
        assert not thread.is_alive()
        check(seen, 16)


def _steps() -> str:
    from conftest import STEPS

    return str(STEPS)


def test_all_runs_from_a_cursor(client: Client) -> None:
    first, second = a_run(client, 3), a_run(client, 2)
    ours = RunFilter(pack="steps")
    records = list(client.transitions(ours, follow=False, snapshots=True))
    assert [r.run_id for r in records if r.run_id == second.id] == [second.id] * 3
    start = next(r for r in records if r.run_id == first.id)
    rest = list(client.transitions(ours, after_cursor=start.cursor, follow=False))
    seqs = [r.seq for r in rest if r.run_id == first.id]
    assert seqs == [r.seq for r in records if r.run_id == first.id][1:]
    assert start.snapshot is not None
    assert start.snapshot.run.seq == start.seq


def test_from_a_seq_and_by_kind(client: Client) -> None:
    run = a_run(client, 4)
    every = list(run.transitions())
    assert list(run.transitions(after_seq=every[1].seq)) == every[2:]
    assert [r.kind for r in run.transitions(kinds=["ENDED"])] == [RecordKind.ENDED]
    assert list(run.transitions(after_seq=every[-1].seq)) == []
    with pytest.raises(PositionError):
        list(run.transitions(after_seq=10_000))
    with pytest.raises(ValueError, match=r"RecordKind: must be one of .*, not 'NOPE'"):
        list(run.transitions(kinds=["NOPE"]))


def test_gives_up_without_progress() -> None:
    with (
        Client(address="127.0.0.1:1") as client,
        pytest.raises(UnavailableError),
    ):
        list(client.attach("0" * 26).transitions(reconnect_for=0.2))


def item(seq: int, prev: int, run_id: str = "r") -> run_pb2.StreamTransitionsResponse:
    record = record_pb2.Record(run_id=run_id, seq=seq, prev_seq=prev, cursor=str(seq))
    record.transition.SetInParent()
    return run_pb2.StreamTransitionsResponse(record=record)


def test_a_gap_is_read_again_once_and_then_told() -> None:
    tail = Tail(namespace="", position=StreamPosition("r"))
    assert tail.read(item(1, 0)) is not None
    assert tail.read(item(1, 0)) is None
    with pytest.raises(
        StreamGapError, match="record 5 follows 3, but the last one read was 1"
    ) as e:
        tail.read(item(5, 3))
    assert tail.pause(e.value) == 0.0
    assert tail.request().after_seq == 1
    with pytest.raises(StreamGapError):
        tail.pause(e.value)


def test_a_gap_before_the_first_record_is_told() -> None:
    with pytest.raises(StreamGapError):
        Tail(namespace="", position=StreamPosition("r", 3)).read(item(9, 7))


def test_a_server_with_too_many_streams_is_asked_again_later() -> None:
    tail = Tail(namespace="", position=StreamPosition("r"), reconnect_for=1.0)
    busy = error_of("RESOURCE_EXHAUSTED", "busy", reason="MAX_STREAMS", retry_after=0.7)
    assert [tail.pause(busy) for _ in range(2)] == [0.7, 0.7]
    with pytest.raises(OverloadedError):
        tail.pause(busy)


def test_progress_makes_a_gap_forgivable_again() -> None:
    tail = Tail(namespace="", position=StreamPosition("r"))
    tail.read(item(1, 0))
    for seq in (2, 3):
        assert tail.pause(StreamGapError("gap")) == 0.0
        assert tail.read(item(seq, seq - 1)) is not None


def test_each_run_of_a_stream_has_its_own_order() -> None:
    position = StreamPosition("")
    tail = Tail(namespace="", position=position)
    assert tail.read(item(1, 0, "a")) is not None
    assert tail.read(item(7, 5, "b")) is not None
    assert tail.read(item(2, 1, "a")) is not None
    tail.read(run_pb2.StreamTransitionsResponse(heartbeat=run_pb2.Heartbeat(cursor="99")))
    assert tail.request().after_cursor == "99"
    with pytest.raises(StreamGapError):
        tail.read(item(9, 8, "b"))


def test_numbers_of_words() -> None:
    assert number("RunStatus", "WAITING") == 2
