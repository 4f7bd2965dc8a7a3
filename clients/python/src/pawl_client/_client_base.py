"""The common part of the blocking and the asynchronous client."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from pawl_client._blobs import AsyncBlobData, Download, Upload, source_of
from pawl_client._consumers import Consumers, ConsumerTail
from pawl_client._control_operations import Controls
from pawl_client._errors import PackInvalidError
from pawl_client._event_reader import EventReader
from pawl_client._event_source import EventSource
from pawl_client._flow import Flow, Operation, T, attempt
from pawl_client._history_operations import Histories, RunFile
from pawl_client._operations import Runs, Start
from pawl_client._pack_operations import Packs
from pawl_client._runs import RunFilter, RunInfo
from pawl_client._settings import KEEPALIVE, Settings, Tls, TokenSource, by_name_only, settings_of
from pawl_client._streams import StreamPosition, Tail
from pawl_client._values import BlobHead, Content, Json


class BaseClient:
    """Settings and requests of a client. It makes no calls."""

    @by_name_only
    def __init__(
        self,
        *,
        address: str | None = None,
        namespace: str = "",
        token: TokenSource | None = None,
        tls: Tls | None = None,
        timeout: float = 30.0,
        retry_for: float = 20.0,
        keepalive: float = KEEPALIVE,
        max_message_bytes: int = 64 << 20,
    ) -> None:
        self._settings = settings_of(
            address,
            token,
            tls,
            namespace=namespace,
            timeout=timeout,
            retry_for=retry_for,
            keepalive=keepalive,
            max_message_bytes=max_message_bytes,
        )
        self._runs = Runs(namespace)
        self._packs = Packs(namespace)
        self._histories = Histories(namespace)
        self._consumers = Consumers(namespace)
        self._controls = Controls(namespace)
        self._connect()

    def _connect(self) -> None:
        """Creates the channel. It needs no running event loop."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._settings.address}>"

    @property
    def settings(self) -> Settings:
        """The settings of the client."""
        return self._settings

    def _attempt(self, operation: Operation[T], timeout: float | None) -> Flow[T]:
        limit = self._settings.timeout if timeout is None else timeout
        return attempt(operation, timeout=limit, retry_for=self._settings.retry_for)

    def _tail(
        self,
        run_id: str,
        after_seq: int,
        after_cursor: str,
        *,
        runs: RunFilter | None,
        kinds: Sequence[str],
        follow: bool,
        snapshots: bool,
        reconnect_for: float,
        from_now: bool = False,
    ) -> Tail:
        return Tail(
            namespace=self._settings.namespace,
            position=StreamPosition(run_id, after_seq, after_cursor),
            runs=runs,
            kinds=kinds,
            follow=follow,
            snapshots=snapshots,
            from_now=from_now,
            reconnect_for=reconnect_for,
        )

    def _consumer(
        self,
        consumer: str,
        *,
        runs: RunFilter | None,
        kinds: Sequence[str],
        follow: bool,
        snapshots: bool,
        from_now: bool,
        reconnect_for: float,
    ) -> ConsumerTail:
        return ConsumerTail(
            namespace=self._settings.namespace,
            position=StreamPosition(""),
            runs=runs,
            kinds=kinds,
            follow=follow,
            snapshots=snapshots,
            from_now=from_now,
            reconnect_for=reconnect_for,
            consumer=consumer,
        )

    def _events(
        self, run_id: str, after: str = "", follow: bool = True, reconnect_for: float = 60.0
    ) -> EventReader:
        return EventReader(
            namespace=self._settings.namespace,
            source=EventSource(run_id, after),
            follow=follow,
            reconnect_for=reconnect_for,
        )

    def _file(self, run_id: str) -> RunFile:
        settings = self._settings
        return RunFile(
            namespace=settings.namespace, run_id=run_id, reconnect_for=settings.retry_for
        )

    def _import(self, data: AsyncBlobData, timeout: float | None) -> Flow[tuple[RunInfo, bool]]:
        limit = self._settings.timeout if timeout is None else timeout
        return self._histories.load(source_of(data), limit)

    def _upload(
        self, data: AsyncBlobData, media_type: str, upload_id: str, timeout: float | None
    ) -> Upload:
        settings = self._settings
        limit = settings.timeout if timeout is None else timeout
        return Upload(settings.namespace, settings, source_of(data), media_type, upload_id, limit)

    def _download(self, ref: str | BlobHead, offset: int, reconnect_for: float) -> Download:
        return Download(
            namespace=self._settings.namespace,
            ref=str(ref),
            offset=offset,
            reconnect_for=reconnect_for,
        )


_PATH = re.compile(r"(?!.*: )[^\n{]*\.(?:json|ya?ml)", re.IGNORECASE)
"""The path of a pack's file. No pack has this form: YAML on one line has a colon or a brace."""


def document(source: Path | str | bytes, filename: str) -> tuple[bytes, str]:
    """Returns the bytes of a pack and its file name. A Path is read; str and bytes are the
    document.

    Raises PackInvalidError for a text that is the path of a file.
    """
    if isinstance(source, str) and _PATH.fullmatch(source):
        raise PackInvalidError(
            f"source: {source!r} is a path, not a pack; pass Path({source!r}) to read the file",
            reason="PACK_INVALID",
        )
    if isinstance(source, Path):
        return source.read_bytes(), filename or source.name
    return (source.encode() if isinstance(source, str) else source), filename


def started_by(execution: str) -> str:
    """Returns the executor of a run that its caller does not execute. Raises ValueError."""
    if execution not in ("WORKERS", "SIDECAR"):
        raise ValueError(
            f'execution: must be "WORKERS" or "SIDECAR", not {execution!r}; '
            "open and run start runs that the caller executes"
        )
    return str(execution)


def start_of(
    pack: str,
    *,
    agent: str,
    state: str,
    variables: Mapping[str, Json] | None,
    input: Content | None,
    labels: Mapping[str, str] | None,
    request_id: str,
    max_steps: int,
    conversation: bool,
) -> Start:
    """Returns the arguments of starting a run."""
    return Start(
        pack=pack,
        agent=agent,
        state=state,
        variables=variables,
        input=input,
        labels=labels,
        request_id=request_id,
        max_steps=max_steps,
        conversation=conversation,
    )
