"""The entries in which the checkpoints of a LangGraph thread are stored. Needs no event loop.

An entry has an index and the bytes that the index describes. A value of a channel is stored once
for each version of the channel, as the difference to an earlier value of the same channel where
that is shorter: a list that only grows takes what is new of it.
"""

from __future__ import annotations

import json
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.serde.base import SerializerProtocol

from pawl_client._json_text import dump_json

Typed: TypeAlias = "tuple[str, bytes]"
"""A value as LangGraph's serializer writes it: the name of its form, and its bytes."""
Place: TypeAlias = "tuple[int, int]"
"""Where a value is: the number of its record, and its position in the entry."""
Key: TypeAlias = "tuple[str, str, str | int | float]"
"""The namespace of a checkpoint, a channel, and the channel's version."""

_MAX_CHAIN = 1000
"""Differences in a row before a value is stored whole again."""
_HEADERS = (0, 1, 3, 5)
"""Bytes before the first element of a list in MessagePack: its length, in each form."""
EMPTY: Typed = ("empty", b"")
"""A version of a channel that has no value."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry to append: `about` is for people, `data` is its index and bytes."""

    about: dict[str, Any]
    data: bytes


@dataclass(frozen=True, slots=True)
class _Stored:
    """A stored value: whole, or the difference to another one."""

    kind: str
    data: bytes
    base: Place | None = None
    cut: tuple[int, int, int] = (0, 0, 0)
    """Of the base: bytes that are skipped, bytes that are kept, and bytes kept at its end."""
    head: int = 0
    """Bytes of `data` that stand before what is kept of the base."""
    chain: int = 0
    """Differences that have to be followed to a whole value."""
    spent: int = 0
    """Bytes of these differences."""


@dataclass(slots=True)
class ThreadLog:
    """What the entries of one thread say so far."""

    thread_id: str
    checkpoints: defaultdict[str, dict[str, tuple[Typed, Typed, str | None]]] = field(
        default_factory=lambda: defaultdict(dict)
    )
    """Checkpoint, metadata and parent, by namespace and id."""
    writes: defaultdict[tuple[str, str], dict[tuple[str, int], tuple[str, str, Typed, str]]] = (
        field(default_factory=lambda: defaultdict(dict))
    )
    """Writes of tasks, by namespace and id of the checkpoint."""
    versions: dict[Key, Place] = field(default_factory=dict)
    """Where the value of each version is."""
    _stored: dict[Place, _Stored] = field(default_factory=dict)
    _newest: dict[tuple[str, str], tuple[Place, Typed]] = field(default_factory=dict)
    """The newest value of each channel, by namespace and channel."""

    # Entries

    def put(
        self,
        serde: SerializerProtocol,
        config: Any,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: Mapping[str, str | int | float],
    ) -> Entry:
        """Returns the entry of a checkpoint, with the values of its new versions."""
        given = config["configurable"]
        kept: dict[str, Any] = {**checkpoint}
        values = kept.pop("channel_values")
        whole = get_checkpoint_metadata(config, metadata)
        return self.checkpoint_entry(
            given.get("checkpoint_ns", ""),
            checkpoint["id"],
            given.get("checkpoint_id"),
            serde.dumps_typed(kept),
            serde.dumps_typed(whole),
            [
                (
                    channel,
                    version,
                    serde.dumps_typed(values[channel]) if channel in values else EMPTY,
                )
                for channel, version in new_versions.items()
            ],
            {"step": whole.get("step"), "source": whole.get("source")},
        )

    def checkpoint_entry(
        self,
        ns: str,
        id: str,
        parent: str | None,
        checkpoint: Typed,
        metadata: Typed,
        values: Sequence[tuple[str, str | int | float, Typed]],
        about: Mapping[str, Any],
    ) -> Entry:
        """Returns the entry of a checkpoint whose parts are serialized."""
        index: dict[str, Any] = {"op": "put", "ns": ns, "id": id, "parent": parent}
        index["checkpoint"] = [checkpoint[0], len(checkpoint[1])]
        index["metadata"] = [metadata[0], len(metadata[1])]
        pieces, rows = [checkpoint[1], metadata[1]], []
        for channel, version, value in values:
            stored = self._difference(ns, channel, value)
            row: list[Any] = [channel, version, stored.kind, len(stored.data)]
            if stored.base is not None:
                row += [list(stored.base), list(stored.cut), stored.head]
            rows.append(row)
            pieces.append(stored.data)
        index["values"] = rows
        return _entry({"checkpoint": id, "namespace": ns, **about}, index, pieces)

    def put_writes(
        self,
        serde: SerializerProtocol,
        config: Any,
        writes: Iterable[tuple[str, Any]],
        task_id: str,
        task_path: str,
    ) -> Entry:
        """Returns the entry of a task's writes."""
        given = config["configurable"]
        rows = [
            (
                task_id,
                WRITES_IDX_MAP.get(channel, position),
                channel,
                serde.dumps_typed(value),
                task_path,
            )
            for position, (channel, value) in enumerate(writes)
        ]
        return self.writes_entry(given.get("checkpoint_ns", ""), given["checkpoint_id"], rows)

    def writes_entry(
        self, ns: str, id: str, writes: Sequence[tuple[str, int, str, Typed, str]]
    ) -> Entry:
        """Returns the entry of writes that are serialized."""
        rows = [
            [task, position, channel, value[0], len(value[1]), path]
            for task, position, channel, value, path in writes
        ]
        index = {"op": "writes", "ns": ns, "id": id, "writes": rows}
        about = {"writes_of": id, "namespace": ns, "channels": sorted({row[2] for row in writes})}
        return _entry(about, index, [row[3][1] for row in writes])

    @staticmethod
    def drop(checkpoints: Sequence[tuple[str, str]]) -> Entry:
        """Returns the entry that removes checkpoints, each a namespace and an id."""
        index = {"op": "drop", "checkpoints": [list(one) for one in checkpoints]}
        return _entry({"removed": len(checkpoints)}, index, [])

    def apply(self, seq: int, data: bytes) -> None:
        """Takes in the entry of record `seq`. Entries have to come in the order of the records."""
        text = zlib.decompress(data)
        end = 4 + int.from_bytes(text[:4], "big")
        index: dict[str, Any] = json.loads(text[4:end])
        pieces = _Pieces(text, end)
        if index["op"] == "put":
            self._apply_put(seq, index, pieces)
        elif index["op"] == "writes":
            known = self.writes[index["ns"], index["id"]]
            for task, position, channel, kind, size, path in index["writes"]:
                value = (kind, pieces.take(size))
                if position < 0 or (task, position) not in known:
                    known[task, position] = (task, channel, value, path)
        else:
            for ns, gone in index["checkpoints"]:
                self.checkpoints[ns].pop(gone, None)
                self.writes.pop((ns, gone), None)

    def _apply_put(self, seq: int, index: dict[str, Any], pieces: _Pieces) -> None:
        ns = index["ns"]
        checkpoint = (index["checkpoint"][0], pieces.take(index["checkpoint"][1]))
        metadata = (index["metadata"][0], pieces.take(index["metadata"][1]))
        self.checkpoints[ns][index["id"]] = (checkpoint, metadata, index["parent"])
        for position, row in enumerate(index["values"]):
            channel, version, kind, size = row[:4]
            place, data = (seq, position), pieces.take(size)
            if len(row) > 4:
                base = (row[4][0], row[4][1])
                before = self._stored[base]
                stored = _Stored(
                    kind,
                    data,
                    base,
                    (row[5][0], row[5][1], row[5][2]),
                    row[6],
                    before.chain + 1,
                    before.spent + len(data),
                )
            else:
                stored = _Stored(kind, data)
            self._stored[place] = stored
            self.versions[ns, channel, version] = place
            self._newest[ns, channel] = (place, (kind, self._bytes(stored, ns, channel)))

    # Values

    def value(self, key: Key) -> Typed | None:
        """Returns the value of a version. None means that it was never stored."""
        place = self.versions.get(key)
        if place is None:
            return None
        newest = self._newest.get(key[:2])
        if newest is not None and newest[0] == place:
            return newest[1]
        stored = self._stored[place]
        return stored.kind, self._bytes(stored)

    def _bytes(self, stored: _Stored, ns: str = "", channel: str = "") -> bytes:
        """Returns the bytes of a value. The newest value of a channel is not rebuilt."""
        chain = [stored]
        newest = self._newest.get((ns, channel)) if channel else None
        whole: bytes | None = None
        while (base := chain[-1].base) is not None:
            if newest is not None and newest[0] == base:
                whole = newest[1][1]
                break
            chain.append(self._stored[base])
        if whole is None:
            whole = chain.pop().data
        while chain:
            whole = _joined(chain.pop(), whole)
        return whole

    def _difference(self, ns: str, channel: str, value: Typed) -> _Stored:
        """Returns how a value is stored: as the difference to the channel's newest one if that is
        at most half as long.
        """
        whole = _Stored(value[0], value[1])
        newest = self._newest.get((ns, channel))
        if newest is None or newest[1][0] != value[0] or len(value[1]) < 64:
            return whole
        place, before = newest[0], newest[1][1]
        skipped, head, kept = _longest(before, value[1])
        left = min(len(before) - skipped - kept, len(value[1]) - head - kept)
        tail = _common_end(before, value[1], left)
        data = value[1][:head] + value[1][head + kept : len(value[1]) - tail]
        earlier = self._stored[place]
        spent = earlier.spent + len(data)
        if 2 * len(data) > len(value[1]) or spent > len(value[1]) or earlier.chain >= _MAX_CHAIN:
            return whole
        return _Stored(value[0], data, place, (skipped, kept, tail), head)

    # Readers

    def view(self, serde: SerializerProtocol) -> InMemorySaver:
        """Returns LangGraph's own saver over this thread, for reading."""
        saver = InMemorySaver(serde=serde)
        saver.storage[self.thread_id] = self.checkpoints
        for (ns, checkpoint), writes in self.writes.items():
            saver.writes[self.thread_id, ns, checkpoint] = writes
        saver.blobs = _Blobs(self)
        return saver


class _Blobs(dict[tuple[str, str, str, "str | int | float"], Typed]):
    """The values of a thread as LangGraph's own saver looks them up."""

    def __init__(self, log: ThreadLog) -> None:
        super().__init__()
        self._log = log

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and key[1:] in self._log.versions

    def __getitem__(self, key: tuple[str, str, str, str | int | float]) -> Typed:
        found = self._log.value(key[1:])
        if found is None:
            raise KeyError(key)
        return found

    def get(self, key: Any, default: Any = None) -> Any:
        found = self._log.value(key[1:])
        return default if found is None else found


class _Pieces:
    """Reads the bytes of an entry in the order of its index."""

    def __init__(self, text: bytes, at: int) -> None:
        self._text, self._at = text, at

    def take(self, size: int) -> bytes:
        self._at += size
        return self._text[self._at - size : self._at]


def _entry(about: dict[str, Any], index: dict[str, Any], pieces: Sequence[bytes]) -> Entry:
    head = dump_json(index, "checkpoint").encode()
    text = b"".join([len(head).to_bytes(4, "big"), head, *pieces])
    return Entry(about, zlib.compress(text, 6))


def _joined(stored: _Stored, base: bytes) -> bytes:
    skipped, kept, tail = stored.cut
    end = base[len(base) - tail :] if tail else b""
    data, head = stored.data, stored.head
    return b"".join([data[:head], base[skipped : skipped + kept], data[head:], end])


def _longest(before: bytes, after: bytes) -> tuple[int, int, int]:
    """Returns the longest common run that begins behind a list's header in both: the bytes before
    it in each, and its length.
    """
    found = (0, 0, 0)
    for skipped in _HEADERS:
        for head in _HEADERS:
            length = _common(memoryview(before)[skipped:], memoryview(after)[head:])
            if length > found[2]:
                found = (skipped, head, length)
    return found


def _common(one: memoryview, other: memoryview) -> int:
    """Returns the length of the common beginning."""
    low, high = 0, min(len(one), len(other))
    if one[:high] == other[:high]:
        return high
    while high - low > 1:
        middle = (low + high) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle
    return low


def _common_end(one: bytes, other: bytes, most: int) -> int:
    """Returns the length of the common end, at most `most`."""
    low, high = 0, max(most, 0) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if one[len(one) - middle :] == other[len(other) - middle :]:
            low = middle
        else:
            high = middle
    return low
