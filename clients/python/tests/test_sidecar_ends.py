"""A sidecar for tests ends with the program that started it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time

import pytest

from workers import WAIT

PROGRAM = """
import signal
from pawl_client.testing import Sidecar
sidecar = Sidecar()
sidecar.start()
print(sidecar.address, flush=True)
signal.pause()
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_sidecar_ends_with_its_program(how: signal.Signals) -> None:
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        host, port = program.stdout.readline().strip().split(":")
        program.send_signal(how)
    end = time.monotonic() + WAIT
    while serves(host, int(port)):
        assert time.monotonic() < end


def serves(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), timeout=WAIT).close()
    except ConnectionRefusedError:
        return False
    except ConnectionResetError:  # the sidecar is just ending
        return True
    return True
