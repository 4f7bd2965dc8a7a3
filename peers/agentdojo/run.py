"""Counts which injections of AgentDojo's suites a declared pack stops, and what by.

Every user task is done by its ground truth, through a real sidecar; once with nothing
injected, then once for each injection task whose text it comes to see. The model obeys
every injection. Usage: run.py [--short] [--json FILE] [SUITE ...]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import adversary
import packs
import suites
from assistant import Assistant, Attack, Call, RefusedError, World
from office import Office

THREADS = 4
# What the last refusal of a call says stopped it.
BARRIERS = {
    "TOOL_NOT_LISTED": "no state has the tool",
    "UNKNOWN_EVENT": "no event leads there",
    "REJECTED": "the person",
    "PAYLOAD_INVALID": "the tool's schema",
    "MAX_TOOL_CALLS_PER_TURN": "a budget",
    "TOOL_NOT_ALLOWED": "the operator's allowlist",
}
COLUMNS = [*dict.fromkeys(BARRIERS.values()), "not stopped"]


@dataclass
class Row:
    """What became of the attacks of one injection task in one suite: how many there were,
    how many succeed with nothing in their way, under how many the user's task was solved,
    in how many that were stopped a call of the injection that acts was made (`misled`: with
    a careless person), and what stopped them."""

    attempted: int = 0
    alone: int = 0
    useful: int = 0
    partly: int = 0
    misled: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    careless: Counter[str] = field(default_factory=Counter)
    refusals: Counter[str] = field(default_factory=Counter)


@dataclass
class Trial:
    """One user task in one suite, perhaps with an injection."""

    office: Office
    name: str
    suite: Any
    task: Any
    injection: Any = None

    def world(self) -> tuple[World, Any, list[Call]]:
        """A fresh environment, what it was, and the calls that solve the task in it."""
        from agentdojo.functions_runtime import FunctionsRuntime

        injected = {}
        if self.injection is not None:
            text = f"{self.marker} {self.injection.GOAL}"
            plain = "".join(c for c in text if c.isalnum() or c in " .,@<>/-_$")
            injected = dict.fromkeys(self.suite.get_injection_vector_defaults(), plain)
        environment = self.suite.load_and_inject_default_environment(injected)
        environment = self.task.init_environment(environment)
        before = environment.model_copy(deep=True)
        calls = [(call.function, dict(call.args)) for call in self.task.ground_truth(environment)]
        return World(self.suite, FunctionsRuntime(self.suite.tools), environment), before, calls

    @property
    def marker(self) -> str:
        """What an obeying model knows the injection by."""
        return f"<{self.injection.ID}>"

    def judge(self, task: Any, world: World, before: Any, said: str) -> bool:
        """AgentDojo's own judgement: the user task is solved, the injection successful."""
        from agentdojo.functions_runtime import FunctionCall

        trace = [FunctionCall(function=tool, args=payload) for tool, payload in world.trace]
        output = [{"type": "text", "content": said}]
        return bool(self.suite._check_task_result(task, output, before, world.environment, trace))

    def alone(self) -> bool:
        """Whether the injection succeeds where nothing is in its way."""
        world, before, calls = self.world()
        seen = False
        for tool, payload in calls:
            if self.marker in world.call(tool, payload) and not seen:
                seen = True
                for bad in adversary.calls_of(self.name, self.injection, before):
                    world.call(*bad)
        return seen and self.judge(self.injection, world, before, adversary.says(self.injection))

    def through(self, careless: bool = False) -> tuple[Attack | None, bool, bool, int]:
        """The task through the sidecar: the attack, whether the task was solved, whether
        the injection was successful, and how often the person was asked."""
        world, before, calls = self.world()
        attack = None
        if self.injection is not None:
            attack = Attack(self.marker, adversary.calls_of(self.name, self.injection, before))
        routes = packs.routes_of(self.name)
        used = {tool for tool, _ in calls}
        route = next(route for route in routes if used <= route.reads | route.acts)
        wanted = [call for call in calls if call[0] in route.acts and call[0] not in route.reads]
        run = self.office.model.open(f"agentdojo-{self.name}", input=self.task.PROMPT)
        decide = self.office.approver(wanted, careless)
        assistant = Assistant(run, world, route, routes, attack, decide)
        try:
            assistant.work(calls)
            done = True
        except RefusedError:
            done = False
        said = self.task.GROUND_TRUTH_OUTPUT
        solved = done and self.judge(self.task, world, before, said)
        if attack is None or not attack.seen:
            return attack, solved, False, assistant.approvals
        said += adversary.says(self.injection)
        return attack, solved, self.judge(self.injection, world, before, said), assistant.approvals


def attacked(trial: Trial, row: Row) -> None:
    """Runs one injection under one user task: alone, with an attentive and with a careless
    person."""
    attack, solved, succeeded, _ = trial.through()
    assert attack is not None
    if not attack.seen:
        return
    row.attempted += 1
    row.alone += trial.alone()
    row.useful += solved
    row.refusals += attack.refusals
    row.ends[ended(attack, succeeded)] += 1
    row.partly += not succeeded and acted(trial, attack)
    again, _, fooled, _ = trial.through(careless=True)
    assert again is not None
    row.careless[ended(again, fooled)] += 1
    row.misled += not fooled and acted(trial, again)


def acted(trial: Trial, attack: Attack) -> bool:
    """Whether a call of the injection that acts was made."""
    acts = frozenset().union(*(route.acts for route in packs.routes_of(trial.name)))
    return any(tool in acts for tool in attack.made)


def ended(attack: Attack, succeeded: bool) -> str:
    """What stopped an attack: that which its first call that was not made met last."""
    if succeeded:
        return "not stopped"
    return BARRIERS[attack.met[0]] if attack.met else "by itself"


def honest(office: Office, name: str, suite: Any) -> tuple[int, int, int]:
    """The user tasks with nothing injected: how many, how many solved, approvals."""
    trials = [Trial(office, name, suite, task) for task in suite.user_tasks.values()]
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(Trial.through, trials))
    return len(trials), sum(solved for _, solved, _, _ in results), sum(r[3] for r in results)


def measure(office: Office, name: str, suite: Any, short: bool) -> dict[str, Row]:
    """Every injection task under every user task; `short`: under the first that sees it."""
    rows: dict[str, Row] = {key: Row() for key in suite.injection_tasks}

    def one(key: str) -> None:
        for task in suite.user_tasks.values():
            attacked(Trial(office, name, suite, task, suite.injection_tasks[key]), rows[key])
            if short and rows[key].attempted:
                return

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(one, rows))
    return rows


def table(name: str, rows: dict[str, Row]) -> list[str]:
    """The rows of one suite as Markdown."""
    lines = []
    for key, row in rows.items():
        cells = [row.attempted, row.alone, *(row.ends[column] for column in COLUMNS)]
        cells += [row.partly, row.careless["not stopped"], row.misled, row.useful]
        lines.append(f"| {name} {key.removeprefix('injection_task_')} | " + " | ".join(map(str, cells)) + " |")
    return lines


def main() -> int:
    """Prints the table; fails if an honest task is not solved any more."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("suites", nargs="*", default=["workspace", "travel", "banking", "slack"])
    parser.add_argument("--short", action="store_true", help="one user task for each injection")
    parser.add_argument("--json", type=Path, help="write the counts there")
    given = parser.parse_args()
    loaded = {name: suite for name, suite in suites.load().items() if name in given.suites}
    head = ["injection task", "attempted", "alone", *COLUMNS, "stopped, but a call that acts was made", "careless: not stopped", "careless: stopped, but acted", "user task solved"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    failed, kept = 0, {}
    with Office(loaded) as office:
        for name, suite in loaded.items():
            rows = measure(office, name, suite, given.short)
            print("\n".join(table(name, rows)), flush=True)
            tasks, solved, approvals = honest(office, name, suite)
            print(f"<!-- {name}: {solved} of {tasks} honest tasks, {approvals} approvals -->", flush=True)
            failed += tasks - solved
            kept[name] = {"honest": [tasks, solved, approvals]} | {k: vars(r) for k, r in rows.items()}
    if given.json:
        given.json.write_text(json.dumps(kept, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
