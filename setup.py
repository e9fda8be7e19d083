"""Write the commit into wheels and source archives; everything else is in pyproject.toml."""

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

sys.path.insert(0, str(Path(__file__).parent / "src"))
from adaptkry.common.version import COMMIT_FILE, commit


class BuildWithCommit(build_py):
    """Add the file with the commit to the modules that are built, except for editable installations."""

    def run(self) -> None:
        """Build the modules, then add the file."""
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, "adaptkry", "common", COMMIT_FILE.name).write_text(f"{commit()}\n")


class ArchiveWithCommit(sdist):
    """Add the file with the commit to a source archive."""

    def make_release_tree(self, base_dir, files) -> None:
        """Copy the files, then add that of the commit."""
        super().make_release_tree(base_dir, files)
        Path(base_dir, "src", "adaptkry", "common", COMMIT_FILE.name).write_text(f"{commit()}\n")


setup(cmdclass={"build_py": BuildWithCommit, "sdist": ArchiveWithCommit})
