"""Executes the turns of the agentic loop for the sidecar at ADDRESS, until SIGTERM.

With OPENAI_BASE_URL set a live model decides (OPENAI_MODEL, OPENAI_API_KEY), else the
answers recorded in recorded.toml do.

Usage: turns.py ADDRESS
"""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from string import Template
from typing import Any

from pawl_client import Handler, Reply, Turn, Usage, Worker
from pawl_client.models import ModelHandler

RECORDED = Path(__file__).with_name("recorded.toml").read_text()


def answer(state: str, visit: int, seen: str) -> dict[str, Any]:
    """The recorded answer to a visit, with the addresses that the prompt shows."""
    url, page = re.search(r"http://\S+", seen), re.search(r"blob:sha256:\w+", seen)
    text = Template(RECORDED).substitute(url=url and url[0], page=page and page[0])
    recorded: dict[str, Any] = tomllib.loads(text)[state][visit - 1]
    return recorded


def replay(turn: Turn) -> Reply:
    """Does what the model did: its tool calls, then its way out."""
    seen = "\n".join([turn.system_prompt, *(message.text for message in turn.messages)])
    said = answer(turn.state, turn.visit, seen)
    for call in said.pop("calls", []):
        turn.step(call["tool"], call["payload"])
    return Reply(usage=Usage(**said.pop("usage")), **said)


def handler() -> tuple[str, Handler]:
    """What decides, and what to call it."""
    url = os.environ.get("OPENAI_BASE_URL")
    if not url:
        return "recorded answers (set OPENAI_BASE_URL for a live model)", replay
    model = os.environ.get("OPENAI_MODEL", "gpt-5-mini")
    os.environ.setdefault("OPENAI_API_KEY", "none")
    return f"{model} at {url}", ModelHandler(f"openai-chat:{model}")


def main() -> None:
    """Serves."""
    worker = Worker(address=sys.argv[1], packs=["agentic-loop"])
    worker.prompt("*")(handler()[1])
    worker.run()


if __name__ == "__main__":
    main()
