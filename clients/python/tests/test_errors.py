"""Every reason of the contract becomes the class that says so; a real one of each
class that a healthy sidecar can give."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from google.protobuf.any_pb2 import Any as ProtoAny
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

import pawl_client
from conftest import OPS, ROOT, SELF_CORRECTING, STEPS
from pawl_client import Client, Fault, Part, PawlError, Reply, Run, StepCall, Tls, TurnRef, _errors
from pawl_client._status import error_from_status
from pawl_client.testing import Sidecar


def started(client: Client) -> Run:
    return client.open("steps", variables={"n": 1})


def ended(client: Client) -> Run:
    run = started(client)
    run.cancel()
    return run


def token_of(run: Run) -> str:
    return run.turn().turn.token


def stale(run: Run) -> TurnRef:
    return dataclasses.replace(run.turn().turn, attempt=2)


def reused(client: Client) -> object:
    run = started(client)
    run.pause("a", request_id="x")
    return run.pause("b", request_id="x")


def paused(client: Client) -> object:
    run = started(client)
    token = token_of(run)
    run.pause()
    return run.emit("Done", turn_token=token)


def mismatched(client: Client) -> object:
    run = started(client)
    turn = run.turn().turn
    run.request_steps(turn, [StepCall("add", {"a": 1, "b": 1}, key="k")])
    return run.request_steps(turn, [StepCall("add", {"a": 1, "b": 2}, key="k")])


def no_turn(client: Client) -> object:
    run = started(client)
    run.complete(run.turn().turn, Reply())
    return run.turn()


def with_token(client: Client, **artifacts: object) -> object:
    run = started(client)
    return run.emit("Done", artifacts=artifacts, turn_token=token_of(run))


Call = Callable[[Client], object]
CASES: list[tuple[type[PawlError], str, Call]] = [
    (pawl_client.NotFoundError, "RUN_NOT_FOUND", lambda c: c.attach("0" * 26).info()),
    (pawl_client.NotFoundError, "PACK_NOT_FOUND", lambda c: c.get_pack("nope")),
    (pawl_client.NotFoundError, "RECORD_NOT_FOUND", lambda c: started(c).info(at_seq=99)),
    (pawl_client.RequestError, "INVALID_REQUEST", lambda c: c.attach("no ulid").info()),
    (pawl_client.RequestError, "NO_SUCH_ENTRY", lambda c: c.open("steps", agent="nobody")),
    (
        pawl_client.RequestError,
        "ID_RESERVED",
        lambda c: c.open("steps", variables={"n": 1}, request_id="pawl:1"),
    ),
    (pawl_client.VariablesError, "BAD_VARIABLES", lambda c: c.open("steps")),
    (pawl_client.PackInvalidError, "PACK_INVALID", lambda c: c.register_pack("{}")),
    (
        pawl_client.PackVersionTakenError,
        "PACK_VERSION_TAKEN",
        lambda c: c.register_pack(STEPS.read_text().replace("Adds.", "Sums.")),
    ),
    (pawl_client.ArtifactError, "UNDECLARED_ARTIFACT", lambda c: with_token(c, nope="x")),
    (pawl_client.ArtifactError, "ARTIFACT_TYPE", lambda c: with_token(c, log=b"x")),
    (pawl_client.LimitError, "ARTIFACT_TOO_LARGE", lambda c: with_token(c, log="x" * 70_000)),
    (
        pawl_client.UnknownEventError,
        "UNKNOWN_EVENT",
        lambda c: (run := started(c)).emit("Nope", turn_token=token_of(run)),
    ),
    (pawl_client.TurnTokenError, "TURN_TOKEN_REQUIRED", lambda c: started(c).emit("Done")),
    (
        pawl_client.TurnTokenError,
        "TURN_TOKEN_STALE",
        lambda c: started(c).emit("Done", turn_token="x"),
    ),
    (pawl_client.RunTerminalError, "RUN_TERMINAL", lambda c: ended(c).emit("Done")),
    (pawl_client.RunPausedError, "PAUSED", paused),
    (pawl_client.NoOpenTurnError, "NO_OPEN_TURN", no_turn),
    (
        pawl_client.TurnStaleError,
        "TURN_STALE",
        lambda c: (run := started(c)).fail(stale(run), Fault(code="X")),
    ),
    (pawl_client.StepMismatchError, "STEP_MISMATCH", mismatched),
    (pawl_client.IdReusedError, "ID_REUSED", reused),
    (
        pawl_client.SeqMismatchError,
        "SEQ_MISMATCH",
        lambda c: (run := started(c)).emit("Done", expected_seq=9, turn_token=token_of(run)),
    ),
    (pawl_client.PositionError, "SEQ_AHEAD", lambda c: list(started(c).transitions(after_seq=99))),
    (
        pawl_client.PositionError,
        "BAD_CURSOR",
        lambda c: list(c.transitions(after_cursor="nonsense")),
    ),
    (pawl_client.PermissionDeniedError, "SCOPE_MISSING", lambda c: c.open("steps", state="end")),
]


@pytest.mark.parametrize(("cls", "reason", "call"), CASES, ids=[case[1] for case in CASES])
def test_real_reasons(client: Client, cls: type[PawlError], reason: str, call: Call) -> None:
    with pytest.raises(PawlError) as caught:
        call(client)
    assert (type(caught.value), caught.value.reason) == (cls, reason)
    assert caught.value.code


def test_what_an_error_tells(client: Client) -> None:
    with pytest.raises(pawl_client.LimitError) as limit:
        with_token(client, log="x" * 70_000)
    assert limit.value.limit == 65_536
    run = started(client)
    with pytest.raises(pawl_client.SeqMismatchError) as seq:
        run.emit("Done", expected_seq=9, turn_token=token_of(run))
    assert seq.value.seq == 1
    assert seq.value.winner is not None
    assert (seq.value.winner.seq, seq.value.event) == (1, "")
    with pytest.raises(pawl_client.RequestError) as bad:
        client.attach("no ulid").info()
    assert [field for field, _ in bad.value.violations] == ["run_id"]


def test_the_loser_of_a_race_learns_who_won(client: Client) -> None:
    """8.18: two callers decide on the same state of a run. The second caller receives the
    decision of the first."""
    run = client.open("steps", variables={"n": 1})
    run.emit("Ask", turn_token=token_of(run))
    shown = run.info().visit_seq
    run.emit("No", expected_seq=shown)
    # The turn of this caller is no longer open. The error must name the sequence number instead.
    with pytest.raises(pawl_client.SeqMismatchError) as lost:
        run.emit("Yes", expected_seq=shown)
    assert lost.value.seq == run.info().visit_seq
    assert (lost.value.event, lost.value.principal) == ("No", "anonymous")
    assert lost.value.winner is not None
    assert isinstance(lost.value.winner.body, pawl_client.Transition)
    assert (lost.value.winner.seq, lost.value.winner.body.to_state) == (lost.value.seq, "calc")


def test_a_cursor_of_another_store(client: Client) -> None:
    with Sidecar(packs=[SELF_CORRECTING]) as other, other.client() as foreign:
        foreign.open("self-correcting")
        (record,) = foreign.transitions(follow=False)
    with pytest.raises(pawl_client.PositionError) as caught:
        list(client.transitions(after_cursor=record.cursor))
    assert caught.value.reason == "CURSOR_FOREIGN"


def test_tokens(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    secret = "0123456789abcdef0123456789abcdef"
    tokens.touch(mode=0o600)
    digest = hashlib.sha256(secret.encode()).hexdigest()
    tokens.write_text(f"reader runs:read sha256:{digest}\n")
    with Sidecar(packs=[OPS], flags=[f"--tokens-file={tokens}"]) as own:
        with own.client() as client, pytest.raises(pawl_client.AuthenticationError):
            list(client.list_runs())
        with own.client(token=lambda: secret) as client:
            assert list(client.list_runs()) == []
            assert secret not in repr(client.settings)
            with pytest.raises(pawl_client.PermissionDeniedError):
                client.register_pack("{}")


def test_the_class_of_every_reason_in_the_contract() -> None:
    """Reasons with a class of their own are words of the contract."""
    text = "".join(p.read_text() for p in (ROOT / "proto" / "pawl" / "v1").glob("*.proto"))
    words = set(re.findall(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*\b", text))
    assert set(_errors.BY_REASON) <= words


def test_details_of_a_status() -> None:
    status = status_pb2.Status(code=8, message="slow down")
    for detail in (
        error_details_pb2.ErrorInfo(reason="QUEUE_FULL", metadata={"limit": "256"}),
        error_details_pb2.RetryInfo(retry_delay=Duration(nanos=250_000_000)),
    ):
        packed = ProtoAny()
        packed.Pack(detail)
        status.details.append(packed)
    error = error_from_status(status)
    assert isinstance(error, pawl_client.OverloadedError)
    assert (error.limit, error.retry_after, error.code) == (256, 0.25, "RESOURCE_EXHAUSTED")
    assert isinstance(error_from_status(status_pb2.Status(code=99)), pawl_client.ServerError)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    lines = re.findall(r"^    (\|?[ |]*\+-- )?(\w+)", _errors.__doc__ or "", re.MULTILINE)
    named = [name for _, name in lines]
    classes = {
        name: cls
        for name, cls in vars(_errors).items()
        if isinstance(cls, type) and issubclass(cls, PawlError)
    }
    assert sorted(named) == sorted(classes)
    parents: dict[int, str] = {}
    for indent, name in lines:
        depth = len(indent) // 4
        parents[depth] = name
        if depth:
            own, *built_in = classes[name].__bases__
            assert own is classes[parents[depth - 1]], name
            assert built_in in ([], [ValueError]), name
        assert classes[name].__doc__


def test_values_that_cannot_be_sent(client: Client) -> None:
    with pytest.raises(ValueError, match="exactly one of text, json, data and uri"):
        Part()
    with pytest.raises(ValueError, match="RunOrder: must be one of"):
        list(client.list_runs(order="SIDEWAYS"))
    with pytest.raises(ValueError, match="exclude each other"):
        client.open("steps", agent="a", state="b")
    with pytest.raises(ValueError, match="cert and key"):
        Tls(cert="x")


def test_a_sidecar_that_does_not_start() -> None:
    with (
        pytest.raises(pawl_client.SidecarError, match="no-such-flag"),
        Sidecar(flags=["--no-such-flag"]),
    ):
        pass
