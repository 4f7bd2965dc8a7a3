"""The asynchronous client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
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
from pawl_client._control import (
    Account,
    Approval,
    Decision,
    Limit,
    Schedule,
    UsageGroup,
    UsageReport,
)
from pawl_client._enums import RunStatus, StepVerdict
from pawl_client._outcomes import RunResult
from pawl_client._packs import Pack, PackDetails, PackGraph, PackReport, RegisteredPack
from pawl_client._records import Record
from pawl_client._runs import Identity, RunFilter, RunInfo
from pawl_client._tool_check import Tools, check_tools, schemas_of
from pawl_client._types import GivenT
from pawl_client._values import BlobHead, BlobPiece, Content, Json


class AsyncClient(AsyncCaller):
    """A client of one sidecar for coroutines. Belongs to one event loop.

    `address` is "HOST:PORT" or "unix:PATH" (default: PAWL_ADDR, else 127.0.0.1:7291). `token` is a
    bearer token or a function that returns one (default: the content of the file PAWL_TOKEN_FILE,
    else PAWL_TOKEN, else no token). `tls` is by default that of PAWL_CA, PAWL_CERT and PAWL_KEY,
    else no TLS. The command line has the same defaults. `timeout` bounds each call in seconds,
    repetitions included; `retry_for` bounds how long a call is repeated while the sidecar cannot be
    reached or asks to wait. Each writing call has an idempotency id, which its repetitions keep, so
    it takes effect once.

    Cancelling a task cancels its call; a cancelled writing call may still take effect.

    Use it in an `async with` statement or call `close`. Errors: see `PawlError`; ValueError for a
    setting out of range.

    >>> AsyncClient(address="127.0.0.1:7291", timeout=0)
    Traceback (most recent call last):
    ...
    ValueError: timeout: must be greater than 0, not 0
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
        """Checks a pack document and stores nothing.

        `source` is a Path, which is read, or the text as str or bytes. `filename` is for people and
        changes no result (default: the name of the Path). `strict_schema` is "1.4.0" to "1.9.0", or
        "" (default): the newest version with the keys of Pawl. Findings are part of the report, not
        an error.
        """
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
        """Checks a pack document and stores it. The same bytes again return the same pack.

        `source` and `filename` are those of `validate_pack`. `make_default`: runs that name the
        pack without a version use this one. `move_version`: an id and version that name other bytes
        then name these. `tools` is a Worker, or a mapping as for `run`: before the registration,
        their functions are compared with the pack's parameters, as by `Worker.check`.

        Raises PackInvalidError, PackVersionTakenError, SchemaError (TOOL_MISMATCH).
        """
        content, name = document(source, filename)
        if tools is not None:
            check_tools(content, schemas_of(tools))
        return await self.call(self._packs.register(content, name, make_default, move_version))

    async def get_pack(self, pack: str, *, include_content: bool = False) -> PackDetails:
        """Returns a registered pack by "id", "id@version" or digest.

        `include_content` adds the document. Raises NotFoundError.
        """
        return await self.call(self._packs.get(pack, include_content))

    async def list_packs(self, *, page_size: int = 100) -> AsyncIterator[Pack]:
        """Iterates over all registered packs by id and version, `page_size` of them per call."""
        token = ""
        while True:
            page, token = await self.call(self._packs.list(page_size, token))
            for item in page:
                yield item
            if not token:
                return

    async def pack_graph(self, pack: str, *, agent: str = "") -> PackGraph:
        """Returns the states and edges of one entry of a pack. Raises NotFoundError.

        `agent` is the key of a member (default: the pack's own workflow).
        """
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
        conversation: bool = False,
        execution: str = "WORKERS",
    ) -> AsyncRun[Any, Any, GivenT]:
        """Starts a run whose turns workers or the sidecar execute.

        `pack` is "id", "id@version" or a digest. `agent` is the key of a member. `state` replaces
        the entry and needs the scope admin. `input` is the first message. `max_steps` lowers the
        pack's budget of steps (0: unchanged). `request_id` is an idempotency id: a repeated call
        with the same id returns the run that the first call started (default: a new id per call,
        which repetitions keep). With `conversation` a user talks with the run: after a transition
        it waits for `send_input` in every state whose `control` is not "agent" (default: only where
        the pack says `control: user`). With `execution` "SIDECAR" the sidecar calls the models of
        its operator (`serve --model`), and workers execute the tool calls.

        Raises NotFoundError, VariablesError, RequestError, LimitError, StateError (NO_MODELS,
        NO_SUCH_MODEL), and ValueError for another `execution`; `open` and `run` start runs that the
        caller executes.
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
        worker_tools: Iterable[str] = (),
        on_output: OnOutput | None = None,
        agent: str = "",
        state: str = "",
        variables: Mapping[str, Json] | None = None,
        input: Content | None = None,
        labels: Mapping[str, str] | None = None,
        request_id: str = "",
        max_steps: int = 0,
        conversation: bool = False,
    ) -> Driven[RunResult[Any]]:
        """Starts a run and executes its turns until the run ends or waits for an outside input.

        `handler` takes a Turn and returns a Reply or None, or is a mapping from prompt names to
        functions of that kind. In its place, `model` ("openai:gpt-5-mini") names a model that
        executes the turns, and `output` describes the output of a turn, as for `AsyncModelHandler`.
        `tools` maps tool names to functions, as for `Worker.tool`, which execute here;
        `worker_tools` names the tools whose steps wait for a worker ("*": all others). The other
        arguments are those of `start`. A handler that raises fails its turn, and the pack decides
        about a retry. All runs that a client drives
        share one stream. On that stream the client is a worker for these runs only.

        Functions are called in threads of the client's own, coroutine functions in its loop.

        `on_output` receives each event of the run (`Event`) in order: text as the handler writes
        it, tool calls, transitions, the end.

        `on_output` is called in this thread, may be a coroutine function, and delays only itself.
        An exception from it abandons the run and is raised here. To iterate over the events
        instead, see `Driven`.

        Raises, besides the errors of `start`:

        - RunTakenOverError: another process drives the run, for example one with the same
          `request_id`.
        - UnavailableError: no sidecar accepted the run within `retry_for` seconds. After one has
          accepted it, the run and its answers wait for the sidecar without a bound.
        - HandlerError, FailTurnError (NO_HANDLER), UnknownEventError, ArtifactError,
          InvalidJsonError, StepRefusedError, SchemaError (the payload of a call, or
          RESULT_INVALID), StepFailedError (INVALID_ARGUMENTS), StateError (MODEL_UNPRICED): a
          mistake of the program, at once: docs/guides/workers.md, "Mistakes of the program".
        - StateError (FORKED): this process was forked from a process that had driven runs.
        """
        arguments = _without_self(locals())
        served = served_run(handler_of(handler, model, output), tools, worker_tools)
        for name in ("handler", "model", "output", "tools", "worker_tools", "on_output"):
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
        conversation: bool = False,
    ) -> AsyncRun[Any, Any, GivenT]:
        """Starts a run that the caller drives, and returns it before its first turn is executed.

        Arguments and errors are those of `start`.
        """
        return await self._start("CALLER", **_without_self(locals()))

    def attach(self, run_id: str) -> AsyncRun[Any, Any, Any]:
        """Returns a run by its id. It makes no call: an unknown id fails at the first call of the
        run.
        """
        return AsyncRun(self, run_id)

    async def list_runs(
        self, filter: RunFilter | None = None, *, order: str = "NEWEST_FIRST", page_size: int = 100
    ) -> AsyncIterator[RunInfo]:
        """Iterates over all runs that match a filter, `page_size` of them per call.

        `order` is "NEWEST_FIRST" (default) or "OLDEST_FIRST".
        """
        token = ""
        while True:
            page, token = await self.call(self._runs.list(filter, order, page_size, token))
            for item in page:
                yield item
            if not token:
                return

    async def list_approvals(
        self,
        *,
        run_id: str = "",
        order: str = "NEWEST_FIRST",
        page_size: int = 100,
        link_for: str = "",
    ) -> AsyncIterator[Approval]:
        """Iterates over all open decisions, `page_size` of them per call.

        These are held calls, which `Run.decide_step` decides, and runs that wait for an outside
        event. `run_id` restricts them to one run. `order` is "NEWEST_FIRST" (default) or
        "OLDEST_FIRST". With `link_for`, a name such as "alice@example.com", each held call has a
        `link` with which this person decides. Scope steps:approve. Raises LINKS_OFF if the
        operator has set no keys of links.
        """
        token = ""
        while True:
            call = self._runs.list_approvals(run_id, order, page_size, token, link_for)
            page, token = await self.call(call)
            for item in page:
                yield item
            if not token:
                return

    async def list_decisions(
        self,
        *,
        run_id: str = "",
        after: datetime | None = None,
        before: datetime | None = None,
        tool: str = "",
        principal: str = "",
        verdicts: Sequence[StepVerdict | str] = (),
        pack: str = "",
        labels: Mapping[str, str] | None = None,
        page_size: int = 100,
    ) -> AsyncIterator[Decision]:
        """Iterates over the decisions about held calls, of all runs but imported ones.

        The newest come first. Each has the principal, the verdict, the time, how long the call
        waited, and the reason. The arguments select: `after` (included) and `before` bound the
        time, `principal` is who decided, `verdicts` are for example "DENIED" and "TIMED_OUT". A
        recent `after` makes it fast in a large store. Deleted runs are not in it: the audit log has
        their decisions.
        With `run_id` an imported run is in it. Scope runs:read, runs:write or steps:approve.

            yesterday = datetime.now(UTC) - timedelta(days=1)
            for made in client.list_decisions(after=yesterday, verdicts=["DENIED"]):
                print(made.run_id, made.record.principal, made.record.body)
        """
        token = ""
        while True:
            call = self._runs.list_decisions(
                run_id, after, before, tool, principal, verdicts, pack, labels, page_size, token
            )
            page, token = await self.call(call)
            for item in page:
                yield item
            if not token:
                return

    async def list_budgets(
        self, *, name_prefix: str = "", page_size: int = 100
    ) -> AsyncIterator[Account]:
        """Iterates over the operator's accounts over runs (`--budgets`), by name.

        Each account has what is settled, reserved and refused, the limit, and the end of the
        window. `name_prefix` selects accounts, for example "tenant=acme/". The call changes no
        account. Scope runs:read.

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

    async def usage(
        self,
        by: Sequence[str] = ("day",),
        *,
        from_day: date | str = "",
        to_day: date | str = "",
        pack: str | None = None,
        state: str | None = None,
        model: str | None = None,
        tool: str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> UsageReport:
        """Returns what the runs of the namespace have consumed, also runs that were deleted.

        `by` are the dimensions of the groups: day, namespace, pack, state, model, tool, or
        label:KEY for a label that the operator names (`--usage-label`). `from_day` and `to_day` are
        the first and the last day, in UTC, as a date or YYYY-MM-DD (default: no bound). The other
        arguments select: None is any value, "" is usage without one. The sums are exactly what the
        operator's accounts count. Scope runs:read or runs:write. Errors: BAD_DAY, BAD_DIMENSION,
        USAGE_TOO_LARGE.

            for group in client.usage(["day", "model"], from_day="2026-11-01").groups:
                day, model = group.values
                print(day, model, group.cost_micro_usd / 1e6)
        """
        only = {"pack": pack, "state": state, "model": model, "tool": tool}
        groups: list[UsageGroup] = []
        token = ""
        while True:
            call = self._controls.usage(by, from_day, to_day, only, labels, token)
            report, token = await self.call(call)
            groups += report.groups
            if not token:
                return replace(report, groups=tuple(groups))

    async def list_limits(self) -> tuple[Limit, ...]:
        """Returns the current use of the operator's limits (`--limits`), of all namespaces, in the
        order of the file. Scope store:read.

            waiting = {use.key: use.waiting for limit in client.list_limits() for use in limit.uses}
        """
        return await self.call(self._controls.list_limits())

    async def list_schedules(self) -> tuple[Schedule, ...]:
        """Returns the operator's schedules (`--schedules`) by id, each with its next instants, its
        newest run and its fault. Scope runs:read.

            for schedule in client.list_schedules():
                print(schedule.schedule_id, schedule.next[:1], schedule.fault)
        """
        return await self.call(self._controls.list_schedules())

    async def import_run(
        self, data: AsyncBlobData, *, timeout: float | None = None
    ) -> tuple[RunInfo, bool]:
        """Stores a run and its pack from a file of `Run.export`, to read, compare and fork it.

        Returns the run, and True if it was imported before. `timeout` is in seconds.

        Raises RequestError (EXPORT_INVALID, EXPORT_TRUNCATED), StateError (EXPORT_NEWER),
        ConflictError (RUN_EXISTS), LimitError (EXPORT_TOO_LARGE).
        """
        return await self.perform(self._import(data, timeout))

    async def count_runs(self) -> dict[RunStatus, int]:
        """Returns the number of runs of each status, 0 included."""
        counts = await self.call(self._runs.count())
        return {count.status: count.runs for count in counts}

    async def caller(self) -> Identity:
        """Returns the principal, scopes and namespaces of the caller, as the sidecar sees them."""
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
        """Iterates over records of all runs that match a filter, in journal order.

        It begins after the record of `after_cursor` (`Record.cursor`), or with `from_now` after the
        newest record. With `follow` it does not end by itself. The other arguments and the errors
        are those of `Run.transitions`.
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
        """Iterates over records of all runs, after those that this consumer acknowledged with
        `ack`.

        `consumer` is a name of letters, digits and . _ -. Its first stream creates it, at the
        beginning of the journal, or with `from_now` after the newest record. The next process
        receives again what was read but not acknowledged. A newer stream of the same consumer ends
        this one. The other arguments are those of `transitions`.

        Raises ConflictError (CONSUMER_TAKEN: another principal owns it; CONSUMER_REPLACED),
        NotFoundError (it was deleted), StateError (CONSUMER_EXPIRED: it read no record for longer
        than the operator keeps its cursor), LimitError (MAX_CONSUMERS).
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
        """Acknowledges all records of a consumer up to one, given as a Record or its cursor.

        Raises NotFoundError, PositionError (CURSOR_BEHIND, CURSOR_AHEAD, CURSOR_FOREIGN).
        """
        await self.call(self._consumers.ack(consumer, to))

    async def list_consumers(self) -> tuple[Consumer, ...]:
        """Returns the caller's consumers by name; with the scope admin those of all principals."""
        return await self.call(self._consumers.list())

    async def delete_consumer(self, consumer: str) -> None:
        """Deletes a consumer and ends its stream. Raises NotFoundError."""
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
        """Stores large content; artifacts and results then hold the answer's `ref`.

        `data` is bytes, text, a file, or an iterable of pieces, also an asynchronous one.

        The same bytes again are the same blob. An upload that loses its connection continues from
        the server's position, for up to `retry_for` seconds. `upload_id` names the upload (default:
        a new id): another process that gives the same id and the same data from its beginning
        continues that upload. Data that is not in memory already is held there in windows of at
        most 8 MiB; `timeout` bounds the sending of each window in seconds (default: that of the
        client).

        Raises LimitError (BLOB_TOO_LARGE), RequestError (BLOB_MISMATCH: the upload began with other
        data), ConflictError (UPLOAD_CONTENDED), StateError (BLOBS_OFF), UnavailableError.
        """
        return await self.perform(self._upload(data, media_type, upload_id, timeout).put())

    async def get_blob(self, ref: str | BlobHead, *, timeout: float | None = None) -> bytes:
        """Returns a whole blob and checks its digest.

        `timeout` is in seconds (default: that of the client). Raises NotFoundError, DeadlineError.
        """
        reader = self._download(ref, 0, self._settings.retry_for)
        limit = self._settings.timeout if timeout is None else timeout
        pieces = [piece.data async for piece in self.read(reader, timeout=limit)]
        return reader.whole(b"".join(pieces), limit)

    def stream_blob(
        self, ref: str | BlobHead, *, offset: int = 0, reconnect_for: float = 60.0
    ) -> AsyncIterator[BlobPiece]:
        """Iterates over the pieces of a blob from `offset` bytes on, and reconnects after a loss.

        A blob that is read from its beginning to its end has its digest checked. Raises
        NotFoundError, PositionError (BLOB_OFFSET: the blob is shorter), ServerError (BLOB_DIGEST).
        """
        return self.read(self._download(ref, offset, reconnect_for))

    async def _start(self, execution: str, pack: str, **what: Any) -> AsyncRun[Any, Any, Any]:
        started = await self.call(self._runs.start(start_of(pack, **what), execution))
        return AsyncRun(self, started.run.run_id, started)


def _without_self(arguments: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name != "self"}
