"""Forks, differences, proofs and files of runs."""

from __future__ import annotations

import json

import pytest

from conftest import STEPS
from pawl_client import (
    Client,
    ConflictError,
    Execution,
    NotFoundError,
    Origin,
    PawlError,
    Reply,
    RequestError,
    Run,
    RunStatus,
    StateError,
    UnavailableError,
)
from pawl_client._errors import error_of
from pawl_client._history_operations import RunFile
from pawl_client.testing import Script, Sidecar
from pawl_client.v1 import run_pb2


def a_run(client: Client) -> Run:
    """A run of two visits, then cancelled."""
    run = client.open("steps", variables={"n": 1}, labels={"was": "first"})
    turn = run.turn().turn
    run.emit("Again", artifacts={"log": "one"}, turn_token=turn.token)
    run.cancel()
    return run


def test_a_fork_goes_on_from_a_record(client: Client) -> None:
    source = a_run(client)
    before = source.info()
    fork = source.fork(at_seq=1, variables={"n": 7}, labels={"was": "forked"})
    assert fork.started is not None
    assert fork.started.record is not None
    assert isinstance(fork.started.record.body, Origin)
    assert (fork.started.record.body.run_id, fork.started.record.body.state) == (source.id, "calc")
    info = fork.info()
    assert info.forked_from is not None
    assert (info.forked_from.run_id, info.forked_from.seq) == (source.id, 1)
    assert (info.labels, fork.variables()) == ({"was": "forked"}, {"n": 7})
    assert info.execution is Execution.CALLER
    script = Script({"calc": [Reply(event="Done")], "end": [None]})
    assert fork.drive(script).status is RunStatus.COMPLETED
    assert source.info() == before
    with pytest.raises(StateError) as caught:
        source.fork()
    assert caught.value.reason == "FORK_TERMINAL"
    with pytest.raises(NotFoundError):
        source.fork(at_seq=99)


def test_what_differs(client: Client) -> None:
    run = a_run(client)
    diff = run.diff(seq=1)
    assert (diff.base.seq, diff.other.status) == (1, RunStatus.CANCELLED)
    assert [change.name for change in diff.visits] == ["calc"]
    assert [(change.base, change.other) for change in diff.visits] == [(1, 2)]
    (artifact,) = diff.artifacts
    assert (artifact.name, artifact.kind) == ("log", "ADDED")
    other = client.open("steps", variables={"n": 2})
    (variable,) = run.diff(other.id).variables
    assert (variable.path, variable.kind, variable.base, variable.other) == ("/n", "CHANGED", 1, 2)


def test_a_proof(client: Client) -> None:
    proof = a_run(client).verify()
    assert proof.ok
    assert (proof.bad_seq, proof.detail) == (0, "")
    assert len(proof.hash) == 32
    assert proof.records >= 3


def test_a_deletion(client: Client) -> None:
    going = client.open("steps", variables={"n": 2})
    with pytest.raises(StateError) as refused:
        going.delete()
    assert refused.value.reason == "RUN_NOT_ENDED"
    run = a_run(client)
    proven = run.verify().hash
    gone = run.delete()
    assert (gone.duplicate, gone.status, gone.hash) == (False, RunStatus.CANCELLED, proven)
    assert run.delete().duplicate
    with pytest.raises(NotFoundError) as caught:
        run.info()
    assert caught.value.reason == "RUN_DELETED"


def test_an_erasure(client: Client) -> None:
    plain = a_run(client)
    with pytest.raises(StateError) as refused:
        plain.erase("asked by the subject")
    assert refused.value.reason == "RUN_NOT_ERASABLE"
    pack = json.loads(STEPS.read_text()) | {"id": "erasable"}
    pack["workflow"].setdefault("engine", {})["x_pawl"] = {"erasable": True}
    client.register_pack(json.dumps(pack).encode())
    run = client.open("erasable", variables={"n": 41_172}, labels={"was": "first"})
    with pytest.raises(StateError) as going:
        run.erase("too early")
    assert going.value.reason == "RUN_NOT_ENDED"
    run.cancel()
    proven = run.verify().hash
    left = run.erase("asked by the subject")
    assert (left.duplicate, left.status, left.hash) == (False, RunStatus.CANCELLED, proven)
    assert left.erasure.reason == "asked by the subject"
    assert run.erase("again").duplicate
    assert run.info().labels == {"was": "first"}
    with pytest.raises(StateError) as caught:
        run.fork(at_seq=1)
    assert caught.value.reason == "RUN_ERASED"
    assert run.variables() == {}


async def test_a_file_of_a_run(client: Client) -> None:
    run = a_run(client)
    data = run.export()
    with Sidecar(packs=[STEPS]) as other, other.client() as there:
        info, duplicate = there.import_run(data)
        assert (info.run_id, info.imported, duplicate) == (run.id, True, False)
        async with other.async_client() as aclient:
            again, duplicate = await aclient.import_run(data)
            assert (again.run_id, duplicate) == (run.id, True)
            same = aclient.attach(run.id)
            assert (await same.verify()).ok
            assert await same.export() == data
            assert (await same.diff(seq=1)).common_path == 1
            fork = await same.fork(at_seq=1)
            assert (await fork.info()).forked_from is not None
        with pytest.raises(StateError) as caught:
            there.attach(run.id).cancel()
        assert caught.value.reason == "IMPORTED"
        with pytest.raises(RequestError):
            there.import_run(data[:-9])
        with pytest.raises(TypeError, match="bytes, not str"):
            there.import_run(["text"])  # type: ignore[list-item]


def test_records_with_the_run_as_of_each(client: Client) -> None:
    run = a_run(client)
    records = list(run.records(snapshots=True, page_size=1))
    assert all(r.snapshot is not None and r.snapshot.run.seq >= r.seq for r in records)
    assert [r.snapshot.run.visits["calc"] for r in records if r.snapshot] == [1, 2, 2]
    assert all(record.snapshot is None for record in run.records())


def test_a_file_is_not_read_anew_from_its_midst() -> None:
    reader = RunFile(namespace="", run_id="r")
    away: PawlError = UnavailableError("away", code="UNAVAILABLE")
    assert reader.pause(away) > 0
    assert reader.read(run_pb2.ExportRunResponse(data=b"x")) == b"x"
    with pytest.raises(UnavailableError):
        reader.pause(away)
    assert isinstance(error_of("ALREADY_EXISTS", "", reason="RUN_EXISTS"), ConflictError)
