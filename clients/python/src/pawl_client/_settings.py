"""Where a sidecar is and how to talk to it."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import grpc

from pawl_client._errors import AuthenticationError, PawlError

DEFAULT_ADDRESS = "127.0.0.1:7291"
"""Where `pawl serve` listens by default."""

_ADDRESS = re.compile(r"unix:.+|([^\s/:@?#\[\]]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}")
"""A URL is none: its scheme would be asked for as a host."""

TokenSource: TypeAlias = "str | Callable[[], str]"
"""A bearer token, or what is asked for one before each call, and once more when that one
is refused (for rotation). A worker asks until the sidecar takes one, with growing pauses, and
logs it; with a fixed token that is refused it ends."""

KEEPALIVE = 9.0
"""Seconds between signs of life that are asked for. With the half of it that an answer may take,
a connection that is dead is noticed within 13.5 s: before calls are given up. A sidecar hangs up
on those who ask every 5 s."""

_LEAST_KEEPALIVE = 6.0


def address_of(given: str | None) -> str:
    """The address that was given, else PAWL_ADDR, else the default: as for the command line."""
    return os.environ.get("PAWL_ADDR", DEFAULT_ADDRESS) if given is None else given


def token_of(given: TokenSource | None) -> TokenSource | None:
    """The token that was given, else what the file PAWL_TOKEN_FILE holds at each call, else
    PAWL_TOKEN: as for the command line."""
    if given is not None:
        return given
    if file := os.environ.get("PAWL_TOKEN_FILE"):
        return lambda: Path(file).read_text().strip()
    return os.environ.get("PAWL_TOKEN") or None


_MEBIBYTE = 1 << 20


def version() -> str:
    """Version of this package."""
    return importlib.metadata.version("pawl-client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """Transport security. All files are PEM.

    `ca` are the authorities that sign servers (default: those that gRPC brings along),
    `cert` and `key` are the client's own for mutual TLS, and `server_name` replaces the
    address's host in the check of the server's certificate.
    """

    ca: Path | str | None = None
    cert: Path | str | None = None
    key: Path | str | None = field(default=None, repr=False)
    server_name: str = ""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("tls: cert and key are given together or not at all")

    def credentials(self) -> grpc.ChannelCredentials:
        """The credentials; reads the files."""

        def read(path: Path | str | None) -> bytes | None:
            return None if path is None else Path(path).read_bytes()

        return grpc.ssl_channel_credentials(read(self.ca), read(self.key), read(self.cert))


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a client. Times are in seconds.

    `timeout` bounds each call with its repetitions, `retry_for` how long a call is
    repeated while the sidecar cannot be reached or asks to wait (0: never).
    """

    address: str = DEFAULT_ADDRESS
    namespace: str = ""
    token: TokenSource | None = field(default=None, repr=False)
    tls: Tls | None = None
    timeout: float = 30.0
    retry_for: float = 20.0
    keepalive: float = KEEPALIVE
    max_message_bytes: int = 64 * _MEBIBYTE

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            raise ValueError(f"address: HOST:PORT or unix:PATH, not {self.address!r}")
        for name in ("timeout", "keepalive", "max_message_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: more than 0, not {getattr(self, name)}")
        if self.keepalive < _LEAST_KEEPALIVE:
            raise ValueError(f"keepalive: {_LEAST_KEEPALIVE:g} s or more, not {self.keepalive}")
        if self.retry_for < 0:
            raise ValueError(f"retry_for: 0 or more, not {self.retry_for}")

    def options(self) -> list[tuple[str, str | int]]:
        """Channel options. Repeating is done by this package, with the same ids."""
        options: list[tuple[str, str | int]] = [
            ("grpc.primary_user_agent", f"pawl-python/{version()}"),
            ("grpc.keepalive_time_ms", int(self.keepalive * 1000)),
            # Both: the first alone lets newer versions of gRPC wait for a minute.
            ("grpc.keepalive_timeout_ms", int(self.keepalive * 500)),
            ("grpc.http2.ping_timeout_ms", int(self.keepalive * 500)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.enable_retries", 0),
            ("grpc.initial_reconnect_backoff_ms", 50),
            # How long one attempt to connect may take, handshakes included.
            ("grpc.min_reconnect_backoff_ms", 5_000),
            ("grpc.max_reconnect_backoff_ms", 1_000),
            ("grpc.max_receive_message_length", self.max_message_bytes),
            ("grpc.max_send_message_length", self.max_message_bytes),
        ]
        if self.tls is not None and self.tls.server_name:
            options.append(("grpc.ssl_target_name_override", self.tls.server_name))
        if self.address.startswith("unix:"):
            options.append(("grpc.default_authority", "localhost"))
        return options

    def may_renew(self, error: PawlError) -> bool:
        """Whether it may help to ask for the token again: it may have been rotated."""
        return isinstance(error, AuthenticationError) and callable(self.token)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Metadata of one call: the token, if there is one. Raises AuthenticationError where
        the function that gives it fails."""
        if self.token is None:
            return ()
        token = self.token if isinstance(self.token, str) else _given(self.token)
        return (("authorization", f"Bearer {token}"),)


def _given(source: Callable[[], str]) -> str:
    try:
        token: object = source()
    except Exception as error:
        raise AuthenticationError(
            f"token: the function raised {type(error).__name__}: {error}", code="UNAUTHENTICATED"
        ) from error
    if not isinstance(token, str):
        raise AuthenticationError(
            f"token: the function gives a str, not {type(token).__name__}", code="UNAUTHENTICATED"
        )
    return token
