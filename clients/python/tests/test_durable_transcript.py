"""What adapters of agent libraries record: the messages of a request, and the keys of calls."""

from __future__ import annotations

from pawl_client import Message
from pawl_client._durable_transcript import CallPlaces, RequestRecorder


def test_a_request_without_an_answer_is_recorded_whole_again() -> None:
    recorder = RequestRecorder()
    question, answer, result = (Message.of("user", words) for words in ("ask", "answer", "result"))
    recorder.record("m", "Be brief.", [], {}, [question])
    recorder.answered_with(1, [answer])
    sent = [question, answer, result]
    requests = [recorder.record("m", "Be brief.", [], {}, sent) for _ in range(2)]
    assert requests[0] == requests[1]
    assert [entry.message for entry in requests[1].messages] == [result]


def test_each_call_has_a_key() -> None:
    places = CallPlaces()
    places.answered(7, "model/1", [("look", "a"), ("pay", "b")])
    calls = [places.step(tool, {}, call_id) for tool, call_id in (("look", "a"), ("pay", "b"))]
    assert [key for _, key in calls] == ["model/1/0", "model/1/1"]
    assert calls[1][0].call is not None
    assert (calls[1][0].call.model_step, calls[1][0].call.index) == (7, 1)
    again, key = places.step("pay", {}, "b")
    assert (again.key, again.call, key) == ("model/1/1~2", None, "model/1/1~2")
    assert (places.latest("pay"), places.latest("other")) == ("b", None)


def test_calls_of_an_earlier_history_have_keys_of_their_own() -> None:
    places = CallPlaces()
    keys = [places.step("look", {}, call_id)[1] for call_id in ("a", "b", "a")]
    assert keys == ["history/a", "history/b", "history/a~2"]
