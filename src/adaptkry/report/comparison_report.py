"""The report of `adaptkry compare`: a leaderboard and a chart of each graph, a table of several, and a sentence."""

from collections.abc import Mapping, Sequence
from typing import Any

from adaptkry.report.elements import TableCell, cell, chart, counted, experiment, series, table
from adaptkry.selection.comparison_table import Comparison, ComparisonTable

COMPARISON_COLUMNS = (
    "method", "mean ± std", "95 % interval", "to the best", "seconds", "parameters", "peak MiB", "tried",
    "could not run",
)  # fmt: skip
CORRECTED = "corrected for splits that share nodes, not for the number of methods"
COMPARISON_NOTE = (
    "95 % interval: confidence interval of the mean over splits (Student's t), as if they were independent; they share "
    "nodes. To the best: mean paired difference to the best method over the same splits, in percentage points, with "
    "its 95 % interval, which is corrected for shared nodes (Nadeau and Bengio) but not for the number of methods: the "
    "best of many is partly lucky. Tried: number of settings that were compared on validation nodes; seconds and peak "
    "memory include all of them."
)


def stored_comparison_report(entries: Comparison, document: Mapping[str, Any]) -> dict:
    """Return a comparison of one or several graphs as an experiment; `document` is what its entries share."""
    graphs, provenance = document["graphs"], document["provenance"]
    each = [
        comparison_report(
            [entry for entry in entries if entry["graph"] == one["graph"]],
            one["warnings"], one["graph"], one["metric"], provenance,
        )
        for one in graphs
    ]  # fmt: skip
    if len(each) == 1:
        return each[0]
    found = entries.table(document["baseline"])
    return experiment(
        f"Methods on {', '.join(found.graphs)}",
        lead=best_rank(found),
        tables=[
            table("Test scores (%)", found.columns(), found.rows(), found.note().replace("Bold: best mean. ", "")),
            *(
                leaderboard | {"title": f"{leaderboard['title']}: {one['graph']}"}
                for one, part in zip(graphs, each, strict=True)
                for leaderboard in part["tables"]
            ),
        ],
        charts=[chart for part in each for chart in part["charts"]],
        notes=[f"{one['graph']}: {note}" for one, part in zip(graphs, each, strict=True) for note in part["notes"]],
        provenance=provenance,
    )


def best_rank(found: ComparisonTable) -> str:
    """Return a sentence that names the methods with the best mean rank."""
    lowest = min(found.mean_ranks.values())
    names = [name for name in found.methods if found.mean_ranks[name] == lowest]
    have = "has the best mean rank" if len(names) == 1 else "have the best mean rank"
    return f"{' and '.join(names)} {have}: {lowest:.2f} over {len(found.graphs)} graphs."


def comparison_report(
    entries: Sequence[dict], warnings: Sequence[str], graph_name: str, metric: str, provenance: Mapping[str, object]
) -> dict:
    """Return the entries of `selection.compare.compare`, best first, as an experiment."""
    lines = [comparison_cells(entry) for entry in entries]
    columns = [name for name in COMPARISON_COLUMNS if name != "could not run" or any(line[name] for line in lines)]
    ranked = [entry for entry in entries if entry["mean"] is not None]
    scores = series(
        "mean and 95 % interval",
        [entry["method"] for entry in ranked],
        [100 * entry["mean"] for entry in ranked],
        [percent(entry["low"]) for entry in ranked],
        [percent(entry["high"]) for entry in ranked],
    )
    rows = [[line[name] for name in columns] for line in lines]
    return experiment(
        f"Methods on {graph_name}",
        lead=best_method(ranked, metric),
        tables=[table(f"Test {metric} (%) on the same splits", columns, rows, COMPARISON_NOTE)],
        charts=[chart(f"Test {metric} on {graph_name}", [scores], x="method", y=f"test {metric} (%)")]
        if ranked
        else [],
        notes=[f"warning: {text}" for text in warnings],
        provenance=provenance,
    )


def best_method(ranked: Sequence[dict], metric: str) -> str:
    """Return a sentence that names the method with the best mean, and those that are not significantly worse."""
    if not ranked:
        return "No method could run."
    best, *others = ranked
    splits = sum(row["test"] is not None for row in best["rows"])
    scheme = best["rows"][0]["scheme"]
    over = counted(splits, f"{scheme} split", f"{scheme} splits")
    sentence = f"{best['method']} has the best mean: {100 * best['mean']:.2f} % test {metric} over {over}."
    if not others or splits < 2:
        return sentence
    close = [
        entry["method"]
        for entry in others
        if entry["difference"] is not None and entry["difference"] + entry["difference_half_width"] >= 0
    ]
    if not close:
        return f"{sentence} All other methods are significantly worse (95 %, {CORRECTED})."
    return f"{sentence} Not significantly worse (95 %, {CORRECTED}): {', '.join(close)}."


def comparison_cells(entry: dict) -> dict[str, TableCell]:
    """Return the cells of one row of the leaderboard, by column."""
    if entry["mean"] is None:
        reason = entry["failed"] or "every training failed"
        return dict.fromkeys(COMPARISON_COLUMNS) | {"method": entry["method"], "could not run": reason}
    has_spread = entry["std"] is not None  # a single split has no standard deviation
    peak = entry["peak_bytes"]
    mean = f"{100 * entry['mean']:.2f}" + (f" ± {100 * entry['std']:.2f}" if has_spread else "")
    return {
        "method": entry["method"],
        "mean ± std": cell(mean, entry["mean"]),
        "95 % interval": cell(f"{100 * entry['low']:.2f} .. {100 * entry['high']:.2f}", entry["low"])
        if has_spread
        else None,
        "to the best": cell(difference_to_best(entry, has_spread), entry["difference"]),
        "seconds": cell(f"{entry['seconds']:.1f}", entry["seconds"]),
        "parameters": cell(f"{entry['parameters']:,}", entry["parameters"]),
        "peak MiB": None if peak is None else cell(f"{peak / 2**20:,.0f}", peak),
        "tried": len(entry["tried"]),
        "could not run": None,
    }


def difference_to_best(entry: dict, has_spread: bool) -> str:
    """Return the mean difference to the best method in percentage points, with its interval if it has one."""
    if entry["difference"] is None:
        return "-"
    if entry["difference"] == 0:
        return "best"
    return f"{100 * entry['difference']:+.2f}" + (
        f" ± {100 * entry['difference_half_width']:.2f}" if has_spread else ""
    )


def percent(share: float | None) -> float | None:
    """Convert a share to per cent."""
    return None if share is None else 100 * share
