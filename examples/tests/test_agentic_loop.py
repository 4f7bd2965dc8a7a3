"""RFC-103's worked example: undisturbed, with both workers killed, with a live endpoint."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pawl_client import Run, RunStatus, StepKind
from pawl_client.testing import Sidecar

import loop
import turns
from chat import Chat
from conftest import WAIT_SECONDS, bodies, ran, seen, shown
from page import PAGE, Page

VISITS = {"frame": 1, "plan": 2, "act": 2, "reflect": 2, "done": 1}
TOKENS = 3059  # The sum of what recorded.toml says that the answers used.
REF = f"blob:sha256:{hashlib.sha256(PAGE).hexdigest()}"
REQUEST, RESULT = "agentic.tool_request", "agentic.tool_result"


@dataclass
class Stage:
    """A sidecar, a page, a started run."""

    sidecar: Sidecar
    page: Page
    run: Run


@contextmanager
def staged(page: Page) -> Iterator[Stage]:
    with (
        page,
        Sidecar(packs=[loop.PACK], allow_tools=["fetch", "critique"]) as sidecar,
        sidecar.client() as client,
    ):
        yield Stage(sidecar, page, loop.start(client, page.url))


def check_result(stage: Stage, directory: Path, models: int = 0) -> list[dict[str, Any]]:
    """What holds whatever was killed, with so many calls of models; returns the events in
    RFC-103's form."""
    info = stage.run.info()
    assert (info.status, info.reason) == (RunStatus.COMPLETED, "completed")
    assert (info.tool_calls, info.last_step, info.total_visits) == (2, 2 + models, 8)
    assert dict(info.visits) == VISITS
    assert info.tokens == TOKENS
    answered = [body for body in bodies(stage.run, "STEP_RESOLVED") if body.ok]
    called = [body.tool for body in answered if body.kind is not StepKind.MODEL]
    assert called == ["fetch", "critique"]
    assert len(answered) - len(called) == models
    with stage.sidecar.client() as client:
        assert client.get_blob(REF) == PAGE
    loop.export(stage.sidecar, stage.run, directory)
    return check_workspace(directory)


def check_events(directory: Path) -> list[dict[str, Any]]:
    """The run in RFC-103's form: no event twice, and one that ends it."""
    lines = (directory / "events.jsonl").read_text().splitlines()
    events: list[dict[str, Any]] = [json.loads(line) for line in lines]
    (completed,) = [event for event in events if event["type"].startswith("agent.")]
    assert completed["type"] == "agent.completed"
    assert completed["payload"]["steps_taken"] == 2  # calls of models are none
    assert "artifacts/critique.md" in completed["payload"]["artifacts"]
    assert len({event["dedupe_key"] for event in events}) == len(events)
    return events


def check_workspace(directory: Path) -> list[dict[str, Any]]:
    """RFC-103's layout with the run's own content; returns the run as events."""
    artifacts = directory / "artifacts"
    critique = (artifacts / "critique.md").read_text()
    findings = json.loads((artifacts / "findings.json").read_text())
    assert len([p for p in critique.split("\n\n") if p.strip()]) == 2
    assert re.findall(r"\d+", critique) == [
        str(findings[name])
        for name in ("longest_paragraph", "paragraphs", "headings", "different_paragraphs")
    ]
    words = re.findall(r"[\w'-]+", re.sub(r"<[^>]*>", " ", PAGE.decode()))
    assert findings["words"] == len(words)
    page = json.loads((artifacts / "page.json").read_text())
    assert (page["page"], page["bytes"]) == (REF, len(PAGE))
    assert len(page["excerpt"]) == 120
    assert (artifacts / f"blob-{REF.removeprefix('blob:sha256:')}.html").read_bytes() == PAGE
    assert "next: critique the fetched page" in (directory / "plan.md").read_text()
    assert [line.split(":")[0] for line in (directory / "memory.md").read_text().splitlines()] == [
        "fetch",
        "critique",
    ]
    context = (directory / "context.md").read_text()
    assert "agentic-loop@1.0.0" in context
    assert "produce a 2 para critique" in context
    assert '"tone": "constructive"' in context
    trace = [json.loads(line) for line in (directory / "trace.jsonl").read_text().splitlines()]
    assert [record["seq"] for record in trace] == list(range(1, len(trace) + 1))
    return check_events(directory)


def tool_calls(capfd: pytest.CaptureFixture[str]) -> list[str]:
    """What the TypeScript worker says that it executed."""
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("tools.ts: ")]


def test_as_the_readme_says(tmp_path: Path) -> None:
    output = ran("agentic-loop", tmp_path / "scratch", str(tmp_path / "workspace"))
    readme = shown("agentic-loop")
    assert output == [line for line in readme if not line.startswith("tools.ts: ")]
    check_workspace(tmp_path / "workspace")


def test_undisturbed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with staged(Page()) as stage:
        address = stage.sidecar.address
        with loop.running(*loop.TURNS, address), loop.running(*loop.TOOLS, address):
            assert not stage.run.wait(timeout=WAIT_SECONDS).timed_out
        events = check_result(stage, tmp_path / "w")
    types = ["agentic.start", f"{REQUEST}.fetch", RESULT, f"{REQUEST}.critique", RESULT]
    assert [event["type"] for event in events] == [*types, "agent.completed"]
    assert stage.page.requests == 1
    assert tool_calls(capfd) == [
        "tools.ts: fetch, step 1, attempt 1",
        "tools.ts: critique, step 2, attempt 1",
    ]


@pytest.mark.timeout(180)  # A sum of waits of which each has its own, shorter deadline.
def test_both_workers_killed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    asked = [threading.Event(), threading.Event()]
    released = threading.Event()

    def hold(number: int) -> None:
        asked[number - 1].set()
        assert released.wait(WAIT_SECONDS), "the page was never released"

    with staged(Page(hold)) as stage:
        address = stage.sidecar.address
        with (
            loop.running(*loop.TURNS, address) as turns_worker,
            loop.running(*loop.TOOLS, address) as tools_worker,
        ):
            assert asked[0].wait(WAIT_SECONDS), "the page was not fetched"
            tools_worker.kill()
            tools_worker.wait(WAIT_SECONDS)
            with loop.running(*loop.TOOLS, address):
                assert asked[1].wait(WAIT_SECONDS), "the page was not fetched again"
                turns_worker.kill()
                turns_worker.wait(WAIT_SECONDS)
                released.set()
                seen(stage.run, "STEP_RESOLVED", lambda body: body.ok)
                with loop.running(*loop.TURNS, address):
                    assert not stage.run.wait(timeout=WAIT_SECONDS).timed_out
        events = check_result(stage, tmp_path / "w")
        check_deliveries(stage.run)
    assert [event["dedupe_key"].split(":", 3)[-1] for event in events[1:4]] == [
        "step:1:request",
        "step:1:request:attempt:2",
        "step:1:result",
    ]
    assert stage.page.requests == 2
    assert tool_calls(capfd) == [
        "tools.ts: fetch, step 1, attempt 1",
        "tools.ts: fetch, step 1, attempt 2",
        "tools.ts: critique, step 2, attempt 1",
    ]


def check_deliveries(run: Run) -> None:
    """The lost call was made again under its number; the lost turn cost no attempt."""
    lost, *_ = bodies(run, "STEP_RESOLVED")
    assert (lost.step, lost.attempt, lost.unknown, lost.next) == (1, 1, True, 2)
    assert lost.error.code == "WORKER_LOST"
    assert [body.step for body in bodies(run, "STEP_REQUESTED")] == [1, 2]
    assert bodies(run, "TURN_FAILED") == []
    given = bodies(run, "TURN_ASSIGNED")
    assert {body.attempt for body in given} == {1}
    assert [body.assigned.delivery for body in given] == [1, 1, 1, 2, 1, 1, 1, 1, 1]


def test_a_chat_endpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Chat() as chat:
        monkeypatch.setenv("OPENAI_BASE_URL", chat.url)
        monkeypatch.setenv("OPENAI_MODEL", "recorded")
        assert turns.handler()[0] == f"recorded at {chat.url}"
        with staged(Page()) as stage:
            address = stage.sidecar.address
            with loop.running(*loop.TURNS, address), loop.running(*loop.TOOLS, address):
                assert not stage.run.wait(timeout=WAIT_SECONDS).timed_out
            check_result(stage, tmp_path / "w", models=10)
    assert stage.page.requests == 1
    assert len(chat.requests) == 10
    assert {request["model"] for request in chat.requests} == {"recorded"}
    # The page itself never goes through the model: only its reference and an excerpt.
    assert REF in json.dumps(chat.requests[3])
    assert max(len(json.dumps(request)) for request in chat.requests) < 10_000


@pytest.mark.parametrize(("state", "visits"), VISITS.items())
def test_every_visit_is_recorded(state: str, visits: int) -> None:
    for visit in range(1, visits + 1):
        assert turns.answer(state, visit, f"http://x {REF}")["usage"]["input_tokens"] > 0
    with pytest.raises(IndexError):
        turns.answer(state, visits + 1, f"http://x {REF}")
