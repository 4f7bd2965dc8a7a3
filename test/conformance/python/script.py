"""What handlers do: for each prompt, agent or tool a list with one entry an execution,
of which the last is repeated."""

import base64
import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from datetime import datetime, timezone
from typing import Any, NoReturn

import models
from canon import canon, fault
from lines import event
from loops import Blocking, Looping, ready

import pawl_client


class Holds:
    """Points at which handlers wait, by name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._points: dict[str, Future[None]] = {}
        self._armed: dict[str, str] = {}

    def point(self, name: str) -> Future[None]:
        """What is done once those go on that wait there."""
        with self._lock:
            return self._points.setdefault(name, Future())

    def release(self, name: str) -> None:
        """Lets those go on that wait at a point, and all that come to it."""
        if not (point := self.point(name)).done():
            point.set_result(None)

    def arm(self, name: str, how: str) -> None:
        """Has the next handler that comes to a point `die` there, or `hold`."""
        with self._lock:
            self._armed[name] = how
            self._points.pop(name, None)

    def take(self, name: str) -> str:
        """What the next one at a point is to do; empty: go on."""
        with self._lock:
            return self._armed.pop(name, "")


def die(*_: object) -> NoReturn:
    """Ends the process as a crash does."""
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("it lives on")


class Deadly(dict[str, Any]):
    """A result whose text kills the process, so that it is never sent."""

    items = die


class Player:
    """Plays a script and reports what it does."""

    def __init__(
        self, script: Mapping[str, Any], holds: Holds, ledger: str, loop: Blocking | Looping
    ) -> None:
        self._script, self._holds, self._ledger, self._loop = script, holds, ledger, loop
        self._lock = threading.Lock()
        self._count: Counter[str] = Counter()

    def _next(self, kind: str, name: str) -> dict[str, Any]:
        acts: list[dict[str, Any]] = self._script[kind + "s"][name]
        with self._lock:
            number = self._count[kind + name]
            self._count[kind + name] += 1
        return acts[min(number, len(acts) - 1)]

    def handlers(self, *kinds: str) -> dict[str, Callable[..., Any]]:
        """The handlers of prompts, agents or tools."""
        make = {"turns": self._turn, "agents": self._turn, "tools": self._tool}
        return {
            name: self._loop.handler(make[kind](kind.removesuffix("s"), name))
            for kind in kinds
            for name in self._script.get(kind, {})
        }

    @property
    def _host(self) -> models.Host:
        return models.Host(self._hold, self._loop.pause, self._pass, self._enter)

    async def _pass(self, name: str) -> None:
        """Comes to a point at which the runner may have the process die, or hold."""
        how = self._holds.take(name)
        if how == "die":
            die()
        if how == "hold":
            await self._hold(name)

    async def _hold(self, name: str) -> None:
        event("holding", name=name)
        await self._loop.wait(self._holds.point(name))

    def _turn(self, kind: str, name: str) -> Callable[..., Any]:

        async def handle(turn: Any) -> Any:
            act = self._next(kind, name)
            event(
                "turn",
                prompt=turn.prompt,
                state=turn.state,
                visit=turn.visit,
                attempt=turn.attempt,
                steps=canon(turn.steps),
            )
            await models.make(turn, act.get("rounds", []), self._host)
            for call in act.get("steps", ()):
                await self._step(turn, call)
            if "set" in act:
                await ready(turn.set_artifacts(artifacts(act["set"])))
            if "partial" in act:
                await ready(turn.output(act["partial"]))
            if "hold" in act:
                await self._hold(act["hold"])
            if "raise" in act:
                raise RuntimeError(act["raise"])
            if "fail" in act:
                failure = act["fail"]
                raise pawl_client.FailTurnError(
                    failure["code"],
                    failure.get("message", ""),
                    retryable=not failure.get("non_retryable", False),
                )
            return act["return"] if "return" in act else reply(act)

        return handle

    async def _step(self, turn: Any, call: Mapping[str, Any]) -> None:
        try:
            result = await ready(turn.step(call["tool"], _payload(call), key=call.get("key", "")))
            event("stepped", tool=call["tool"], result=result, error="")
        except pawl_client.PawlError as error:
            event("stepped", tool=call["tool"], result=None, error=fault(error)["reason"])
            if not call.get("catch"):
                raise

    def _tool(self, kind: str, name: str) -> Callable[..., Any]:
        async def make(payload: Any) -> Any:
            return await self._make(name, payload, pawl_client.current_call())

        return make

    async def _make(self, name: str, payload: Any, call: pawl_client.ToolCall) -> Any:
        act = self._next("tool", name)
        key = call.idempotency_key
        made = {"tool": name, "step": call.step, "attempt": call.attempt, "payload": payload}
        # The line comes first: the runner may kill this process when it reads the event.
        self._enter(**made, key=key)
        event("tool", **made, idempotency_key=key)
        if "seen" in act:
            return self._seen(act["seen"], payload)
        await self._pass("effect")
        if "late" in act:
            await self._outlast(call)
            event("late", tool=name)
        if "hold" in act:
            await self._hold(act["hold"])
        if "raise" in act:
            raise RuntimeError(act["raise"])
        if "error" in act:
            code, message = act["error"]["code"], act["error"].get("message", "")
            if act["error"].get("unknown"):
                raise pawl_client.FailStepError(code, message, unknown=True)
            raise pawl_client.FailTurnError(code, message)
        if (how := self._holds.take("answer")) == "die":
            return Deadly(act["result"])
        if how == "hold":
            await self._hold("answer")
        return act.get("result")

    def _seen(self, tool: str, payload: Any) -> Any:
        """Whether a call stands in the ledger, for who asks what came of it."""
        with open(self._ledger) as file:
            lines = [json.loads(line) for line in file]
        key = payload["idempotency_key"]
        happened = any(line["tool"] == tool and line["key"] == key for line in lines)
        return {"happened": happened, "result": {"seen": True}}

    async def _outlast(self, call: pawl_client.ToolCall) -> None:
        """Waits until the deadline of a call has passed."""
        assert call.deadline
        while (left := (call.deadline - datetime.now(timezone.utc)).total_seconds()) > 0:
            await self._loop.pause(left)

    def _enter(self, **line: Any) -> None:
        """Writes down outside that a tool was called, in one write."""
        file = os.open(self._ledger, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)


def _payload(call: Mapping[str, Any]) -> Any:
    """The payload of a call; `payload_json` is read as this language reads numbers."""
    return json.loads(call["payload_json"]) if "payload_json" in call else call.get("payload", {})


def reply(act: Mapping[str, Any]) -> pawl_client.Reply:
    """What a turn is completed with."""
    return pawl_client.Reply(
        event=act.get("event", ""),
        artifacts=artifacts(act.get("artifacts")),
        output=act.get("output"),
        messages=[pawl_client.Message.of(m["role"], m["text"]) for m in act.get("messages", ())],
        usage=models.usage(act.get("usage")),
        conversation_through_step=act.get("conversation_through_step", 0),
    )


def artifacts(values: Mapping[str, Any] | None) -> dict[str, Any]:
    """Artifacts as they are given to the client: {$bytes: BASE64} is bytes."""
    return {name: _value(value) for name, value in (values or {}).items()}


def _value(value: Any) -> Any:
    if isinstance(value, dict) and value.keys() == {"$bytes"}:
        return base64.b64decode(value["$bytes"])
    return value
