"""A TCP proxy that can break every connection through it."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType

_PING = bytes([0, 0, 8, 6, 0])
"""How a PING frame begins that asks for an answer."""


class Proxy:
    """Forwards a loopback port to `target` ("HOST:PORT") until it is cut.

    `connections` counts those that were made, `pings` the HTTP/2 pings on idle ones,
    `cuts` how often all broke since `cut_after` more bytes had gone to the target.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._open: set[socket.socket] = set()
        self._changed = threading.Condition()
        self.connections = 0
        self.cuts = 0
        self.pings = 0
        self.cut_after: int | None = None
        self._swallowed: set[socket.socket] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()

    def cut(self) -> None:
        """Breaks all connections."""
        with self._changed:
            broken, self._open = self._open, set()
        for end in broken:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def swallow(self) -> None:
        """Lets nothing go either way over the connections that there are, without a word;
        new ones work."""
        with self._changed:
            self._swallowed |= self._open

    def wait_for_connections(self, number: int, timeout: float = 120) -> None:
        """Waits until that many were made."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.connections >= number, timeout):
                raise TimeoutError(f"{self.connections} connections, not {number}")

    def wait_for_pings(self, number: int, timeout: float = 120) -> None:
        """Waits until that many went to the target."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.pings >= number, timeout):
                raise TimeoutError(f"{self.pings} pings, not {number}")

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                try:
                    far = socket.create_connection(self._target)
                except OSError:
                    near.close()
                    continue
                with self._changed:
                    self._open |= {near, far}
                    self.connections += 1
                    self._changed.notify_all()
                for source, sink, to_target in ((near, far, True), (far, near, False)):
                    threading.Thread(
                        target=self._pump, args=(source, sink, to_target), daemon=True
                    ).start()

    def _pump(self, source: socket.socket, sink: socket.socket, to_target: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if to_target and self._is_spent(data):
                    self.cut()
                    return
                if source not in self._swallowed:
                    sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _is_spent(self, data: bytes) -> bool:
        with self._changed:
            if data.startswith(_PING):
                self.pings += 1
                self._changed.notify_all()
            if self.cut_after is None:
                return False
            self.cut_after -= len(data)
            if self.cut_after > 0:
                return False
            self.cut_after = None
            self.cuts += 1
            return True
