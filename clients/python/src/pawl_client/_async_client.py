"""The asynchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from pawl_client._async_caller import AsyncCaller
from pawl_client._async_drive import Driven, OnOutput, driven
from pawl_client._async_model_handler import handler_of
from pawl_client._async_run import AsyncHandlers, AsyncRun, AsyncTool
from pawl_client._async_serve import served_run
from pawl_client._blobs import AsyncBlobData
from pawl_client._client_base import document, start_of, started_by
from pawl_client._consumers import Consumer
from pawl_client._control import Account, Approval, Limit, Schedule
from pawl_client._enums import RunStatus
from pawl_client._outcomes import RunResult
from pawl_client._packs import Pack, PackDetails, PackGraph, PackReport, RegisteredPack
from pawl_client._records import Record
from pawl_client._runs import Identity, RunFilter, RunInfo
from pawl_client._tool_check import Tools, check_tools, schemas_of
from pawl_client._types import GivenT
from pawl_client._values import BlobHead, BlobPiece, Content, Json


class AsyncClient(AsyncCaller):
    """A client of one sidecar for coroutines. Belongs to one event loop.

    `address` is "HOST:PORT" or "unix:PATH" (default: PAWL_ADDR, else 127.0.0.1:7291). `token` is
    a bearer token or a function that returns one (default: what the file PAWL_TOKEN_FILE holds,
    else PAWL_TOKEN, else none), as for the command line. `timeout` bounds each call in seconds,
    repetitions included; `retry_for` how long a call is repeated while the sidecar is
    away or asks to wait. Every writing call has an idempotency id that is kept over its
    repetitions, so that it takes effect once.

    Cancelling a task cancels its call; a writing call that was cancelled may still
    happen. Use it in an `async with` statement or call `close`.
    Errors: see `PawlError`.

    >>> AsyncClient(address="127.0.0.1:7291", timeout=0)
    Traceback (most recent call last):
    ...
    ValueError: timeout: more than 0, not 0
    """

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    # Packs

    async def validate_pack(
        self, source: Path | str | bytes, *, filename: str = "", strict_schema: str = ""
    ) -> PackReport:
        """Checks a document (a Path is read, str and bytes are the text) and stores
        nothing. `strict_schema` is "1.4.0", "1.5.0" or empty, the union of both."""
        content, name = document(source, filename)
        return await self.call(self._packs.validate(content, name, strict_schema))

    async def register_pack(
        self,
        source: Path | str | bytes,
        *,
        filename: str = "",
        make_default: bool = True,
        move_version: bool = False,
        tools: Tools | None = None,
    ) -> RegisteredPack:
        """Checks and stores a document. The same bytes again are the same answer.

        `tools` is a Worker, or a mapping as for `run`: their functions are compared with the
        pack's parameters before, as by `Worker.check`.

        Raises PackInvalidError, PackVersionTakenError, SchemaError (TOOL_MISMATCH).
        """
        content, name = document(source, filename)
        if tools is not None:
            check_tools(content, schemas_of(tools))
        return await self.call(self._packs.register(content, name, make_default, move_version))

    async def get_pack(self, pack: str, *, include_content: bool = False) -> PackDetails:
        """A registered pack by "id", "id@version" or digest. Raises NotFoundError."""
        return await self.call(self._packs.get(pack, include_content))

    async def list_packs(self, *, page_size: int = 100) -> AsyncIterator[Pack]:
        """All registered packs by id and version, read page by page."""
        token = ""
        while True:
            page, token = await self.call(self._packs.list(page_size, token))
            for item in page:
                yield item
            if not token:
                return

    async def pack_graph(self, pack: str, *, agent: str = "") -> PackGraph:
        """States and edges of one entry of a pack."""
        return await self.call(self._packs.graph(pack, agent))

    # Runs

    async def start(
        self,
        pack: str,
        *,
        agent: str = "",
        state: str = "",
        variables: GivenT | None = None,
        input: Content | None = None,
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        max_steps: int = 0,
        execution: str = "WORKERS",
    ) -> AsyncRun[Any, Any, GivenT]:
        """Starts a run and leaves its turns to workers, or to the sidecar.

        `pack` is "id", "id@version" or a digest; `agent` a member key; `state` another
        entry, by right of admin; `input` the first message; `request_id` an idempotency
        id of the caller's own (default: a fresh one, kept over repetitions). With
        `execution` "SIDECAR" the sidecar asks the models of its operator (`serve --model`)
        by itself, and workers make the calls of tools.
        Raises NotFoundError, VariablesError, RequestError, LimitError,
        StateError (NO_MODELS, NO_SUCH_MODEL), ValueError: another `execution`; a run that
        the caller executes is begun by `open` or `run`.
        """
        return await self._start(**{**_without_self(locals()), "execution": started_by(execution)})

    def run(
        self,
        pack: str,
        handler: AsyncHandlers | None = None,
        *,
        model: Any = None,
        output: Any = None,
        tools: Mapping[str, AsyncTool] | None = None,
        on_output: OnOutput | None = None,
        agent: str = "",
        state: str = "",
        variables: Mapping[str, Json] | None = None,
        input: Content | None = None,
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        max_steps: int = 0,
    ) -> Driven[RunResult[Any]]:
        """Starts a run and drives it until it ends or waits for something from outside.

        `handler` takes a Turn and returns a Reply (or None), or is a mapping from prompt
        to such a function. In its place `model` ("openai:gpt-5-mini") names the model that
        executes the turns, and `output` what they have to give, as for `AsyncModelHandler`.
        `tools` makes the tools named in it here, by functions as for
        `Worker.tool`; steps of others wait for a worker. The rest is as for `start`. A
        handler that raises fails its turn, which is retried as the pack says. All runs that
        a client drives share one stream, on which the client is a worker of theirs alone.
        Functions are called in threads of the client's own, coroutine functions in its loop.

        `on_output` gets every event of the run (`Event`), in order: text as the handler writes
        it, calls of tools, transitions, the end. It is called in this thread, may be a coroutine
        function, and holds up nothing but itself; what it raises gives the run up and is raised
        here. What is returned may be iterated over instead: see `Driven`.

        Raises RunTakenOverError: another process drives the run, say one with the same
        `request_id`; UnavailableError: no sidecar took the run within `retry_for` seconds
        (once one did, the run and its answers wait for it, however long it is away);
        HandlerError, FailTurnError (NO_HANDLER), UnknownEventError, ArtifactError
        (UNDECLARED_ARTIFACT, ARTIFACT_TYPE): what a handler returned is no Reply, no handler is
        there for a prompt, or the reply has an event or artifact that the state does not have,
        or one of another type: the attempt is not used up; StateError (FORKED): the
        process was forked from one that had driven runs; and as `start`.
        """
        arguments = _without_self(locals())
        served = served_run(handler_of(handler, model, output), tools)
        for name in ("handler", "model", "output", "tools", "on_output"):
            del arguments[name]

        async def begin() -> AsyncRun[Any, Any, Any]:
            return await self._start("CALLER", **arguments)

        return driven(begin, served, on_output)

    async def open(
        self,
        pack: str,
        *,
        agent: str = "",
        state: str = "",
        variables: GivenT | None = None,
        input: Content | None = None,
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        max_steps: int = 0,
    ) -> AsyncRun[Any, Any, GivenT]:
        """Starts a run that the caller drives, and returns it undriven. As `start`."""
        return await self._start("CALLER", **_without_self(locals()))

    def attach(self, run_id: str) -> AsyncRun[Any, Any, Any]:
        """A run by its id. Makes no call: an unknown id shows at the first one."""
        return AsyncRun(self, run_id)

    async def list_runs(
        self, filter: RunFilter | None = None, *, order: str = "NEWEST_FIRST", page_size: int = 100
    ) -> AsyncIterator[RunInfo]:
        """All runs under a filter, read page by page."""
        token = ""
        while True:
            page, token = await self.call(self._runs.list(filter, order, page_size, token))
            for item in page:
                yield item
            if not token:
                return

    async def list_approvals(
        self, *, run_id: str = "", order: str = "NEWEST_FIRST", page_size: int = 100
    ) -> AsyncIterator[Approval]:
        """All that waits for a person, read page by page: held calls, which
        `Run.decide_step` decides about, and runs that an event from outside moves."""
        token = ""
        while True:
            call = self._runs.list_approvals(run_id, order, page_size, token)
            page, token = await self.call(call)
            for item in page:
                yield item
            if not token:
                return

    async def list_budgets(
        self, *, name_prefix: str = "", page_size: int = 100
    ) -> AsyncIterator[Account]:
        """The operator's accounts over runs (`--budgets`) by name, read page by page: what
        is settled, reserved and refused, the limit, and when the window ends. They change
        nothing. `name_prefix` is for example "tenant=acme/". Scope runs:read.

            full = [a.name for a in client.list_budgets() if a.left_cost_micro_usd == 0]
        """
        token = ""
        while True:
            call = self._controls.list_budgets(name_prefix, page_size, token)
            page, token = await self.call(call)
            for item in page:
                yield item
            if not token:
                return

    async def list_limits(self) -> tuple[Limit, ...]:
        """What the operator's limits (`--limits`) count now, in all namespaces, in the
        order of the file. Scope store:read.

            waiting = {use.key: use.waiting for limit in client.list_limits() for use in limit.uses}
        """
        return await self.call(self._controls.list_limits())

    async def list_schedules(self) -> tuple[Schedule, ...]:
        """The operator's schedules (`--schedules`) by id: their next instants, the newest
        run, and what is wrong. Scope runs:read.

            for schedule in client.list_schedules():
                print(schedule.schedule_id, schedule.next[:1], schedule.fault)
        """
        return await self.call(self._controls.list_schedules())

    async def import_run(
        self, data: AsyncBlobData, *, timeout: float | None = None
    ) -> tuple[RunInfo, bool]:
        """Stores a run out of a file of `Run.export`, to be shown, compared and forked,
        and its pack. True: it had been imported before.

        Raises RequestError (EXPORT_INVALID, EXPORT_TRUNCATED), StateError (EXPORT_NEWER),
        ConflictError (RUN_EXISTS), LimitError (EXPORT_TOO_LARGE).
        """
        return await self.perform(self._import(data, timeout))

    async def count_runs(self) -> dict[RunStatus, int]:
        """How many runs there are of each status, statuses without runs included."""
        counts = await self.call(self._runs.count())
        return {count.status: count.runs for count in counts}

    async def caller(self) -> Identity:
        """Who the caller is to the sidecar, and what it may do."""
        return await self.call(self._runs.caller())

    def transitions(
        self,
        filter: RunFilter | None = None,
        *,
        kinds: Sequence[str] = (),
        after_cursor: str = "",
        follow: bool = True,
        snapshots: bool = False,
        from_now: bool = False,
        reconnect_for: float = 60.0,
    ) -> AsyncIterator[Record]:
        """Records of all runs under a filter, in the order of the journal.

        As `Run.transitions`, but from a cursor (`Record.cursor`), or with `from_now`
        behind the newest record. With `follow` it never ends by itself.
        """
        return self.read(
            self._tail(
                "",
                0,
                after_cursor,
                runs=filter,
                kinds=kinds,
                follow=follow,
                snapshots=snapshots,
                from_now=from_now,
                reconnect_for=reconnect_for,
            )
        )

    # Consumers

    def consume(
        self,
        consumer: str,
        filter: RunFilter | None = None,
        *,
        kinds: Sequence[str] = (),
        follow: bool = True,
        snapshots: bool = False,
        from_now: bool = False,
        reconnect_for: float = 60.0,
    ) -> AsyncIterator[Record]:
        """Records of all runs behind what this consumer has acknowledged with `ack`.

        `consumer` is a name, of letters, digits and . _ -; its first stream makes it, at
        the beginning or with `from_now` behind the newest record. What was read and not
        acknowledged comes again in the next process. A newer stream of the same consumer
        ends this one. The rest is as for `transitions`.

        Raises ConflictError (CONSUMER_TAKEN: another principal's; CONSUMER_REPLACED),
        NotFoundError (it was deleted), StateError (CONSUMER_EXPIRED: it did not read for
        longer than the operator keeps its place), LimitError (MAX_CONSUMERS).
        """
        return self.read(
            self._consumer(
                consumer,
                runs=filter,
                kinds=kinds,
                follow=follow,
                snapshots=snapshots,
                from_now=from_now,
                reconnect_for=reconnect_for,
            )
        )

    async def ack(self, consumer: str, to: Record | str) -> None:
        """Stores that a consumer has worked off all up to a record (or its cursor).

        Raises NotFoundError, PositionError (CURSOR_BEHIND, CURSOR_AHEAD, CURSOR_FOREIGN).
        """
        await self.call(self._consumers.ack(consumer, to))

    async def list_consumers(self) -> tuple[Consumer, ...]:
        """The caller's consumers by name; with admin everyone's."""
        return await self.call(self._consumers.list())

    async def delete_consumer(self, consumer: str) -> None:
        """Forgets a consumer and ends its stream. Raises NotFoundError."""
        await self.call(self._consumers.delete(consumer))

    # Blobs

    async def put_blob(
        self,
        data: AsyncBlobData,
        *,
        media_type: str = "",
        upload_id: str = "",
        timeout: float | None = None,
    ) -> BlobHead:
        """Stores large content; `ref` of the answer goes into artifacts and results.

        `data` is bytes, text, a file, or an iterable of pieces, also an asynchronous one.
        The same bytes again are the same blob. An upload whose connection is lost is gone
        on with where the server is, for up to `retry_for` seconds. `upload_id` is a name
        of the caller's own (default: a fresh one): another process that gives it with the
        same data from its beginning goes on with the upload. At most 8 MiB are held in
        memory unless the data is; `timeout` bounds the sending of each 8 MiB (default:
        the client's).

        Raises LimitError (BLOB_TOO_LARGE), RequestError (BLOB_MISMATCH: the upload was
        begun with other data), ConflictError (UPLOAD_CONTENDED), StateError (BLOBS_OFF),
        UnavailableError.
        """
        return await self.perform(self._upload(data, media_type, upload_id, timeout).put())

    async def get_blob(self, ref: str | BlobHead, *, timeout: float | None = None) -> bytes:
        """A blob as a whole, its digest checked. Raises NotFoundError, DeadlineError."""
        reader = self._download(ref, 0, self._settings.retry_for)
        limit = self._settings.timeout if timeout is None else timeout
        pieces = [piece.data async for piece in self.read(reader, timeout=limit)]
        return reader.whole(b"".join(pieces), limit)

    def stream_blob(
        self, ref: str | BlobHead, *, offset: int = 0, reconnect_for: float = 60.0
    ) -> AsyncIterator[BlobPiece]:
        """A blob piece by piece, from an offset in bytes on, over lost connections.

        Read from its beginning to its end, its digest is checked. Raises NotFoundError,
        PositionError (BLOB_OFFSET: it is shorter), ServerError (BLOB_DIGEST).
        """
        return self.read(self._download(ref, offset, reconnect_for))

    async def _start(self, execution: str, pack: str, **what: Any) -> AsyncRun[Any, Any, Any]:
        started = await self.call(self._runs.start(start_of(pack, **what), execution))
        return AsyncRun(self, started.run.run_id, started)


def _without_self(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "self"}
