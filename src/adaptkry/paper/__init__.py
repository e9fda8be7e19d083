"""Reproducing the paper: one item per table or figure.

An item is measured (`reproduce`), its rows are stored, and documents are written from rows only (`documents`). What the
paper prints is in `paper.toml`; whether a printed value holds is decided in `verdicts`.
"""

ITEM_NAMES = (  # known without importing torch; `reproduce.ITEMS` has exactly these keys
    "table-1", "table-2", "tau-sets", "orthogonality", "hyper-parameters", "large-graphs", "figure-1",
    "tau-sensitivity", "angles", "running-times", "learned-filters", "theory", "direction", "tying", "split-schemes",
)  # fmt: skip
