"""Write docs/methods.md from rows: published against ours for every baseline and graph.

    python -m benchmarks.methods_page [--rows results/table2.jsonl] [--page docs/methods.md]

Published figures are the paper's Table 2 (most of them copied there from earlier papers). Reasons for cells that fall
short are in `REASONS`; a cell that falls short without one is named as unexplained.
"""

import argparse
from pathlib import Path

import numpy as np

from adaptkry import comparison, results

GRAPHS = ("cora", "citeseer", "pubmed", "actor", "chameleon", "squirrel")
TABLE = {
    "gcn": (87.18, 79.85, 86.79, 33.26, 60.81, 45.87),
    "sgc": (86.83, 79.65, 87.14, 34.46, 44.81, 25.75),
    "asgc": (85.35, 76.52, 84.17, 33.41, 71.38, 57.91),
    "sign": (87.70, 80.14, 89.09, 41.22, 60.92, 45.59),
    "chebnet": (87.32, 79.33, 87.82, 37.42, 59.51, 40.81),
    "gprgnn": (88.54, 80.13, 88.46, 39.91, 67.49, 50.43),
    "bernnet": (88.51, 80.08, 88.51, 41.71, 68.53, 51.39),
    "jacobiconv": (88.98, 80.78, 89.62, 41.17, 74.20, 57.38),
    "evennet": (87.77, 78.51, 90.87, 40.36, 67.02, 52.71),
    "chebnetii": (88.71, 80.53, 88.93, 41.75, 71.37, 57.72),
    "optbasis": (87.00, 80.58, 90.30, 42.39, 74.26, 63.62),
}
PUBLISHED = {method: dict(zip(GRAPHS, row, strict=True)) for method, row in TABLE.items()}
NEAR = 1.0  # points below the published figure that still count as reached
OTHER = Path("results/table2-other-splits.jsonl")  # the same cells on the other seeds' splits
COPY = (
    "Likely, not proven: the published runs used a pickled copy of the graph that cannot be read here; on this graph "
    "every method of that family comes out lower than published, while on the citation graphs they agree."
)
REASONS: dict[tuple[str, str], str] = {
    ("gprgnn", "chameleon"): COPY,
    ("evennet", "chameleon"): COPY,
    ("evennet", "actor"): COPY + " Where the published EvenNet figures come from is not known.",
    ("jacobiconv", "actor"): "Its own ten splits come from another generator that draws on a CUDA device. " + COPY,
    ("jacobiconv", "chameleon"): "Its own ten splits come from another generator that draws on a CUDA device. " + COPY,
    ("optbasis", "cora"): "No settings were ever published for this graph; what validation chose among ours is worse. "
    "The list in `methods.TRIED` is another one since; this row is of the old list.",
}

HEAD = """# Every baseline, published against ours

Written by `python -m benchmarks.methods_page` from `results/table2.jsonl`; no figure of ours is typed.
Test accuracy in %, mean ± standard deviation over ten class-balanced 60/20/20 splits (BernNet's seeds for the programs
that share its generator, AdaptKry's for the others). Settings: each method's own published ones; where
none exist for these splits (gcn, sgc, sign, chebnet; gprgnn on the citation graphs; optbasis on cora)
those of `methods.TRIED`, chosen on
validation nodes; asgc chooses on validation by itself. Epochs are chosen on validation nodes throughout.

"""


def cells(rows: list[dict]) -> dict[tuple[str, str], list[dict]]:
    """The newest whole set of rows of each method and graph."""
    found: dict[tuple[str, str], list[dict]] = {}
    for row in rows:
        if not row["quick"]:
            key = (row["method"], row["graph"])
            same = found.get(key, [])
            found[key] = [*same, row] if same and same[0]["commit"] == row["commit"] else [row]
    return found


def page(rows: list[dict]) -> str:
    """The document."""
    found = cells(rows)
    lines = [HEAD, "| method | " + " | ".join(GRAPHS) + " |", "|---" * (len(GRAPHS) + 1) + "|"]
    reached, below = 0, []
    for method in PUBLISHED:
        texts = []
        for graph in GRAPHS:
            own = found.get((method, graph))
            if own is None:
                texts.append("-")
                continue
            scores = 100 * comparison.test_scores(own)
            mean, target = float(np.nanmean(scores)), PUBLISHED[method][graph]
            good = mean >= target - NEAR
            reached += good
            below += [] if good else [(method, graph, scores, target)]
            texts.append(f"{mean:.2f} ± {np.nanstd(scores, ddof=1):.2f} ({mean - target:+.2f})")
        lines.append(f"| {method} | " + " | ".join(texts) + " |")
    whole = len(PUBLISHED) * len(GRAPHS)
    lines += ["", f"In brackets: ours minus published. **{reached} of {whole} cells** are within {NEAR} point of the "]
    lines += [f"published figure or above it; {len(found)} have been run.", ""]
    others = results.read(OTHER) if OTHER.exists() else []
    lines += [explained(method, graph, scores, target, others) for method, graph, scores, target in below]
    return "\n".join([*lines, "", *costs(found), ""])


def explained(method: str, graph: str, scores: np.ndarray, target: float, others: list[dict]) -> str:
    """One line for a cell that falls short: ours with its interval, ours on other splits, the reason."""
    half = comparison.interval(scores[~np.isnan(scores)])
    inside = "inside" if abs(scores.mean() - target) <= half else "outside"
    facts = f"{scores.mean():.2f} ± {half:.2f} (95 % interval) against {target:.2f}, which lies {inside}"
    for scheme in ("class_balanced", "class_balanced_bernnet"):
        own = [row for row in others if (row["method"], row["graph"], row["scheme"]) == (method, graph, scheme)]
        if own:
            facts += f"; on the {scheme} splits {100 * comparison.test_scores(own).mean():.2f}"
    return f"- **{method} on {graph}**: {facts}. {REASONS.get((method, graph), 'Unexplained so far.')}"


def costs(found: dict[tuple[str, str], list[dict]]) -> list[str]:
    """Time and memory of every cell."""
    lines = ["## What it cost", "", "| method | " + " | ".join(GRAPHS) + " |", "|---" * (len(GRAPHS) + 1) + "|"]
    for method in PUBLISHED:
        own = [found.get((method, graph), [None])[0] for graph in GRAPHS]
        texts = [
            "-" if row is None else f"{row['cell_seconds']:.1f} s, {row['settings_tried']} x 10 trainings"
            for row in own
        ]
        lines.append(f"| {method} | " + " | ".join(texts) + " |")
    firsts = [rows[0] for rows in found.values()]
    total = sum(row["cell_seconds"] for row in firsts)
    where = sorted({f"{row['device']}, commit {row['commit']}" for row in firsts})
    return [*lines, "", f"All cells: {total:.0f} s ({'; '.join(where)})."]


def write_page(rows: Path | str, to: Path) -> None:
    """Write the document."""
    to.write_text(page(results.read(rows)), encoding="utf-8")


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", default="results/table2.jsonl")
    parser.add_argument("--page", default="docs/methods.md")
    asked = parser.parse_args()
    write_page(asked.rows, Path(asked.page))


if __name__ == "__main__":
    main()
