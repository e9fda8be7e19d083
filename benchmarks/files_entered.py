"""How many files of the package does a command enter?

    python -m benchmarks.files_entered fit cora --epochs 3 --device cpu

Counts files with at least one call, files entered before the first sparse product, files on the call stacks of sparse
products, and how often execution moves from one file to another. Imports are not counted. The command writes to a
temporary folder.
"""

import importlib
import os
import pkgutil
import sys
import tempfile
from pathlib import Path
from types import FrameType

import adaptkry
from adaptkry.cli import main as command

ROOT = Path(adaptkry.__file__).parent
SPARSE_PRODUCT = "gather_sum"


class Trace:
    """A profile function that records the files of the package that are entered."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.before_product: set[str] = set()
        self.on_stacks: set[str] = set()
        self.products, self.moves, self.last = 0, 0, ""

    def __call__(self, frame: FrameType, event: str, _) -> None:
        """Record one call."""
        name = file_of(frame)
        if event != "call" or name is None:
            return
        self.files.add(name)
        self.moves += name != self.last
        self.last = name
        if frame.f_code.co_name == SPARSE_PRODUCT:
            self.products += 1
            self.on_stacks |= {file for caller in callers(frame) if (file := file_of(caller)) is not None}
        if not self.products:
            self.before_product.add(name)


def file_of(frame: FrameType) -> str | None:
    """Return the path of a frame's file inside the package; None for other files."""
    path = Path(frame.f_code.co_filename)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else None


def callers(frame: FrameType | None):
    """Yield a frame and all frames that led to it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def main() -> None:
    """Import every module, run the command, print the counts."""
    for module in pkgutil.walk_packages(adaptkry.__path__, "adaptkry."):
        if "triton" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    trace = Trace()
    sys.argv[0] = "adaptkry"
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.setprofile(trace)
        try:
            command()
        except SystemExit:
            pass
        finally:
            sys.setprofile(None)
            os.chdir("/")
    print("\n".join(sorted(trace.files)))
    print(
        f"{len(trace.files)} files entered, {len(trace.before_product)} before the first sparse product, "
        f"{len(trace.on_stacks)} on the call stacks of {trace.products} sparse products, "
        f"{trace.moves} moves between files"
    )


if __name__ == "__main__":
    main()
