"""Packs that are built in code."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import ROOT
from pawl_client import InvalidJsonError, Reply, RunStatus, Turn
from pawl_client.pack import Pack, append
from pawl_client.testing import Sidecar


def shop() -> Pack:
    """A pack with a tool, a loop with a limit, and every kind of artifact."""
    pack = Pack("shop", name="Shop", description="Sells.")

    @pack.tool(attempts=1, on_unknown="escalate")
    def charge(order: str, amount: float = 1.0) -> str:
        """Charges an order."""
        return f"charged {order}: {amount}"

    kinds: dict[str, type | str] = {
        "receipt": str,
        "log": append(),
        "page": "text/html",
        "facts": dict,
    }
    sell = pack.state(
        "sell",
        "Charge what {{customer}} orders. Last: {{artifacts.receipt}}",
        tools=[charge],
        artifacts=kinds,
        variables=["customer"],
        max_visits=2,
        on_max_visits="sold",
    )
    sold = pack.state("sold", "Thank the customer.", terminal=True)
    sell.on("Again", sell).on("Sold", sold)
    pack.limits(max_tool_calls=3, max_cost_usd=0.5)
    return pack


def test_a_pack_runs(tmp_path: Path) -> None:
    pack = shop()
    assert pack.check() == []
    pack.write(tmp_path / "shop.pack.json")

    def model(turn: Turn) -> Reply:
        if turn.terminal:
            return Reply(output="Thank you.")
        receipt = turn.step("charge", {"order": "17"})
        return Reply(event="Again", artifacts={"receipt": receipt, "log": {"visit": turn.visit}})

    with (
        Sidecar(packs=[tmp_path / "shop.pack.json"], allow_tools=["*"]) as sidecar,
        sidecar.client() as client,
    ):
        # The file and the text are one pack: registering it again changes nothing.
        client.register_pack(pack.json())
        result = client.run("shop", model, tools=pack.tools, variables={"customer": "Ada"})
    assert result.status is RunStatus.COMPLETED
    assert result.artifacts["receipt"] == "charged 17: 1.0"
    assert result.artifacts["log"] == [{"visit": 1}, {"visit": 2}]


def test_the_document() -> None:
    document: Any = shop().document()
    workflow = document["workflow"]
    assert workflow["entry"] == "sell"
    assert workflow["engine"] == {
        "budget": {"max_tool_calls": 3},
        "x_pawl": {
            "max_cost_usd": 0.5,
            "tools": {"charge": {"attempts": 1, "on_unknown": "escalate"}},
        },
    }
    assert workflow["states"]["sell"]["on_event"] == {"Again": "sell", "Sold": "sold"}
    assert workflow["states"]["sell"]["artifacts"] == {
        "receipt": {"type": "text/plain"},
        "log": {"type": "application/json", "mode": "append"},
        "page": {"type": "text/html"},
        "facts": {"type": "application/json"},
    }
    schema = document["tools"]["charge"]["parameters"]
    assert schema["required"] == ["order"]
    assert schema["properties"]["amount"]["type"] == "number"
    assert json.loads(shop().json()) == document


def test_a_document_is_a_copy() -> None:
    pack = shop()
    document: Any = pack.document()
    document["prompts"]["sell"]["tools"].clear()
    document["workflow"]["states"]["sell"]["on_event"].clear()
    assert pack.document() == shop().document()


def test_a_limit_without_a_json_form_is_refused_with_its_place() -> None:
    pack = shop()
    pack.limits(max_cost_usd=float("nan"))
    place = r"pack shop\.workflow\.engine\.x_pawl\.max_cost_usd: nan is no JSON"
    with pytest.raises(InvalidJsonError, match=place):
        pack.json()


def test_check_reports_every_finding() -> None:
    pack = Pack("loop")
    pack.state("a", "Go on.").on("Next", "a")
    pack.limits(max_cost_usd=-1, max_tool_calls=0)
    with pytest.raises(ValueError, match=r"(?s)pack loop:.*max_tool_calls.*max_cost_usd.*terminal"):
        pack.check()


def untyped(payload: Any) -> None:
    """Has no types."""


def undocumented(order: str) -> None: ...


def documented(order: str) -> None:
    """Is fine."""


def twice(pack: Pack) -> None:
    pack.tool(documented)
    pack.tool(documented)


def lost(pack: Pack) -> None:
    pack.state("a", "x").on("Next", "b")
    pack.document()


def lost_limit(pack: Pack) -> None:
    pack.state("a", "x", max_visits=2, on_max_visits="b")
    pack.document()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda _: Pack("Shop"), r"pack 'Shop': an id is lower-case letters"),
        (lambda pack: pack.document(), r"pack p: it has no state; add one with state\(\)"),
        (lambda pack: pack.state("A b", "x"), r"state 'A b': a name is lower-case letters"),
        (
            lambda pack: (pack.state("a", "x"), pack.state("a", "x")),
            r"state a: the name is declared already",
        ),
        (
            lambda pack: pack.state("a", "x", max_visits=-1),
            r"state a: max_visits must be positive .* not -1",
        ),
        (
            lambda pack: pack.state("a", "x", on_max_visits="b"),
            r"state a: max_visits must be positive where it or on_max_visits is set, not 0",
        ),
        (
            lambda pack: pack.state("a", "x", orchestration="outer"),
            r"state a: orchestration must be internal, external or hybrid, not 'outer'",
        ),
        (
            lambda pack: pack.state("a", "x", tools=[documented]),
            r"state a: .*documented.* is no tool of the pack; declare it with @pack.tool",
        ),
        (
            lambda pack: pack.state("a", "x", artifacts={"note": "text"}),
            r"state a: the artifact note has the media type 'text'",
        ),
        (
            lambda pack: pack.state("a", "x", terminal=True).on("Next", "a"),
            r"state a: a terminal state has no events; not 'Next'",
        ),
        (
            lambda pack: pack.state("a", "x").on("Next", "a").on("Next", "a"),
            r"state a: the event 'Next' is declared already",
        ),
        (lambda pack: pack.state("a", "x").on("Go on", "a"), r"event 'Go on': a name is letters"),
        (lost, r"state a: the event 'Next' leads to 'b', which is no state: a"),
        (lost_limit, r"state a: on_max_visits leads to 'b', which is no state: a"),
        (lambda pack: pack.tool(untyped), r"tool untyped: the types of its arguments are missing"),
        (lambda pack: pack.tool(undocumented), r"tool undocumented: a description is missing"),
        (twice, r"tool documented: the name is declared already"),
        (lambda pack: pack.tool(name="a b")(documented), r"tool 'a b': a name is letters"),
    ],
)
def test_a_mistake_is_raised_where_it_is_made(make: Callable[[Pack], Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(Pack("p"))


def test_both_languages_build_the_same_document() -> None:
    """The pack is that of clients/typescript/src/pack.spec.ts."""
    pack = Pack("built", name="Shop", description="Sells.")

    @pack.tool(
        description="Charges an order.",
        parameters={
            "type": "object",
            "properties": {"order": {"type": "string"}, "amount": {"type": "number"}},
            "required": ["order"],
        },
        attempts=1,
        on_unknown="escalate",
    )
    def charge(order: str, amount: float = 1.0) -> str:
        return f"charged {order}: {amount}"

    sell = pack.state(
        "sell",
        "Charge what {{customer}} orders. Last: {{artifacts.receipt}}",
        tools=[charge],
        artifacts={"receipt": str, "log": append(), "page": "text/html", "facts": dict},
        variables=["customer"],
        max_visits=2,
        on_max_visits="sold",
    )
    sold = pack.state("sold", "Thank the customer.", terminal=True)
    sell.on("Again", sell).on("Sold", sold)
    pack.limits(max_tool_calls=3, max_cost_usd=0.5)
    assert pack.document() == json.loads((ROOT / "testdata/built.pack.json").read_text())
