"""The address, credentials and connection settings of a client."""

from __future__ import annotations

import functools
import importlib.metadata
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import grpc

from pawl_client._errors import AuthenticationError, PawlError

DEFAULT_ADDRESS = "127.0.0.1:7291"
"""The address at which `pawl serve` listens by default."""

_ADDRESS = re.compile(r"unix:.+|([^\s/:@?#\[\]]+|\[[0-9A-Fa-f:.%]+\]):[0-9]{1,5}")
"""A URL does not match: gRPC would resolve its scheme as a host name."""

TokenSource: TypeAlias = "str | Callable[[], str]"
"""A bearer token, or a function that returns one.

The function is called before each call, and once more if the sidecar refuses its token, so a token
may be rotated. A worker calls it until the sidecar accepts a token, with growing pauses, and logs
each refusal. A worker whose fixed token is refused ends.
"""

KEEPALIVE = 9.0
"""Seconds between keepalive pings.

A ping may take half of that to be answered, so a dead connection is found within 13.5 s, before
calls fail. A sidecar closes connections that send pings every 5 s.
"""

_LEAST_KEEPALIVE = 6.0


def _address_of(given: str | None) -> tuple[str, str]:
    """Returns the given address, else PAWL_ADDR, else the default, as the command line does, and
    where it comes from.
    """
    if given is not None:
        return given, ""
    if (named := os.environ.get("PAWL_ADDR")) is not None:
        return named, "PAWL_ADDR"
    return DEFAULT_ADDRESS, "the default"


def _token_of(given: TokenSource | None) -> TokenSource | None:
    """Returns the given token, else a function that reads the file PAWL_TOKEN_FILE at each call,
    else PAWL_TOKEN, as the command line does.
    """
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
    """TLS settings of a connection. All files are PEM.

    `ca` holds the authorities that sign server certificates (default: those of gRPC). `cert` and
    `key` are the client's own, for mutual TLS; give both or neither. `server_name` replaces the
    address's host in the check of the server's certificate. Raises ValueError for a `cert` without
    a `key`, or the reverse.
    """

    ca: Path | str | None = None
    cert: Path | str | None = None
    key: Path | str | None = field(default=None, repr=False)
    server_name: str = ""

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise ValueError("tls: cert and key must be given together; give both or neither")

    def credentials(self) -> grpc.ChannelCredentials:
        """Reads the files and returns the gRPC credentials."""

        def read(path: Path | str | None) -> bytes | None:
            return None if path is None else Path(path).read_bytes()

        return grpc.ssl_channel_credentials(read(self.ca), read(self.key), read(self.cert))


NO_TLS = Tls()
"""No TLS, with any environment."""


def _tls_of(given: Tls | None, address: str) -> Tls | None:
    """Returns the given settings, else those of PAWL_CA, PAWL_CERT and PAWL_KEY, as the command
    line does. None means no TLS, which a Unix socket never has.

    Raises ValueError for a PAWL_CERT without a PAWL_KEY or a PAWL_CA, or the reverse.
    """
    if given is not None:
        return None if given is NO_TLS else given
    ca, cert, key = (os.environ.get(f"PAWL_{name}") or None for name in ("CA", "CERT", "KEY"))
    if (cert is None) != (key is None):
        raise ValueError("PAWL_CERT, PAWL_KEY: must be set together; set both or neither")
    if ca is None and cert is not None:
        raise ValueError(
            "PAWL_CERT: needs TLS; name the CA of the sidecar's certificate in PAWL_CA"
        )
    if ca is None or address.startswith("unix:"):
        return None
    return Tls(ca=ca, cert=cert, key=key)


F = TypeVar("F", bound=Callable[..., None])


def by_name_only(init: F) -> F:
    """Returns an `__init__` that refuses arguments without a name, and names the first one."""

    @functools.wraps(init)
    def call(self: Any, *given: Any, **named: Any) -> None:
        if given:
            name = type(self).__name__
            raise TypeError(
                f"{name}: takes arguments by name only; write {name}(address={given[0]!r})"
            )
        init(self, **named)

    return cast("F", call)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a client. Times are in seconds.

    `timeout` bounds each call, its repetitions included (default 30). `retry_for` bounds how long a
    call is repeated while the sidecar cannot be reached or asks to wait (default 20, 0: no
    repetition). `keepalive` is the time between pings, at least 6. `max_message_bytes` bounds one
    message in either direction (default 64 MiB). `address_source` says where the address comes
    from, for messages (empty: the program). Raises ValueError for a value out of range.
    """

    address: str = DEFAULT_ADDRESS
    address_source: str = field(default="", repr=False)
    namespace: str = ""
    token: TokenSource | None = field(default=None, repr=False)
    tls: Tls | None = None
    timeout: float = 30.0
    retry_for: float = 20.0
    keepalive: float = KEEPALIVE
    max_message_bytes: int = 64 * _MEBIBYTE

    def __post_init__(self) -> None:
        if not _ADDRESS.fullmatch(self.address):
            source = self.address_source or "the argument address"
            raise ValueError(f"address: HOST:PORT or unix:PATH, not {self.address!r} ({source})")
        for name in ("timeout", "keepalive", "max_message_bytes"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: must be greater than 0, not {getattr(self, name)}")
        if self.keepalive < _LEAST_KEEPALIVE:
            raise ValueError(
                f"keepalive: must be at least {_LEAST_KEEPALIVE:g} s, not {self.keepalive}"
            )
        if self.retry_for < 0:
            raise ValueError(f"retry_for: must be at least 0 s, not {self.retry_for}")

    @property
    def place(self) -> str:
        """The address, and where it comes from, for messages."""
        return f"{self.address} ({self.address_source})" if self.address_source else self.address

    def options(self) -> list[tuple[str, str | int]]:
        """Returns the options of the gRPC channel. gRPC's own retries are off: this package repeats
        calls itself, with the same ids.
        """
        options: list[tuple[str, str | int]] = [
            ("grpc.primary_user_agent", f"pawl-python/{version()}"),
            ("grpc.keepalive_time_ms", int(self.keepalive * 1000)),
            # Both are needed: with the first alone, newer versions of gRPC wait for a minute.
            ("grpc.keepalive_timeout_ms", int(self.keepalive * 500)),
            ("grpc.http2.ping_timeout_ms", int(self.keepalive * 500)),
            ("grpc.keepalive_permit_without_calls", 1),
            ("grpc.http2.max_pings_without_data", 0),
            ("grpc.enable_retries", 0),
            ("grpc.initial_reconnect_backoff_ms", 50),
            # The longest time of one attempt to connect, handshakes included.
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
        """Whether a new token may help: a function gives it, and the error is about the token."""
        return isinstance(error, AuthenticationError) and callable(self.token)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the metadata of one call: the token, if there is one.

        Raises AuthenticationError if the token's function raises or returns no str.
        """
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
            f"token: the function must return a str, not {type(token).__name__}",
            code="UNAUTHENTICATED",
        )
    return token


def settings_of(
    address: str | None, token: TokenSource | None, tls: Tls | None, **others: Any
) -> Settings:
    """Returns the settings of a client or a worker, with unset ones from the environment.

    Raises ValueError for a value out of range.
    """
    place, source = _address_of(address)
    return Settings(
        address=place,
        address_source=source,
        token=_token_of(token),
        tls=_tls_of(tls, place),
        **others,
    )
