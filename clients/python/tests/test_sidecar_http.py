"""The HTTP port of a sidecar that tests start."""

from __future__ import annotations

import urllib.request

from conftest import ROOT
from pawl_client.testing import Sidecar
from workers import WAIT

AGENTS = ROOT / "clients/python/tests/agents.pack.json"
CARD = "http://{}/a2a/agents/writer/.well-known/agent-card.json"


def card(sidecar: Sidecar) -> bytes:
    with urllib.request.urlopen(CARD.format(sidecar.http), timeout=WAIT) as answer:
        found: bytes = answer.read()
    return found


def test_the_port_stays() -> None:
    with Sidecar(packs=[AGENTS], http=True) as own:
        port, before = own.http, card(own)
        own.restart()
        assert (own.http, card(own)) == (port, before)


def test_none_by_default() -> None:
    with Sidecar() as own:
        assert own.http == ""
