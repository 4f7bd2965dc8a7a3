"""The worker of my-agent: its model and its tools. `pawl dev` starts it."""

import os
from typing import Any

import offline
from pawl_client import Worker


def model() -> Any:
    """Returns the model that executes the prompts: a real one with a key, else the recorded one."""
    if not os.environ.get("OPENAI_API_KEY"):
        return offline.model
    from pawl_client.models import ModelHandler

    return ModelHandler(os.environ.get("MODEL", "openai:gpt-5-mini"))


def main() -> None:
    """Serves the agent until the process gets SIGTERM. PAWL_ADDR is the sidecar."""
    worker = Worker(turns=4)
    worker.prompt("*")(model())
    worker.run()


if __name__ == "__main__":
    main()
