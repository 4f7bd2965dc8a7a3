"""Processes that play a script: as a worker, or by serving runs by their names."""

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from canon import canon, fault
from lines import event
from loops import Blocking, Looping, inner, ready
from script import Player

import pawl_client

Fields = Mapping[str, Any]


class Worker:
    """A worker, in a thread of its own; it tells by an event how it ended."""

    def __init__(
        self, args: Fields, player: Player, address: str, token: str | None, *kinds: str
    ) -> None:
        milliseconds = args.get("handler_ms")
        self._served = threading.Event()
        self._worker = worker = pawl_client.Worker(
            address=address,
            token=token,
            worker_id=args.get("worker_id", args["name"]),
            packs=args["packs"],
            turns=args.get("capacity", 1),
            steps=args.get("capacity", 1),
            allow_unknown=args.get("allow_unknown", False),
            handler_timeout=milliseconds / 1000 if milliseconds else None,
            suspend_after=args["suspend_ms"] / 1000 if "suspend_ms" in args else None,
            drain_timeout=args.get("drain_ms", 30_000) / 1000,
            on_error=lambda error: event("error", **fault(error)),
        )
        register = {"turns": worker.prompt, "agents": worker.agent, "tools": worker.tool}
        for kind in kinds:
            for name, handler in player.handlers(kind).items():
                register[kind](name)(handler)
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            asyncio.run(self._worker.serve())
            event("served")
        except BaseException as error:
            event("served", error=fault(error))
        self._served.set()

    def stop(self, patience: float) -> None:
        """Drains it."""
        self._worker.stop()
        if not self._served.wait(patience):
            raise TimeoutError("the worker did not drain")


class Server:
    """Serves runs by their names, by a client of its own; tells by an event how each ended.

    Turns of agents that run beside them, and tools of those, are for a worker.
    """

    def __init__(
        self,
        args: Fields,
        player: Player,
        address: str,
        token: str | None,
        loop: Blocking | Looping,
    ) -> None:
        self._loop = loop
        self._client = loop.client(address=address, token=token)
        self._handlers = player.handlers("agents", "turns")
        self._tools = player.handlers("tools")
        self._worker = None
        self._ends: list[Callable[[], object]] = []
        if "agents" in args:
            self._worker = Worker(args, player, address, token, "agents", "tools")

    def serve(self, args: Fields) -> None:
        """Begins to serve a run."""
        self._ends.append(self._loop.begin(self._serve(args)))

    async def _serve(self, args: Fields) -> None:
        client = inner(self._client)
        try:
            if args["attach"]:
                driven = client.attach(args["run_id"]).drive(
                    self._handlers, tools=self._tools, worker_tools=["*"]
                )
            else:
                # The run that was started with this id, found again by the call that starts runs.
                start = started(args)
                driven = client.run(
                    args["pack"], self._handlers, tools=self._tools, worker_tools=["*"], **start
                )
            done = await ready(driven)
            for error in done.errors:
                event("error", **fault(error))
            event("served", run=args["run_id"], status=canon(done.run.status))
        except BaseException as error:
            event("served", run=args["run_id"], error=fault(error))

    def stop(self, patience: float) -> None:
        """Gives its runs up."""
        self._client.close()
        for end in self._ends:
            end()
        if self._worker is not None:
            self._worker.stop(patience)


def started(args: Fields) -> dict[str, Any]:
    """What a run is started with, besides its pack."""
    return {
        "agent": args.get("agent", ""),
        "state": args.get("state", ""),
        "variables": args.get("variables"),
        "input": args.get("input"),
        "labels": args.get("labels"),
        "request_id": args.get("id", ""),
        "max_steps": args.get("max_steps", 0),
        "conversation": args.get("conversation", False),
    }
