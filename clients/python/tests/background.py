"""The worker that test_model_faults kills in the midst of a response in the background."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pawl import Worker
from vendors import awaiting


async def add(payload: dict[str, Any]) -> Any:
    return payload["a"] + payload["b"]


async def main(address: str, url: str, pack: str) -> None:
    worker = Worker(address=address, packs=[pack])
    worker.prompt("calc")(awaiting("responses", url, background=True))
    worker.tool("add")(add)
    await worker.serve()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
