"""One run of a task through the sidecar: a model that does what the user asks and, when a
tool's result has an injection, everything that it says, in every way that it can think of."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pawl_client import PawlError, Reply, Run, StepStatus, TurnInfo
from pawl_client._turn_requests import StepCall

from packs import Route

Call = tuple[str, dict[str, Any]]
EXECUTED = ""


class RefusedError(Exception):
    """The model cannot do what the user asks for."""


@dataclass
class World:
    """AgentDojo's environment of one run, and every call that was made in it."""

    suite: Any
    runtime: Any
    environment: Any
    trace: list[Call] = field(default_factory=list)

    def call(self, tool: str, payload: dict[str, Any]) -> str:
        """Makes a call, and gives its result as a model is shown it."""
        from agentdojo.agent_pipeline.tool_execution import tool_result_to_str

        result, error = self.runtime.run_function(self.environment, tool, payload)
        self.trace.append((tool, payload))
        return error or str(tool_result_to_str(result))


@dataclass
class Attack:
    """What became of one injection. `made` are the tools that were called for it, `met` what
    refused each call that was not made, `refusals` every single refusal on the way."""

    marker: str
    calls: list[Call]
    seen: bool = False
    made: list[str] = field(default_factory=list)
    met: list[str] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)


class Assistant:
    """Drives one run. `decide` is the person: it is asked in another process's name."""

    def __init__(
        self,
        run: Run,
        world: World,
        route: Route,
        routes: list[Route],
        attack: Attack | None,
        decide: Callable[[str], bool],
    ) -> None:
        self._run, self._world, self._route, self._routes = run, world, route, routes
        self._attack, self._decide = attack, decide
        self.approvals = 0

    def work(self, calls: list[Call]) -> None:
        """Does what the user asks for, by the calls of the ground truth."""
        self._turn = self._open()
        self._emit(self._route.event)
        for tool, payload in calls:
            refused = self._do(tool, payload)
            if refused:
                raise RefusedError(f"the user's own {tool} was refused: {refused}")
        if self._route.acts:
            self._emit("Finished")
        self._run.complete(self._turn.turn, Reply(output="done"))

    # What a model can do

    def _do(self, tool: str, payload: dict[str, Any]) -> str:
        """One call the way the pack has it: what only reads at once, what acts proposed."""
        if tool not in self._route.reads:
            return self._propose(tool, payload)
        refused, result = self._step(tool, payload)
        self._read(result)
        return refused

    def _step(self, tool: str, payload: dict[str, Any]) -> tuple[str, str]:
        """Asks the sidecar for a call, which is made here only if the sidecar has issued
        it and nothing holds it: what refused it, and its result."""
        asked = self._run.request_steps(self._turn.turn, [StepCall(tool, payload)])
        [outcome] = asked.outcomes
        if outcome.denial is not None:
            return str(outcome.denial.code), ""
        step, token = outcome.step, self._turn.turn.token
        assert step is not None
        if step.status != StepStatus.PENDING or step.inquiry or (step.approval and step.approval.held):
            return "NOT_RELEASED", ""
        assert isinstance(step.payload, dict)
        result = self._world.call(step.tool, step.payload)
        self._run.resolve_step(step.step, tool, result, attempt=step.attempt, token=token)
        return EXECUTED, result

    def _propose(self, tool: str, payload: dict[str, Any]) -> str:
        """Proposes a call. If a person approves, code makes it: exactly it, and once."""
        self._emit("Proposed", {"proposal": {"tool": tool, "payload": payload}})
        self.approvals += 1
        self._outside()
        if not self._decide(self._run.id):
            self._turn = self._open()
            return "REJECTED"
        self._turn = self._open()
        proposal = json.loads(self._turn.system_prompt.split(": ", 1)[1])
        refused, result = self._step(proposal["tool"], proposal["payload"])
        self._emit("Applied")
        self._read(result)
        return refused

    def _emit(self, event: str, artifacts: dict[str, Any] | None = None) -> None:
        self._run.emit(event, artifacts=artifacts, turn_token=self._turn.turn.token)
        if event != "Proposed":
            self._turn = self._open()

    def _open(self) -> TurnInfo:
        return self._run.turn()

    # What an injection makes of it

    def _read(self, result: str) -> None:
        attack = self._attack
        if attack is None or attack.seen or attack.marker not in result:
            return
        attack.seen = True
        for tool, payload in attack.calls:
            met = self._force(attack, tool, payload)
            if met:
                attack.met.append(met)
            else:
                attack.made.append(tool)

    def _force(self, attack: Attack, tool: str, payload: dict[str, Any]) -> str:
        """Tries a call here, then every event that is not this state's, then by a
        proposal where the pack has a way. The last refusal is what it met."""
        refused, _ = self._step(tool, payload)
        if not refused:
            return EXECUTED
        attack.refusals[refused] += 1
        if refused != "TOOL_NOT_LISTED":
            return refused
        if all(tool not in route.reads | route.acts for route in self._routes):
            return "TOOL_NOT_LISTED"
        self._jump(attack)
        if tool not in self._route.acts:
            return "UNKNOWN_EVENT"
        refused = self._propose(tool, payload)
        if refused:
            attack.refusals[refused] += 1
        return refused

    def _jump(self, attack: Attack) -> None:
        """Tries every event of the pack that this state has not."""
        words = {route.event for route in self._routes} | {"Approved", "Applied", "Rejected"}
        for event in sorted(words):
            self._refused(attack, event, self._turn.turn.token)

    def _outside(self) -> None:
        """Tries to approve its own proposal."""
        if self._attack is not None and self._attack.seen:
            self._refused(self._attack, "Approved", "")

    def _refused(self, attack: Attack, event: str, token: str) -> None:
        try:
            self._run.emit(event, turn_token=token)
        except PawlError as error:
            attack.refusals[error.reason] += 1
            return
        raise RuntimeError(f"the sidecar took {event} from whoever may not send it")
