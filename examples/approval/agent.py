"""The agent: a worker that diagnoses, proposes a fix and, once it is approved, applies it.

Rules stand in for the model (`pawl_client.models.ModelHandler` puts a live one in); the tools
are real and work on the service at SERVICE.

Usage: PAWL_TOKEN=... agent.py ADDRESS SERVICE
"""

from __future__ import annotations

import json
import os
import re
import sys
import urllib.request
from functools import partial
from typing import Any

from pawl_client import Reply, Turn, Worker, current_call

NAME = "payments"
LOOK: dict[str, dict[str, Any]] = {
    "check_service_health": {"service": NAME},
    "read_logs": {"service": NAME, "since": "10m"},
    "query_metrics": {"query": "connections", "range": "10m"},
}
TOOLS = {
    "check_service_health": "/health",
    "read_logs": "/logs",
    "query_metrics": "/metrics",
    "apply_config": "/config",
    "restart_service": "/restart",
    "run_healthcheck": "/health",
}


def diagnose(turn: Turn) -> Reply:
    """Looks at everything there is to look at."""
    log = [{"tool": tool, "found": turn.step(tool, payload)} for tool, payload in LOOK.items()]
    found: Any = log[-1]["found"]
    cause = f"a pool of {found['pool_size']} for {found['connections_wanted']} connections"
    return Reply(event="DiagnosisReady", artifacts={"diagnosis": cause, "diagnosis_log": log})


def propose(turn: Turn) -> Reply:
    """Asks for plenty, or for what a person said is the most."""
    most = re.search(r"at most (\d+)", turn.system_prompt)
    fix = {"target": NAME, "config": {"pool_size": int(most[1]) if most else 64}}
    return Reply(event="FixProposed", artifacts={"proposed_fix": fix})


def execute(turn: Turn) -> Reply:
    """Applies the fix that was approved, as its prompt has it."""
    fix = re.search(r"Approved fix: (.*)", turn.system_prompt)
    turn.step("apply_config", json.loads(fix[1]) if fix else {})
    turn.step("restart_service", {"service": NAME})
    turn.step("run_healthcheck", {"service": NAME})
    return Reply(event="FixApplied")


def verify(turn: Turn) -> Reply:
    """Believes the service only."""
    health: Any = turn.step("check_service_health", {"service": NAME})
    return Reply(event="Healthy" if health["healthy"] else "StillBroken")


def sum_up(turn: Turn) -> Reply:
    """The last words on the incident."""
    return Reply(output=turn.system_prompt)


def ask(service: str, path: str, payload: Any) -> Any:
    """Calls the service; it takes a call once, however often the tool is called."""
    once = {"Idempotency-Key": current_call().idempotency_key}
    request = urllib.request.Request(service + path, json.dumps(payload).encode(), once)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def main() -> None:
    """Serves until SIGTERM."""
    address, service = sys.argv[1:]
    worker = Worker(address=address, token=os.environ["PAWL_TOKEN"], packs=["ops-remediation"])
    worker.prompt("diagnostician")(diagnose)
    worker.prompt("proposer")(propose)
    worker.prompt("executor")(execute)
    worker.prompt("verifier")(verify)
    worker.prompt("postmortem")(sum_up)
    for tool, path in TOOLS.items():
        worker.tool(tool)(partial(ask, service, path))
    worker.run()


if __name__ == "__main__":
    main()
