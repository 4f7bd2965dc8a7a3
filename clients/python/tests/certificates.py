"""Certificates for tests: an authority, a server and a client."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

SERVER_NAME = "pawl.test"
_KEY = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes"


@dataclass(frozen=True)
class Certificates:
    """Files of PEM. The authority signed the others."""

    ca: Path
    cert: Path
    key: Path
    client_cert: Path
    client_key: Path


def make(directory: Path, client: str = "test-client", name: str = SERVER_NAME) -> Certificates:
    """Makes them; `client` is the name that the client's own certificate has, `name` that of the
    server's.
    """
    files = Certificates(
        ca=directory / "ca.pem",
        cert=directory / "cert.pem",
        key=directory / "key.pem",
        client_cert=directory / "client.pem",
        client_key=directory / "client-key.pem",
    )
    ca_key = directory / "ca-key.pem"
    openssl(f"req -x509 {_KEY} -days 2 -subj /CN=authority -keyout {ca_key} -out {files.ca}")
    for cert, key, subject, alternative in (
        (files.cert, files.key, "localhost", name),
        (files.client_cert, files.client_key, client, client),
    ):
        request = cert.with_suffix(".csr")
        openssl(
            f"req {_KEY} -subj /CN={subject} -addext subjectAltName=DNS:{alternative}"
            f" -keyout {key} -out {request}"
        )
        openssl(
            f"x509 -req -in {request} -CA {files.ca} -CAkey {ca_key} -days 2"
            f" -copy_extensions copy -out {cert}"
        )
    return files


def openssl(arguments: str) -> None:
    subprocess.run(["openssl", *arguments.split()], check=True, capture_output=True, timeout=30)
