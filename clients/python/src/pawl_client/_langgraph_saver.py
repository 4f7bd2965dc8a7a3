"""Keeps the checkpoints of LangGraph's threads in the sidecar: a run for each thread."""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Callable,
    Collection,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any, TypeAlias, TypeVar, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from pawl_client._async_client import AsyncClient
from pawl_client._background_loop import in_loop
from pawl_client._client import Client
from pawl_client._durable_errors import ThreadEndedError, ThreadInUseError
from pawl_client._durable_pack import pack_id
from pawl_client._durable_run import AnyClient
from pawl_client._enums import RunStatus
from pawl_client._errors import IdReusedError, NotFoundError, RunTerminalError
from pawl_client._langgraph_log import Entry, ThreadLog
from pawl_client._records import ArtifactsSet, Ended, Record
from pawl_client._runs import RunFilter, RunInfo
from pawl_client.pack import Pack

T = TypeVar("T")
Tuples: TypeAlias = "list[CheckpointTuple]"
Pairs: TypeAlias = "list[tuple[str, str]]"

THREAD_LABEL = "pawl-langgraph-thread"
_INLINE_BYTES = 48 * 1024
"""Bytes of an entry that are stored in its record; a larger one is a blob."""
_MAX_ID_BYTES = 256
_THREADS = 256
"""Threads that are kept in memory."""
_OPEN = (RunStatus.RUNNING, RunStatus.WAITING)


def thread_pack(name: str) -> Pack:
    """Returns the pack of the runs that keep threads."""
    pack = Pack(
        pack_id(f"{name}-threads"),
        name=f"{name}: threads",
        description=f"The checkpoints of the threads of the graph {name}, kept for LangGraph",
    )
    thread = pack.state(
        "thread",
        "A thread of LangGraph. Its checkpoints are the records of this run.",
        artifacts={"checkpoint": "application/json", "data": "application/octet-stream"},
        orchestration="external",
    )
    thread.on("Closed", pack.state("closed", "The thread is closed.", terminal=True))
    return pack


class _Thread:
    """A thread as far as this process has read it."""

    def __init__(self, thread_id: str, run: Any) -> None:
        self.id, self.run = thread_id, run
        self.log = ThreadLog(thread_id)
        self.seq = 0
        """The last record that was read."""
        self.lock = asyncio.Lock()


class _Threads:
    """The threads of one client, in the event loop that its calls are made in."""

    def __init__(self, client: AnyClient, name: str) -> None:
        self.client, self.name = client, name
        self.pack = thread_pack(name)
        self.loop: asyncio.AbstractEventLoop | None = None
        self._digest = ""
        self._known: OrderedDict[str, _Thread] = OrderedDict()
        self._opening: dict[str, asyncio.Lock] = {}

    # The loop

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Executes work for blocking code."""
        if isinstance(self.client, Client):
            return in_loop(work).result()
        if self.loop is None or self.loop.is_closed() or _running() is self.loop:
            work.close()
            raise RuntimeError(
                "a saver of an AsyncClient is used by ainvoke, astream and the a… methods, or "
                "from another thread while its loop runs; use a Client for invoke and stream"
            )
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Executes work for code of an event loop."""
        if isinstance(self.client, Client):
            return await asyncio.wrap_future(in_loop(work))
        self.loop = _running()
        return await work

    async def call(self, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if isinstance(self.client, AsyncClient):
            return await method(*arguments, **named)
        return await asyncio.to_thread(method, *arguments, **named)

    # Runs

    async def runs(
        self,
        labels: Mapping[str, str],
        pack: str = "",
        statuses: Sequence[RunStatus] = _OPEN,
    ) -> list[RunInfo]:
        chosen = RunFilter(labels=labels, pack=pack, statuses=statuses)
        found = self.client.list_runs(chosen, page_size=1000)
        if isinstance(found, AsyncIterator):
            return [info async for info in found]
        return await asyncio.to_thread(list, found)

    async def all(self) -> list[_Thread]:
        """Returns all threads of the graph."""
        found = await self.runs({}, self.pack.id)
        ids = [info.labels[THREAD_LABEL] for info in found if THREAD_LABEL in info.labels]
        threads = [await self.thread(thread_id) for thread_id in dict.fromkeys(ids)]
        return [thread for thread in threads if thread is not None]

    async def thread(self, thread_id: str) -> _Thread | None:
        """Returns a thread, read up to now. None means that there is none."""
        return await self._use(thread_id, self._refresh, create=False)

    async def _use(
        self, thread_id: str, work: Callable[[_Thread], Coroutine[Any, Any, None]], *, create: bool
    ) -> _Thread | None:
        """Executes work with a thread, again with its next run if another process deleted this one.

        Returns the thread; None: there is none.
        """
        for last in (False, True):
            thread = await self._find(thread_id, create)
            if thread is None:
                break
            try:
                async with thread.lock:
                    await work(thread)
                break
            except NotFoundError as error:
                if last or error.reason != "RUN_DELETED":
                    raise
                if self._known.get(thread_id) is thread:
                    del self._known[thread_id]
        return thread

    async def _find(self, thread_id: str, create: bool) -> _Thread | None:
        if thread := self._known.get(thread_id):
            self._known.move_to_end(thread_id)
            return thread
        _check_id(thread_id)
        try:
            async with self._opening.setdefault(thread_id, asyncio.Lock()):
                if thread := self._known.get(thread_id):
                    return thread
                run = await self._existing(thread_id)
                if run is None:
                    if not create:
                        return None
                    run = await self._begin(thread_id)
                thread = self._known[thread_id] = _Thread(thread_id, run)
        finally:
            self._opening.pop(thread_id, None)
        while len(self._known) > _THREADS:
            self._known.popitem(last=False)
        return thread

    async def _existing(self, thread_id: str) -> Any:
        found = await self.runs({THREAD_LABEL: thread_id}, statuses=())
        if not found:
            return None
        found.sort(key=lambda info: info.status.terminal)
        if found[0].pack.id != self.pack.id:
            raise _in_use(thread_id, found[0].pack.id, self.name)
        return self.client.attach(found[0].run_id)

    async def _begin(self, thread_id: str) -> Any:
        if not self._digest:
            done = await self.call(
                self.client.register_pack,
                self.pack.json(),
                filename="threads.pack.json",
                move_version=True,
            )
            self._digest = done.pack.digest
        begins = hashlib.sha256(thread_id.encode()).hexdigest()[:48]
        number = 0
        while True:
            try:
                return await self.call(
                    self.client.open,
                    self._digest,
                    request_id=f"langgraph-thread-{begins}-{number}",
                    labels={THREAD_LABEL: thread_id},
                )
            except IdReusedError as error:
                raise _in_use(thread_id, "another pack", self.name) from error
            except NotFoundError as error:
                if error.reason != "RUN_DELETED":
                    raise
            number += 1

    async def _refresh(self, thread: _Thread) -> None:
        """Reads the entries that were added since. Raises ThreadEndedError."""
        for record in await self._records(thread):
            body = record.body
            if isinstance(body, Ended):
                raise ThreadEndedError(
                    f"thread {thread.id!r} has ended: {body.status}; delete_thread begins it again",
                    reason="THREAD_ENDED",
                )
            if not isinstance(body, ArtifactsSet) or record.erased:
                continue
            values = {write.name: write.value for write in body.artifacts_written}
            about = values.get("checkpoint") or {}
            data = values.get("data")
            if about.get("blob"):
                data = await self.call(self.client.get_blob, about["blob"])
            thread.log.apply(record.seq, cast("bytes", data))
            thread.seq = record.seq

    async def _records(self, thread: _Thread) -> list[Record]:
        what: dict[str, Any] = {"kinds": ["ARTIFACTS_SET", "ENDED"], "after_seq": thread.seq}
        if isinstance(self.client, AsyncClient):
            return [record async for record in thread.run.records(page_size=1000, **what)]
        return await asyncio.to_thread(lambda: list(thread.run.records(page_size=1000, **what)))

    async def append(
        self, thread_id: str, make: Callable[[ThreadLog], Entry], *, create: bool = True
    ) -> None:
        """Appends an entry and applies it, after the entries that other processes appended before
        it.
        """
        await self._use(thread_id, lambda thread: self._append(thread, make), create=create)

    async def _append(self, thread: _Thread, make: Callable[[ThreadLog], Entry]) -> None:
        entry = make(thread.log)
        about: dict[str, Any] = entry.about
        values: dict[str, Any] = {"checkpoint": about, "data": entry.data}
        if len(entry.data) > _INLINE_BYTES:
            head = await self.call(self.client.put_blob, entry.data)
            values = {"checkpoint": {**about, "blob": head.ref}}
        try:
            done = await self.call(thread.run.set_artifacts, values)
        except RunTerminalError:
            await self._refresh(thread)
            raise
        if done.record.seq == max(thread.seq, 1) + 1:
            thread.log.apply(done.record.seq, entry.data)
            thread.seq = done.record.seq
        else:
            await self._refresh(thread)

    async def delete(self, thread_id: str) -> None:
        """Deletes a thread with all that it has."""
        for info in await self.runs({THREAD_LABEL: thread_id}, statuses=()):
            if info.pack.id == self.pack.id:
                run = self.client.attach(info.run_id)
                if not info.status.terminal:
                    await self.call(run.cancel, "the thread was deleted")
                await self.call(run.delete)
        self._known.pop(thread_id, None)


class PawlSaver(BaseCheckpointSaver[str]):
    """Keeps LangGraph's checkpoints in the sidecar: a `checkpointer` of `StateGraph.compile`.

    Each thread is a run, and each checkpoint a record of it. The values of a channel are stored
    once for each version, as the difference to the one before. `client` is a `Client`, for graphs
    that are invoked either way, or an `AsyncClient`, for `ainvoke` and `astream`. `name` names the
    graph whose threads these are. `serde` is LangGraph's serializer.

        with Client() as client:
            graph = builder.compile(checkpointer=PawlSaver(client, name="orders"))
            graph.invoke({"order": "17"}, {"configurable": {"thread_id": "order-17"}})

    Raises ThreadInUseError for a thread id that another graph uses, ThreadEndedError for a thread
    whose run has ended, ValueError for an id of more than 256 bytes, and the errors of the client.
    """

    def __init__(
        self, client: AnyClient, *, name: str = "langgraph", serde: SerializerProtocol | None = None
    ) -> None:
        super().__init__(serde=serde)
        self._threads = _Threads(client, name)

    # What LangGraph asks of a saver, blocking

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Returns a checkpoint: that of `checkpoint_id`, or the newest one."""
        return self._threads.wait(self._get_tuple(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yields checkpoints, the newest first."""
        yield from self._threads.wait(self._list(config, filter, before, limit))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Stores a checkpoint; it is on disk when the call returns."""
        return self._threads.wait(self._put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Stores what a task has written since a checkpoint."""
        self._threads.wait(self._put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        """Deletes a thread with all its records."""
        self._threads.wait(self._threads.delete(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Removes the checkpoints that LangGraph's runs made; their bytes go with the thread."""
        self._threads.wait(self._delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copies all checkpoints and writes of a thread to another one."""
        self._threads.wait(self._copy(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Removes all checkpoints of the threads but the newest, or with "delete" the threads."""
        self._threads.wait(self._prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Returns what channels that store differences got since their last whole value."""
        return self._threads.wait(self._delta(config, channels))

    # The same for an event loop

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """See `get_tuple`."""
        return await self._threads.do(self._get_tuple(config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """See `list`."""
        for found in await self._threads.do(self._list(config, filter, before, limit)):
            yield found

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """See `put`."""
        return await self._threads.do(self._put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """See `put_writes`."""
        await self._threads.do(self._put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """See `delete_thread`."""
        await self._threads.do(self._threads.delete(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """See `delete_for_runs`."""
        await self._threads.do(self._delete_for_runs(run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """See `copy_thread`."""
        await self._threads.do(self._copy(source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """See `prune`."""
        await self._threads.do(self._prune(thread_ids, strategy))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """See `get_delta_channel_history`."""
        return await self._threads.do(self._delta(config, channels))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Returns the next version of a channel, unique also in a fork of the thread."""
        number = int(str(current).split(".", maxsplit=1)[0]) if current is not None else 0
        return f"{number + 1:032}.{random.random():016}"

    # The work

    async def _get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread = await self._threads.thread(_thread_id(config))
        return None if thread is None else thread.log.view(self.serde).get_tuple(config)

    async def _list(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Tuples:
        if config is not None:
            one = await self._threads.thread(_thread_id(config))
            threads = [] if one is None else [one]
        else:
            threads = await self._threads.all()
        found: Tuples = []
        for thread in threads:
            left = None if limit is None else limit - len(found)
            where: RunnableConfig = config or {"configurable": {"thread_id": thread.id}}
            view = thread.log.view(self.serde)
            found += view.list(where, filter=filter, before=before, limit=left)
        return found

    async def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread_id = _thread_id(config)
        await self._threads.append(
            thread_id, lambda log: log.put(self.serde, config, checkpoint, metadata, new_versions)
        )
        return {
            "configurable": {
                "thread_id": thread_id,
                "checkpoint_ns": config["configurable"].get("checkpoint_ns", ""),
                "checkpoint_id": checkpoint["id"],
            }
        }

    async def _put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> None:
        await self._threads.append(
            _thread_id(config),
            lambda log: log.put_writes(self.serde, config, writes, task_id, task_path),
        )

    async def _delete_for_runs(self, run_ids: Collection[str]) -> None:
        wanted = set(run_ids)
        for thread in await self._threads.all() if wanted else ():
            gone = [
                (ns, named)
                for ns, checkpoints in thread.log.checkpoints.items()
                for named, (_, metadata, _) in checkpoints.items()
                if self.serde.loads_typed(metadata).get("run_id") in wanted
            ]
            if gone:
                await self._drop(thread.id, gone)

    async def _drop(self, thread_id: str, gone: Pairs) -> None:
        await self._threads.append(thread_id, lambda log: log.drop(gone), create=False)

    async def _copy(self, source_id: str, target_id: str) -> None:
        source = await self._threads.thread(source_id)
        if source is None:
            return
        log = source.log
        for ns, checkpoints in list(log.checkpoints.items()):
            for named in sorted(checkpoints):
                await self._threads.append(
                    target_id,
                    lambda into, of=(ns, named): self._copied(log, into, *of),  # type: ignore[misc]
                )
        for (ns, named), writes in list(log.writes.items()):
            rows = [
                (task, position, channel, value, path)
                for (task, position), (_, channel, value, path) in writes.items()
            ]
            if rows:
                await self._threads.append(
                    target_id,
                    lambda into, what=(ns, named, rows): into.writes_entry(*what),  # type: ignore[misc]
                )

    def _copied(self, log: ThreadLog, into: ThreadLog, ns: str, named: str) -> Entry:
        checkpoint, metadata, parent = log.checkpoints[ns][named]
        versions = self.serde.loads_typed(checkpoint)["channel_versions"]
        values = [
            (channel, version, value)
            for channel, version in versions.items()
            if (value := log.value((ns, channel, version))) is not None
            and (ns, channel, version) not in into.versions
        ]
        about = {"copy_of": log.thread_id}
        return into.checkpoint_entry(ns, named, parent, checkpoint, metadata, values, about)

    async def _prune(self, thread_ids: Sequence[str], strategy: str) -> None:
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f'strategy: must be "keep_latest" or "delete", not {strategy!r}')
        for thread_id in thread_ids:
            if strategy == "delete":
                await self._threads.delete(thread_id)
            elif thread := await self._threads.thread(thread_id):
                kept = self._kept(thread.log)
                gone = [
                    (ns, named)
                    for ns, checkpoints in thread.log.checkpoints.items()
                    for named in checkpoints
                    if (ns, named) not in kept
                ]
                if gone:
                    await self._drop(thread_id, gone)

    def _kept(self, log: ThreadLog) -> set[tuple[str, str]]:
        """Returns the newest checkpoint of each namespace, with those before it that the values of
        its delta channels come from.
        """
        kept: set[tuple[str, str]] = set()
        for ns, checkpoints in log.checkpoints.items():
            current: str | None = max(checkpoints, default=None)
            deltas: set[str] | None = None
            while current is not None and current in checkpoints:
                checkpoint, metadata, parent = checkpoints[current]
                if deltas is None:
                    counters = self.serde.loads_typed(metadata).get("counters_since_delta_snapshot")
                    deltas = set(counters or ())
                kept.add((ns, current))
                versions = self.serde.loads_typed(checkpoint)["channel_versions"]
                deltas = {
                    channel
                    for channel in deltas
                    if (log.value((ns, channel, versions.get(channel, ""))) or ("empty", b""))[0]
                    == "empty"
                }
                current = parent if deltas else None
        return kept

    async def _delta(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        thread = await self._threads.thread(_thread_id(config))
        if thread is None:
            return {channel: {"writes": []} for channel in channels}
        view = thread.log.view(self.serde)
        return view.get_delta_channel_history(config=config, channels=channels)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _thread_id(config: RunnableConfig) -> str:
    found = config.get("configurable", {}).get("thread_id")
    if found is None:
        raise ValueError('configurable: "thread_id" must be given; a later call continues by it')
    return str(found)


def _check_id(thread_id: str) -> None:
    size = len(thread_id.encode())
    if not 0 < size <= _MAX_ID_BYTES:
        raise ValueError(f"thread_id: must have 1 to {_MAX_ID_BYTES} bytes, not {size}")


def _in_use(thread_id: str, pack: str, name: str) -> ThreadInUseError:
    return ThreadInUseError(
        f"thread {thread_id!r} belongs to {pack}, not to the graph {name!r}; give this graph "
        "another thread_id, or both savers the same name",
        reason="THREAD_IN_USE",
    )
