"""The program that test_crash kills: turns by a model, whose tool changes the world outside."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import urllib.request

from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from pawl_client import AsyncClient, Worker, current_call
from pawl_client.models import AsyncModelHandler


def charge(url: str, order: str) -> object:
    """Tells the world outside, under the key of the call."""
    body = {"key": current_call().idempotency_key, "order": order, "pid": os.getpid()}
    request = urllib.request.Request(url, json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


async def main(mode: str, address: str, base: str, count: int) -> None:
    provider = OpenAIProvider(base_url=f"{base}/v1", api_key="none")
    model = OpenAIChatModel("gpt-5-mini", provider=provider)
    extra = {"extra_headers": {"X-Pid": str(os.getpid())}}
    handler = AsyncModelHandler(model, extra=extra)

    async def tool(payload: dict[str, str]) -> object:
        return await asyncio.to_thread(charge, f"{base}/charge", payload["order"])

    if mode == "worker":
        worker = Worker(address=address, turns=8, steps=8)
        worker.prompt("work")(handler)
        worker.prompt("end")(handler)
        worker.tool("charge")(tool)
        await worker.serve()
        return
    async with AsyncClient(address=address, retry_for=60, timeout=60) as client:
        results = [
            client.run(
                "crash",
                handler,
                tools={"charge": tool},
                request_id=f"app-{n}",
                variables={"n": n},
                input="Go.",
            )
            for n in range(count)
        ]
        for result in await asyncio.gather(*results):
            assert result.status == "COMPLETED", result


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])))
