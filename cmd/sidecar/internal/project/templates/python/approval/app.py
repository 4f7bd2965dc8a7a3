"""The worker of my-agent: its model and its tools. `pawl dev` starts it."""

import os
from typing import Any

import offline
from pawl_client import Worker, current_call

PAID: dict[str, str] = {}


def refund(order: str, amount: float) -> str:
    """Refunds an order, once for each key. Hand the key on to your payment provider."""
    key = current_call().idempotency_key
    return PAID.setdefault(key, f"{amount:.2f} for order {order}")


TOOLS = {"refund": refund}


def model() -> Any:
    """Returns the model that executes the prompts: a real one with a key, else the recorded one."""
    if not os.environ.get("OPENAI_API_KEY"):
        return offline.model
    from pawl_client.models import ModelHandler

    return ModelHandler(os.environ.get("MODEL", "openai:gpt-5-mini"))


def main() -> None:
    """Serves the agent until the process gets SIGTERM. PAWL_ADDR is the sidecar."""
    # A turn whose call waits for a person is released after two seconds, so that it keeps no place.
    worker = Worker(turns=4, steps=4, suspend_after=2)
    worker.prompt("*")(model())
    for name, function in TOOLS.items():
        worker.tool(name)(function)
    worker.run()


if __name__ == "__main__":
    main()
