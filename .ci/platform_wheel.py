"""Makes a wheel for one platform out of the pure one: the same files, the sidecar as
pawl_client/_bin/sidecar, and the command `sidecar`, which becomes it.

Usage: platform_wheel.py PURE_WHEEL OS/ARCH BINARY OUT_DIR
"""

import base64
import csv
import hashlib
import io
import sys
import zipfile
from pathlib import Path

# The binary is static: any Linux of the architecture will do. Go needs macOS 12.
TAGS = {
    "linux/amd64": ["manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"],
    "linux/arm64": ["manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"],
    "darwin/amd64": ["macosx_12_0_x86_64"],
    "darwin/arm64": ["macosx_12_0_arm64"],
}
BINARY = "pawl_client/_bin/sidecar"
# The command: it becomes the program, so that signals and the exit code are its own. It
# does not load the package, and never looks at the PATH, on which it is itself.
COMMAND = b"""#!python
import importlib.util
import os
import sys

package = importlib.util.find_spec("pawl_client").submodule_search_locations[0]
program = os.path.join(package, "_bin", "sidecar")
os.execv(program, [program, *sys.argv[1:]])
"""
# A fixed time, so that equal inputs make equal wheels.
TIME = (2020, 1, 1, 0, 0, 0)


def main(pure: Path, platform: str, binary: Path, out: Path) -> None:
    tags = TAGS[platform]
    name, version = pure.name.split("-")[:2]
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(pure) as wheel:
        files = {n: wheel.read(n) for n in wheel.namelist() if not n.endswith("/")}
    files[BINARY] = binary.read_bytes()
    files[f"{info}/WHEEL"] = wheel_file(files[f"{info}/WHEEL"].decode(), tags).encode()
    script = f"{name}-{version}.data/scripts/sidecar"
    files[script] = COMMAND
    del files[f"{info}/RECORD"]
    files[f"{info}/RECORD"] = record(files, f"{info}/RECORD")
    target = out / f"{name}-{version}-py3-none-{'.'.join(tags)}.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, data in files.items():
            entry = zipfile.ZipInfo(path, TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if path in (BINARY, script) else 0o100644) << 16
            wheel.writestr(entry, data)


def wheel_file(text: str, tags: list[str]) -> str:
    lines = [line for line in text.splitlines() if line and not line.startswith(("Tag:", "Root-Is-Purelib:"))]
    return "\n".join([*lines, "Root-Is-Purelib: false", *(f"Tag: py3-none-{tag}" for tag in tags)]) + "\n"


def record(files: dict[str, bytes], own: str) -> bytes:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(data)])
    rows.writerow([own, "", ""])
    return text.getvalue().encode()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3]), Path(sys.argv[4]))
