"""Reproduce the tables and figures of the paper; each of them is an item, and so is each experiment of our own.

`reproduce` measures an item and stores the result rows; `documents` writes documents from rows only. The printed values
are in `paper.toml`, and `verdicts` decides whether they hold.
"""

ACCURACY_ITEMS = ("defaults", "ingredients", "best")  # not in the paper
ITEM_NAMES = (  # available without importing torch; `reproduce.ITEMS` has exactly these keys
    "table-1", "table-2", "tau-sets", "orthogonality", "hyper-parameters", "large-graphs", "figure-1",
    "tau-sensitivity", "angles", "running-times", "learned-filters", "theory", "direction", "tying", "protocol",
    *ACCURACY_ITEMS,
)  # fmt: skip
