"""A model by script that speaks what the vendors' own packages speak: chat completions,
responses and messages, by the path that is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, TypeVar

S = TypeVar("S", bound="Scripted")
USAGE = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}


@dataclass(frozen=True)
class Says:
    """What the model answers: words, calls by name and arguments, and thoughts before them.

    Arguments that are a text go as they are. `end` is why it ended, in the words of chat
    completions, if it is not as usual: cut is without an end, refusal with words of its own.
    With `status` it is no answer, but an error that repeats the key. `late`: the thought comes
    behind the words.
    """

    text: str = ""
    calls: Sequence[tuple[str, Any]] = ()
    thought: str = ""
    end: str = ""
    status: int = 0
    late: bool = False

    def worded(self, arguments: Any) -> str:
        return arguments if isinstance(arguments, str) else json.dumps(arguments)


class Scripted:
    """Answers each request with the next of the script, the last one again and again."""

    def __init__(self, *script: Says) -> None:
        self.requests: list[dict[str, Any]] = []
        self._script = list(script)
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                path = self.path.partition("?")[0]
                scripted.serve(self, scripted.answer(path, body))

            def do_GET(self) -> None:
                scripted.serve(self, scripted.fetched(self.path.partition("?")[0]))

            def log_message(self, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self: S) -> S:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    def serve(self, request: BaseHTTPRequestHandler, data: bytes | Says) -> None:
        """Sends an answer, or an error that says with which key it was asked."""
        status, kind = 200, "text/event-stream"
        if isinstance(data, Says):
            key = request.headers.get("Authorization") or request.headers.get("X-Api-Key")
            error = {"error": {"message": f"no: {key}"}}
            status, kind, data = data.status, "application/json", json.dumps(error).encode()
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def fetched(self, path: str) -> bytes | Says:
        """What is fetched instead of being asked for."""
        return Says(status=404)

    def answer(self, path: str, body: dict[str, Any]) -> bytes | Says:
        """The stream of the next answer."""
        self.requests.append(body)
        says = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        return says if says.status else self.stream(path, len(self.requests), says)

    @staticmethod
    def stream(path: str, number: int, says: Says) -> bytes:
        """An answer in the words of who is asked."""
        if path.endswith("/chat/completions"):
            events = [("", event) for event in _chat(number, says)]
        elif path.endswith("/responses"):
            events = [(event["type"], event) for event in _responses(number, says)]
        else:
            events = [(event["type"], event) for event in _messages(number, says)]
        lines = [
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n"
            for name, event in events
        ]
        if path.endswith("/chat/completions") and says.end != "cut":
            lines.append("data: [DONE]\n\n")
        return "".join(lines).encode()


def _chat(number: int, says: Says) -> list[dict[str, Any]]:
    calls = [
        {
            "index": i,
            "id": f"call_{number}_{i}",
            "type": "function",
            "function": {"name": name, "arguments": says.worded(arguments)},
        }
        for i, (name, arguments) in enumerate(says.calls)
    ]
    delta: dict[str, Any] = {"role": "assistant", "tool_calls": calls or None}
    delta["refusal" if says.end == "refusal" else "content"] = says.text or None
    common = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1790000000,
        "model": "scripted",
    }
    finish = "tool_calls" if calls else "stop"
    if says.end in ("length", "content_filter"):
        finish = says.end
    first = common | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    if says.end == "cut":
        return [first]
    return [
        first,
        common | {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        common | {"choices": [], "usage": USAGE},
    ]


def _responses(number: int, says: Says) -> list[dict[str, Any]]:
    response: dict[str, Any] = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1790000000,
        "model": "scripted",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": "completed",
        "usage": None,
    }
    items: list[dict[str, Any]] = []
    if says.thought:
        kept = {"id": "rs_1", "summary": [], "encrypted_content": says.thought}
        items.append({"type": "reasoning", **kept})
    if says.text:
        words = {"type": "output_text", "text": says.text, "annotations": []}
        if says.end == "refusal":
            words = {"type": "refusal", "refusal": says.text}
        message = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        items.insert(0 if says.late else len(items), message | {"content": [words]})
    items += [
        {
            "type": "function_call",
            "id": f"fc_{i}",
            "call_id": f"call_{number}_{i}",
            "name": name,
            "arguments": says.worded(arguments),
            "status": "completed",
        }
        for i, (name, arguments) in enumerate(says.calls)
    ]
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 2},
        "total_tokens": 15,
    }
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0, "logprobs": []}
    text: dict[str, Any] = {"type": "response.output_text.delta", "delta": says.text, **place}
    if says.end == "refusal":
        text["type"] = "response.refusal.delta"
    over, kind = response | {"usage": usage, "output": items}, "completed"
    if says.end in ("length", "content_filter"):
        reason = "max_output_tokens" if says.end == "length" else "content_filter"
        kind, over["incomplete_details"] = "incomplete", {"reason": reason}
    over["status"] = kind = "failed" if says.end == "failed" else kind
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": response | {"status": "in_progress"}},
        *([text] if says.text else []),
        *({"type": "response.output_item.done", "output_index": 0, "item": i} for i in items),
        {"type": f"response.{kind}", "response": over},
    ]
    events = events[:-1] if says.end == "cut" else events
    return [event | {"sequence_number": i} for i, event in enumerate(events)]


def _messages(number: int, says: Says) -> list[dict[str, Any]]:
    message: dict[str, Any] = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": "scripted",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": 6, "cache_read_input_tokens": 4, "output_tokens": 1},
    }
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if says.thought:
        deltas = [
            {"type": "thinking_delta", "thinking": says.thought},
            {"type": "signature_delta", "signature": "signed"},
        ]
        blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
    if says.text:
        words = ({"type": "text", "text": ""}, [{"type": "text_delta", "text": says.text}])
        blocks.insert(0 if says.late else len(blocks), words)
    for i, (name, arguments) in enumerate(says.calls):
        block = {"type": "tool_use", "id": f"call_{number}_{i}", "name": name, "input": {}}
        text = says.worded(arguments)
        halves = [text[: len(text) // 2], text[len(text) // 2 :]]
        deltas = [{"type": "input_json_delta", "partial_json": half} for half in halves]
        blocks.append((block, deltas))
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}]
    for i, (block, deltas) in enumerate(blocks):
        events.append({"type": "content_block_start", "index": i, "content_block": block})
        events += [{"type": "content_block_delta", "index": i, "delta": d} for d in deltas]
        events.append({"type": "content_block_stop", "index": i})
    if says.end == "cut":
        return events
    reason = "tool_use" if says.calls else "end_turn"
    ends = {"length": "max_tokens", "content_filter": "refusal", "refusal": "refusal"}
    reason = ends.get(says.end, reason)
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": reason, "stop_sequence": None},
            "usage": {"output_tokens": 5},
        }
    )
    return [*events, {"type": "message_stop"}]
