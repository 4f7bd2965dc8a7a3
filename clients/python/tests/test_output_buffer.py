"""What a turn has shown, as pieces on their way."""

from __future__ import annotations

from pawl_client._output_buffer import OutputBuffer


def test_pieces_of_one_kind_each_and_whole_characters() -> None:
    shown = OutputBuffer()
    shown.add("think", reasoning=True)
    shown.add("", reasoning=False)
    shown.add("ä" * 40_000, reasoning=False)
    shown.add("!", reasoning=True)
    told = []
    while (piece := shown.next()) is not None:
        told.append((piece.offset, piece.reasoning, piece.text))
        assert len(piece.text.encode()) <= 64 * 1024
        shown.mark_sent(piece)
    assert [(offset, reasoning) for offset, reasoning, _ in told] == [
        (0, True),
        (5, False),
        (5 + 65536, False),
        (80_005, True),
    ]
    assert "".join(text for *_, text in told) == "think" + "ä" * 40_000 + "!"


def test_what_is_taken_back_is_told_anew_and_marked() -> None:
    shown = OutputBuffer()
    shown.add("think", reasoning=True)
    shown.add("half", reasoning=False)
    while (piece := shown.next()) is not None:
        shown.mark_sent(piece)
    shown.retract(6)
    piece = shown.next()
    assert piece is not None
    assert (piece.text, piece.reasoning, piece.reset) == ("thi", True, True)
    shown.mark_sent(piece)
    assert shown.next() is None
    shown.retract(99)
    piece = shown.next()
    assert piece is not None
    assert (piece.text, piece.reset) == ("", True)
    shown.mark_sent(piece)
    shown.add("a", reasoning=False)
    piece = shown.next()
    assert piece is not None
    assert (piece.text, piece.reasoning, piece.reset) == ("a", False, False)
