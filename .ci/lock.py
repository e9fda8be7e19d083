"""Write .ci/requirements.txt: the pins of constraints.txt with the SHA-256 of every file of each release.

    python .ci/lock.py

Run it after a change of constraints.txt, in the environment that has these versions installed. The hashes come from the
package index. A wheel in a folder of pip's `find-links` (a CPU build of torch) takes the place of those of the index.
"""

import hashlib
import re
import subprocess
import sys
import urllib.request
from pathlib import Path

HERE = Path(__file__).parent
INDEX = "https://pypi.org/simple"
BUILD = ("setuptools", "wheel")  # needed to install the package itself without the network
LINK = re.compile(r'href="[^"#]*/(?P<file>[^/"#]+)#sha256=(?P<hash>[0-9a-f]{64})"')


def normalised(name: str) -> str:
    """Return a package name as the index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pip(*arguments: str) -> list[str]:
    """Return the lines that pip prints."""
    command = [sys.executable, "-m", "pip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def pins() -> dict[str, str]:
    """Return name -> version: those of constraints.txt, and those of the build tools that are installed."""
    lines = (HERE.parent / "constraints.txt").read_text(encoding="utf-8").splitlines()
    found = dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))
    listed = subprocess.run(
        [sys.executable, "-m", "pip", "freeze", "--all"], capture_output=True, text=True, check=True
    )
    installed = dict(line.split("==") for line in listed.stdout.splitlines() if "==" in line)
    return found | {name: installed[name] for name in BUILD if name in installed}


def is_of(file: str, name: str, version: str) -> bool:
    """Return whether a wheel or source archive belongs to this version."""
    pattern = "[-_.]+".join(map(re.escape, normalised(name).split("-")))
    return re.match(rf"{pattern}-{re.escape(version)}(\+|-|\.tar|\.zip)", file, re.IGNORECASE) is not None


def index_hashes(name: str, version: str) -> set[str]:
    """Return the hashes of all files of a version on the package index."""
    with urllib.request.urlopen(f"{INDEX}/{normalised(name)}/", timeout=60) as response:
        text = response.read().decode()
    return {match["hash"] for match in LINK.finditer(text) if is_of(match["file"], name, version)}


def local_hashes(name: str, version: str) -> set[str]:
    """Return the hashes of wheels in the folders that pip searches on this machine."""
    folders = {Path(path) for line in pip("config", "list") if "find-links" in line for path in _paths(line)}
    files = (file for folder in folders if folder.is_dir() for file in folder.glob("*.whl"))
    return {hashlib.sha256(file.read_bytes()).hexdigest() for file in files if is_of(file.name, name, version)}


def _paths(line: str) -> list[str]:
    return line.split("=", 1)[1].strip("'\"").split()


def main() -> None:
    """Write the file; a pin without any hash is an error."""
    lines = ["# Written by .ci/lock.py from constraints.txt; do not edit."]
    for name, version in sorted(pins().items(), key=lambda pin: normalised(pin[0])):
        hashes = local_hashes(name, version) or index_hashes(name, version)
        if not hashes:
            sys.exit(f"{name} {version} has no files on {INDEX}; correct constraints.txt.")
        lines += [f"{name}=={version} \\", *(f"    --hash=sha256:{value} \\" for value in sorted(hashes))]
        lines[-1] = lines[-1].removesuffix(" \\")
    (HERE / "requirements.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
