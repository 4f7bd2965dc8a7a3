"""The page that the example fetches, served on loopback: a lighthouse keeper's log."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DAYS = (
    "Fog came in before noon and stayed, so the horn was sounded every two minutes until it"
    " lifted, and the brass was polished in between.",
    "Two colliers and a mail boat went by to the north, close enough to count the hands on deck.",
    "A gale from the sea broke the lower pane of the lantern room. It was boarded up by dark and"
    " the lamp was lit on time.",
    "Quiet. Trimmed the wicks, wound the clockwork, and wrote to the harbour office for oil.",
)
PAGE = (
    "<!doctype html><html lang=en><title>The keeper's log</title><h1>The keeper's log</h1>"
    "<img src=lighthouse.png><p>To see last year's log, <a href=/last>click here</a>.</p>"
    + "".join(f"<p>Day {n + 1}. {DAYS[(n * n + n // 3) % 4]}</p>\n" for n in range(800))
    + "</html>"
).encode()


class Page:
    """Serves PAGE on a free port. `before` is called with the number of each request."""

    def __init__(self, before: Callable[[int], None] = lambda number: None) -> None:
        self.requests = 0
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                page.requests += 1
                before(page.requests)
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(PAGE)))
                self.end_headers()
                self.wfile.write(PAGE)

            def log_message(self, *arguments: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/log.html"

    def __enter__(self) -> Page:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
