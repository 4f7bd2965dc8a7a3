"""Measures Pawl beside its peers: the same loop (start, ten events of 256 bytes, end), each
acknowledged durably, on the same machine within the same minutes. See README.md.

    python run.py [--only pawl,postgres] [--rounds 3] [--seconds 3] [--kills 20] [-o json]
"""

import argparse
import json
import os
import random
import re
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from servers import HERE, ROOT, Missing, NoServer, Postgres, Restate, Server, Sidecar, remove, resident

BYTES = 256
LANES = 16
"""Runs at a time while the peers are killed."""


@dataclass
class Subject:
    name: str
    adapter: str
    server: type[Server]
    library: bool
    """Its runtime lives in the driver's process, whose memory counts then."""
    version: str
    samples: dict[str, list[float]] = field(default_factory=dict)
    fault: str = ""

    def add(self, **values: float) -> None:
        for key, value in values.items():
            self.samples.setdefault(key, []).append(value)


def subjects() -> list[Subject]:
    def of(package: str) -> str:
        try:
            return metadata.version(package)
        except metadata.PackageNotFoundError:
            return "not installed"

    package = HERE / "restate" / "package.json"
    restate = json.loads(package.read_text())["dependencies"]["@restatedev/restate-server"]
    postgres = first_line("psql", "--version")
    return [
        Subject("pawl", "pawl", Sidecar, False, first_line(str(ROOT / "bin" / "sidecar"), "version")),
        Subject("restate", "restate", Restate, False, restate),
        Subject("postgres by hand", "postgres", Postgres, False, postgres),
        Subject("dbos + postgres", "dbos_steps", Postgres, True, of("dbos")),
        Subject("langgraph + sqlite", "langgraph_sqlite", NoServer, True,
                f"{of('langgraph')}, checkpoint {of('langgraph-checkpoint-sqlite')}"),
        Subject("langgraph + postgres", "langgraph_postgres", Postgres, True,
                f"{of('langgraph')}, checkpoint {of('langgraph-checkpoint-postgres')}"),
    ]


def first_line(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True).stdout.splitlines()[0]
    except (OSError, IndexError):
        return "not installed"


def driver(job: dict[str, Any]) -> subprocess.Popen[str]:
    """A driver at work on a job."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "driver.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": f"{HERE}:{ROOT / 'clients' / 'python' / 'src'}"},
    )
    assert process.stdin
    process.stdin.write(json.dumps(job) + "\n")
    process.stdin.close()
    process.stdin = None
    return process


def answer(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=300)
    if process.returncode != 0 or not out.strip():
        raise RuntimeError(last_fault(err))
    return dict(json.loads(out.splitlines()[-1]))


def last_fault(text: str) -> str:
    """The line of a traceback that names the error, or the last one."""
    lines = [line for line in text.splitlines() if line.strip()]
    named = [line for line in lines if re.match(r"[A-Za-z_.]+(Error|Exception|Refused)\b", line)]
    return (named or lines or ["the driver said nothing"])[-1]


def measure(subject: Subject, home: Path, number: int, seconds: float) -> None:
    """One round: alone, then with 64 runs at a time."""
    server = subject.server(home)
    server.begin()  # what it makes for itself is not counted
    server.end()
    before = server.stored()
    place = server.begin()
    try:
        common = {"adapter": subject.adapter, "place": place, "mode": "bench", "warm": 1.0, "seconds": seconds}
        alone = answer(driver({**common, "runs": 1, "prefix": f"a{number}-"}))
        work = driver({**common, "runs": 64, "prefix": f"b{number}-"})
        peak = Peak(lambda: server.pids() + ([work.pid] if subject.library else []))
        many = answer(work)
        memory = peak.end()
    except BaseException:
        server.end(signal.SIGKILL)
        raise
    server.end()
    subject.add(
        tps_1=alone["events"] / alone["seconds"], p50_us_1=alone["p50_us"], p99_us_1=alone["p99_us"],
        tps_64=many["events"] / many["seconds"], p50_us_64=many["p50_us"], p99_us_64=many["p99_us"],
        rss_mb=memory / 1e6, stored_ratio=(server.stored() - before) / ((alone["all"] + many["all"]) * BYTES),
    )


class Peak:
    """The most memory that processes held together, looked at ten times a second."""

    def __init__(self, pids: Any) -> None:
        self.most, self.done, self.pids = 0, threading.Event(), pids
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def _watch(self) -> None:
        while not self.done.wait(0.1):
            self.most = max(self.most, resident(self.pids()))

    def end(self) -> int:
        self.done.set()
        self.thread.join()
        return self.most


def crash(subject: Subject, home: Path, kills: int, dice: random.Random) -> None:
    """Kills every process of the peer at once, again and again, under load, and compares what
    is stored with what was acknowledged. What was not is repeated, as a caller would."""
    acknowledged: dict[str, int] = {}
    server = subject.server(home)
    for number in range(kills):
        place = server.begin()
        unfinished = {run: seq + 1 for run, seq in acknowledged.items() if seq <= 10}
        work = driver({"adapter": subject.adapter, "place": place, "mode": "kill", "lanes": LANES,
                       "open": unfinished, "prefix": f"k{number}-"})
        told = under_load(work, dice.uniform(0.3, 1.2))
        work_gone(work)
        server.end(signal.SIGKILL)
        assert work.stdout
        for line in told + work.stdout.read().splitlines():
            parts = line.split()
            if len(parts) == 2 and parts[1].isdigit():
                acknowledged[parts[0]] = max(acknowledged.get(parts[0], 0), int(parts[1]))
    place = server.begin()
    stored = answer(driver({"adapter": subject.adapter, "place": place, "mode": "read",
                            "runs": sorted(acknowledged)}))
    server.end()
    events = {run: range(1, min(seq, 10) + 1) for run, seq in acknowledged.items()}
    subject.add(
        killed=kills, acknowledged=sum(len(seqs) for seqs in events.values()),
        lost=sum(seq not in stored[run] for run, seqs in events.items() for seq in seqs),
        doubled=sum(len(found) - len(set(found)) for found in stored.values()),
    )


def under_load(work: subprocess.Popen[str], seconds: float) -> list[str]:
    """Reads acknowledgements until so long after the first one."""
    assert work.stdout
    told: list[str] = []
    end: float | None = None
    while end is None or time.monotonic() < end:
        ready, _, _ = select.select([work.stdout], [], [], 0.05 if end else 60)
        if not ready and end is None:
            raise RuntimeError("no acknowledgement within a minute")
        if ready:
            line = work.stdout.readline()
            if not line:
                assert work.stderr
                raise RuntimeError(last_fault(work.stderr.read()))
            told.append(line)
            end = end or time.monotonic() + seconds
    return told


def work_gone(work: subprocess.Popen[str]) -> None:
    os.killpg(work.pid, signal.SIGKILL)
    work.wait()


COLUMNS = [
    ("events/s, 1 run", "tps_1", "{:,.0f}"), ("p50 us", "p50_us_1", "{:,.0f}"), ("p99 us", "p99_us_1", "{:,.0f}"),
    ("events/s, 64 runs", "tps_64", "{:,.0f}"), ("p50 us", "p50_us_64", "{:,.0f}"), ("p99 us", "p99_us_64", "{:,.0f}"),
    ("stored / written", "stored_ratio", "{:.2f}"), ("memory MB", "rss_mb", "{:,.0f}"),
    ("acknowledged under kills", "acknowledged", "{:,.0f}"), ("lost", "lost", "{:.0f}"), ("doubled", "doubled", "{:.0f}"),
]


def table(found: list[Subject]) -> str:
    lines = ["| peer | " + " | ".join(title for title, _, _ in COLUMNS) + " |", "|---" * (len(COLUMNS) + 1) + "|"]
    for subject in found:
        cells = [form.format(statistics.median(subject.samples[key])) if key in subject.samples else "-"
                 for _, key, form in COLUMNS]
        lines.append(f"| {subject.name} {subject.version} | " + " | ".join(cells) + " |")
    for subject in found:
        if subject.fault:
            lines.append(f"{subject.name}: not measured whole: {subject.fault}")
    lines.append("promptkit: not measured: its Go module is not served by the module proxy")
    return "\n".join(lines)


def quiet(most: float = 0.5, seconds: float = 120) -> float:
    """Waits for a quiet machine; the load that it saw at last."""
    until = time.monotonic() + seconds
    while os.getloadavg()[0] >= most and time.monotonic() < until:
        time.sleep(1)
    return os.getloadavg()[0]


def main() -> None:
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--only", default="", help="names of peers, by comma (default: all)")
    parse.add_argument("--rounds", type=int, default=3, help="rounds; the median counts")
    parse.add_argument("--seconds", type=float, default=3.0, help="seconds of each window")
    parse.add_argument("--kills", type=int, default=20, help="kills of each peer")
    parse.add_argument("--wait", type=float, default=120.0, help="seconds to wait for a load below 0.5")
    parse.add_argument("-o", "--output", choices=["text", "json"], default="text")
    asked = parse.parse_args()
    chosen = [s for s in subjects() if not asked.only or s.name in asked.only.split(",")]
    load = quiet(seconds=asked.wait)
    with tempfile.TemporaryDirectory(prefix="pawl-peers-") as base:
        os.chmod(base, 0o755)
        for number in range(asked.rounds):
            for subject in chosen:
                attempt(subject, Path(base) / f"{subject.adapter}-{number}", lambda s, h: measure(s, h, number, asked.seconds))
        dice = random.Random(1)
        for subject in chosen if asked.kills else []:
            attempt(subject, Path(base) / f"{subject.adapter}-kill", lambda s, h: crash(s, h, asked.kills, dice))
    if asked.output == "json":
        print(json.dumps({"load": load, "peers": {s.name: {"version": s.version, "fault": s.fault, **s.samples} for s in chosen}}))
    else:
        print(f"load before: {load:.2f}, {os.cpu_count()} cores, rounds of {asked.seconds:g} s: {asked.rounds}, kills: {asked.kills}\n")
        print(table(chosen))


def attempt(subject: Subject, home: Path, what: Any) -> None:
    """Runs one part for one peer in its own directory. Errors are reported at the end."""
    if subject.fault:
        return
    home.mkdir(mode=0o755)
    print(f"{subject.name} ...", file=sys.stderr, flush=True)
    try:
        what(subject, home)
    except (Missing, RuntimeError, OSError, subprocess.SubprocessError) as error:
        subject.fault = f"{type(error).__name__}: {error}"
    finally:
        remove(home)


main()
