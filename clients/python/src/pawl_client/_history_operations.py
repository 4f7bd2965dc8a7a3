"""Calls about the histories of runs: fork, compare, verify, export, import."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pawl_client import _requests as wire
from pawl_client._blobs import Source, checked
from pawl_client._convert import from_proto
from pawl_client._errors import DeadlineError, PawlError
from pawl_client._flow import Flow, Handle, Operation, Send, new_id
from pawl_client._history import Deletion, Erased, RunDiff, Verification
from pawl_client._json_text import dump_json
from pawl_client._outcomes import Started, started
from pawl_client._runs import RunInfo
from pawl_client._streams import Reader
from pawl_client._values import ArtifactLike, Json
from pawl_client.v1 import run_pb2

_RUN = "/pawl.v1.RunService/"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fork:
    """The differences between a fork and its run; see `Run.fork`."""

    at_seq: int = 0
    pack: str = ""
    variables: Mapping[str, Json] | None = None
    artifacts: Mapping[str, ArtifactLike] | None = None
    labels: Mapping[str, str] | None = None
    execution: str = "UNSPECIFIED"
    max_steps: int = 0
    max_wall_time_sec: int = 0
    reuse_steps: bool | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class Histories:
    """Calls about histories in one namespace."""

    namespace: str

    def fork(self, run_id: str, how: Fork) -> Operation[Started]:
        request = run_pb2.ForkRunRequest(
            namespace=self.namespace,
            run_id=run_id,
            at_seq=how.at_seq,
            pack=how.pack,
            variables_json=""
            if how.variables is None
            else dump_json(dict(how.variables), "variables"),
            artifacts=wire.artifacts(how.artifacts),
            labels=dict(how.labels or {}),
            execution=wire.number("Execution", how.execution),  # type: ignore[arg-type]
            max_steps=how.max_steps,
            max_wall_time_sec=how.max_wall_time_sec,
            reuse_steps=how.reuse_steps,  # type: ignore[arg-type]
            request_id=how.request_id or new_id(),
        )
        return Operation(_RUN + "ForkRun", request, run_pb2.ForkRunResponse, started)

    def diff(self, run_id: str, seq: int, other: str, other_seq: int) -> Operation[RunDiff]:
        request = run_pb2.DiffRunsRequest(
            namespace=self.namespace,
            run_id=run_id,
            seq=seq,
            other_run_id=other,
            other_seq=other_seq,
        )
        return Operation(_RUN + "DiffRuns", request, run_pb2.DiffRunsResponse, from_proto)

    def delete(self, run_id: str) -> Operation[Deletion]:
        request = run_pb2.DeleteRunRequest(namespace=self.namespace, run_id=run_id)
        return Operation(_RUN + "DeleteRun", request, run_pb2.DeleteRunResponse, from_proto)

    def erase(self, run_id: str, reason: str) -> Operation[Erased]:
        request = run_pb2.EraseRunRequest(namespace=self.namespace, run_id=run_id, reason=reason)
        return Operation(_RUN + "EraseRun", request, run_pb2.EraseRunResponse, from_proto)

    def verify(self, run_id: str) -> Operation[Verification]:
        request = run_pb2.VerifyRunRequest(namespace=self.namespace, run_id=run_id)
        return Operation(_RUN + "VerifyRun", request, run_pb2.VerifyRunResponse, from_proto)

    def load(self, source: Source, timeout: float) -> Flow[tuple[RunInfo, bool]]:
        """Imports a run from its file.

        The stream is not repeated after an error, because the file is verified as a whole.
        """
        pieces: list[bytes] = []
        try:
            while (piece := (yield Handle(source.pull, ()))) is not None:
                pieces.append(checked(piece))
        finally:
            source.close()
        data = b"".join(pieces)
        answer: run_pb2.ImportRunResponse = yield Send(
            _RUN + "ImportRun",
            run_pb2.ImportRunRequest,
            lambda: self._file(data),
            run_pb2.ImportRunResponse,
            timeout,
        )
        return from_proto(answer.run), answer.duplicate

    def _file(self, data: bytes) -> Iterable[run_pb2.ImportRunRequest]:
        size = 256 * 1024
        for at in range(0, max(len(data), 1), size):
            yield run_pb2.ImportRunRequest(namespace=self.namespace, data=data[at : at + size])


@dataclass(slots=True, kw_only=True)
class RunFile(Reader[bytes]):
    """A reader of the file of a run. It cannot resume: it reconnects only before the first data."""

    path = _RUN + "ExportRun"
    response = run_pb2.ExportRunResponse
    run_id: str
    done: bool = field(default=False, init=False)
    _begun: bool = field(default=False, init=False)

    def request(self) -> run_pb2.ExportRunRequest:
        """See `Reader.request`."""
        return run_pb2.ExportRunRequest(namespace=self.namespace, run_id=self.run_id)

    def read(self, item: Any) -> bytes | None:
        """See `Reader.read`."""
        self._begun = True
        data: bytes = item.data
        return data

    def pause(self, error: PawlError) -> float:
        """See `Reader.pause`."""
        if self._begun:
            raise error
        # super() fails here: a dataclass with slots replaces the class that it refers to.
        return Reader.pause(self, error)

    def end(self) -> None:
        """See `Reader.end`."""
        self.done = True

    def whole(self, data: bytes, timeout: float) -> bytes:
        """Returns the data if it is the whole file. Raises DeadlineError otherwise."""
        if not self.done:
            raise DeadlineError(
                f"the file of run {self.run_id}: not read within {timeout} s; give a longer timeout"
            )
        return data
