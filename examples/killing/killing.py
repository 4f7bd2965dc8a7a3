"""Starts an agent again as often as it dies, and kills the sidecar each time."""

from __future__ import annotations

import signal
import subprocess
import sys

from pawl_client.testing import Sidecar

from world import World


def main(program: str) -> None:
    """Prints what died, the agent's output, and what the world outside saw."""
    flags = ["--step-grace=1s", "--restart-grace=1s"]
    with Sidecar(allow_tools=["refund"], flags=flags) as sidecar:
        world = World(sidecar.path)
        while True:
            command = [sys.executable, program, sidecar.address, str(world.directory)]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
            if done.returncode != -signal.SIGKILL:
                break
            sidecar.restart()
            print("SIGKILL to both:", world.lines("killed")[-1])
        if done.returncode:
            sys.exit(done.returncode)
        print(done.stdout, end="")
        for which in ("first", "last"):
            print(f"{which} answer: asked {world.lines('asked').count(which)} times")
        keys = world.lines("bank")
        print(f"bank: {len(keys)} calls, {len(set(keys))} key, so {len(set(keys))} refund")


if __name__ == "__main__":
    main(sys.argv[1])
