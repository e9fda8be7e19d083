"""The version of adaptkry, and the commit that it was built from."""

from pathlib import Path

VERSION = __version__ = "0.2.0.dev0"
COMMIT_FILE = Path(__file__).with_name("COMMIT")  # in wheels and source archives; setup.py writes it


def commit() -> str:
    """The commit of the checkout or of the wheel, followed by + if files were changed since; or "unknown".

    >>> 7 <= len(commit().removesuffix("+")) <= 40
    True
    """
    import subprocess  # `adaptkry --help` does not need it

    if COMMIT_FILE.exists():
        return COMMIT_FILE.read_text(encoding="utf-8").strip()
    root = COMMIT_FILE.parents[3]
    if not (root / ".git").exists():  # an installed package is no part of a repository around it
        return "unknown"
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
