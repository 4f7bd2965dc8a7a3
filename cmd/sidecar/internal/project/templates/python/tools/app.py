"""The worker of my-agent: its model and its tools. `pawl dev` starts it."""

import os
from typing import Any

import offline
from pawl_client import Worker

ORDERS = {"17": "shipped on Monday", "18": "in the warehouse"}


def order_status(order: str) -> str:
    """Returns the state of an order. Replace this by your own system."""
    return ORDERS.get(order, "unknown")


TOOLS = {"order_status": order_status}


def model() -> Any:
    """Returns the model that executes the prompts: a real one with a key, else the recorded one."""
    if not os.environ.get("OPENAI_API_KEY"):
        return offline.model
    from pawl_client.models import ModelHandler

    return ModelHandler(os.environ.get("MODEL", "openai:gpt-5-mini"))


def main() -> None:
    """Serves the agent until the process gets SIGTERM. PAWL_ADDR is the sidecar."""
    worker = Worker(turns=4, steps=4)
    worker.prompt("*")(model())
    for name, function in TOOLS.items():
        worker.tool(name)(function)
    worker.run()


if __name__ == "__main__":
    main()
