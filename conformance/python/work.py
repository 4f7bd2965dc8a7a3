"""A worker that plays a script."""

import asyncio
import threading
from typing import Any

from canon import fault
from lines import event
from script import Holds, Player

import pawl


def serve(
    args: dict[str, Any],
    address: str,
    token: str | None,
    holds: Holds,
    ledger: str,
    served: threading.Event,
) -> pawl.Worker:
    """Begins to work in a thread of its own; tells by an event how that ended."""
    milliseconds = args.get("handler_ms")
    worker = pawl.Worker(
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
    player = Player(args, holds, ledger)
    for name in args.get("turns", {}):
        worker.prompt(name)(player.turn("turn", name))
    for name in args.get("agents", {}):
        worker.agent(name)(player.turn("agent", name))
    for name in args.get("tools", {}):
        worker.tool(name)(player.tool(name))

    def run() -> None:
        try:
            asyncio.run(worker.serve())
            event("served")
        except BaseException as error:
            event("served", error=fault(error))
        served.set()

    threading.Thread(target=run, daemon=True).start()
    return worker
