"""Settings of the test session: where real graphs are found, and where parsed ones are cached."""

import os
import tempfile
from pathlib import Path

# torch's thread pool spins while it waits; with other processes on the same cores that makes tests 10x slower.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")

_SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
if _SHARED.is_dir():
    os.environ.setdefault("ADAPTKRY_DATA", str(_SHARED))

# A cache of this session only: each real graph is parsed once, and never read from a cache that older code wrote.
_CACHE = tempfile.TemporaryDirectory(prefix="adaptkry-test-")
os.environ["ADAPTKRY_CACHE"] = _CACHE.name
