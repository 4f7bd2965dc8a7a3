"""Writes where the files of dist/ come from, as an in-toto statement with SLSA provenance v1: their
sums, the commit, the lock files and the version of Go. It has no times, so that equal builds have
equal files. Arguments: the version and the platforms."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

REPOSITORY = "https://github.com/pawl-dev/pawl"
LOCKS = (
    "go.sum",
    "tools/go.sum",
    "ui/package-lock.json",
    "clients/typescript/package-lock.json",
)


def output(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def source() -> dict[str, object]:
    """The commit. A tree without git has none."""
    try:
        return {
            "uri": f"git+{REPOSITORY}",
            "digest": {"gitCommit": output("git", "rev-parse", "HEAD")},
            "annotations": {"changed": bool(output("git", "status", "--porcelain"))},
        }
    except (OSError, subprocess.CalledProcessError):
        return {"uri": f"git+{REPOSITORY}"}


def main(version: str, *platforms: str) -> None:
    sums = [line.split("  ", 1) for line in Path("dist/SHA256SUMS").read_text().splitlines()]
    locks = [
        {"uri": path, "digest": {"sha256": hashlib.sha256(Path(path).read_bytes()).hexdigest()}}
        for path in LOCKS
    ]
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": name, "digest": {"sha256": digest}} for digest, name in sums],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": f"{REPOSITORY}/blob/main/.ci/dist",
                "externalParameters": {"version": version, "platforms": list(platforms)},
                "internalParameters": {"go": output("go", "env", "GOVERSION")},
                "resolvedDependencies": [source(), *locks],
            },
            "runDetails": {"builder": {"id": f"{REPOSITORY}/blob/main/.ci/dist"}},
        },
    }
    Path("dist/provenance.json").write_text(json.dumps(statement, indent=2) + "\n")


main(*sys.argv[1:])
