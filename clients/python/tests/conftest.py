"""One real sidecar for all tests that do not kill it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pawl_client import Client
from pawl_client.testing import Sidecar

ROOT = Path(__file__).resolve().parents[3]
PACKS = ROOT / "testdata" / "packs"
SELF_CORRECTING = PACKS / "rfc0009-3-self-correcting.json"
OPS = PACKS / "rfc0009-4-ops-remediation.yaml"
STEPS = Path(__file__).parent / "steps.pack.json"


@pytest.fixture(scope="session")
def sidecar() -> Iterator[Sidecar]:
    with Sidecar(packs=[SELF_CORRECTING, OPS, STEPS], allow_tools=["add", "boom"]) as process:
        yield process


@pytest.fixture
def client(sidecar: Sidecar) -> Iterator[Client]:
    with sidecar.client() as client:
        yield client


@pytest.fixture(params=["chat", "responses", "messages"])
def vendor(request: pytest.FixtureRequest) -> str:
    """What a model's endpoint speaks."""
    name: str = request.param
    return name
