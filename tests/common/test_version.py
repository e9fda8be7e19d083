"""The commit: of a checkout from git, of a wheel from the file that setup.py adds."""

import subprocess
from pathlib import Path

import pytest

from adaptkry.common import version

ROOT = Path(__file__).parents[2]


def test_a_wheel_knows_the_commit_that_it_was_built_from(monkeypatch, tmp_path):
    (tmp_path / "COMMIT").write_text("0123456789ab\n")
    monkeypatch.setattr(version, "COMMIT_FILE", tmp_path / "COMMIT")
    assert version.commit() == "0123456789ab"


def test_an_installed_package_is_not_part_of_a_repository_around_it(monkeypatch, tmp_path):
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    monkeypatch.setattr(version, "COMMIT_FILE", tmp_path / "venv/lib/site-packages/adaptkry/common/COMMIT")
    assert version.commit() == "unknown"


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout")
def test_a_checkout_has_the_commit_of_git(command):
    head = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
    assert head.startswith(version.commit().removesuffix("+"))
    assert command("--version").out.strip() == f"adaptkry {version.VERSION} (commit {version.commit()})"
