import json

import pytest

from adaptkry.outofcore import BasisFolder
from contracts import assert_same_bits


def test_a_slab_is_a_range_of_rows_of_all_terms(basis):
    whole = basis.slab(0, 60)
    assert whole.shape == (basis.terms, 60, 5) == (3 * 4, 60, 5)
    for start, stop in ((0, 1), (7, 13), (59, 60), (30, 30)):
        assert_same_bits(basis.slab(start, stop), whole[:, start:stop])
    with pytest.raises(ValueError, match=r"rows must be within 0 \.\. 60; got 50 \.\. 61"):
        basis.slab(50, 61)


def test_missing_blocks_are_named_with_the_command_that_computes_them(basis):
    (basis.path / "block-2-4.npy").unlink()
    command = r"adaptkry propagate GRAPH --taus 0\.5,1,1\.4 --degree 3 .*\(GRAPH: the path or name of graph"
    message = rf"Missing columns: 2\.\.3\. Continue with: {command}"
    with pytest.raises(ValueError, match=message):
        BasisFolder.open(basis.path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 1}, "must have format 2; got 1, .*Create it again with: adaptkry propagate GRAPH"),
        ({"blocks": []}, r"must cover columns 0 \.\. 4; got \[\]"),
        ({"blocks": [[0, 2], [4, 5]]}, "must cover columns"),
        ({"blocks": [[0, 5], [5, 5]]}, "must cover columns"),
        ({"degree": "3"}, "'degree' in .*manifest.json must be a non-negative integer; got .3."),
        ({"taus": None}, "'taus' in .*manifest.json must be a list of distinct positive numbers; got None"),
        ({"kind": "graph"}, "must be a basis folder; got kind 'graph'"),
    ],
    ids=str,
)
def test_a_changed_manifest_is_refused(basis, change, message):
    path = basis.path / "manifest.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        BasisFolder.open(basis.path)


@pytest.mark.parametrize(
    "text", ["", "{", "[" * 100_000, "[]", "\udcff"], ids=["empty", "half", "deep", "list", "bytes"]
)
def test_a_damaged_manifest_is_refused(basis, text):
    (basis.path / "manifest.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"manifest.json must be JSON|must be a basis folder; got kind None"):
        BasisFolder.open(basis.path)
