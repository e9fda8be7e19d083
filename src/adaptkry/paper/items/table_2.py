"""Table 2: twelve methods on six graphs."""

from collections.abc import Mapping, Sequence

import numpy as np

from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import recipe
from adaptkry.paper.cells import Cells, difference_half_width, paired_differences
from adaptkry.paper.measure import Measurement, RunOptions, training
from adaptkry.paper.published import PAPER
from adaptkry.paper.tables import Printed, printed_values, result_table, verdict_notes
from adaptkry.paper.verdicts import is_within
from adaptkry.report import elements
from adaptkry.selection.grid import alternatives

ADAPTKRY = "adaptkry"
METHODS_COMPARED = len(PAPER["table-2"]["paper"])
SCHEMES_OF_SEEDS = ("class_balanced", "class_balanced_bernnet")  # seeds of AdaptKry, seeds of BernNet
PROBES: dict[str, dict] = {  # alternative measurements of a cell, and the settings that they change
    "other seeds": {}, "torch's splits": {}, "arcs out": {"directions": ("out",)}, "arcs in": {"directions": ("in",)},
}  # fmt: skip


def measurements(item: dict, options: RunOptions) -> list[Measurement]:
    """Return one measurement per graph and method, with published seeds and settings if there are any; then the probes.

    A quick run has no probes.
    """
    table = [measurement(item, options, method, graph) for graph in item["graphs"] for method in item["paper"]]
    return table + ([] if options.quick else [measurement(item, options, *probe) for probe in item["ours"]["probes"]])


def measurement(item: dict, options: RunOptions, method: str, graph: str, probe: str | None = None) -> Measurement:
    """Return the measurement of a cell, or of a probe of it; a quick run uses the first settings only."""
    changes = PROBES[probe] if probe else {}
    recipes = [recipe(method, graph)] if options.quick else alternatives(method, graph, **changes)
    uses_bernnet_seeds = (method in item["ours"]["bernnet_seeds"]) != (probe == "other seeds")
    scheme = "class_permuted" if probe == "torch's splits" else SCHEMES_OF_SEEDS[uses_bernnet_seeds]
    return training(options, method, f"{graph}, {probe}" if probe else graph, graph, recipes, scheme)


def section(cells: Cells, item: dict) -> dict:
    """Return the table, the probes, the sources of all settings, and the reasons for differences."""
    printed = printed_values(item["paper"], item["graphs"])
    tables = [result_table("test accuracy (%)", cells, list(item["paper"]), item["graphs"], item, printed)]
    if lines := probe_lines(cells, item, printed):
        columns = ["cell", "printed", "ours", "difference (both intervals combined)", *PROBES]
        note = "intervals over splits, as if these were independent"
        tables.append(
            elements.table("cells below the printed value, and alternative measurements (%)", columns, lines, note=note)
        )
    tables.append(elements.table("settings", ["method", "source", "settings tried"], source_lines(item)))
    notes = [baselines_note(cells, printed, item), *verdict_notes(cells, printed, item)]
    if ranked := ranking(cells, item):
        tables.insert(1, ranking_table(ranked))
        notes.insert(0, ranking_note(ranked))
    return {"tables": tables, "notes": notes}


def probe_lines(cells: Cells, item: dict, printed: Printed) -> list[list]:
    """Return one line per probed cell: the difference, both intervals combined, and the results of its probes."""
    lines = []
    for key, half_width in item["printed-half"].items():
        method, graph = key.split("/")
        cell, value = cells.get((method, graph)), printed[method, graph]
        if cell is None or not cell.has_result:
            continue
        difference = f"{cell.mean - value:+.2f} (± {np.hypot(cell.half_width, half_width):.2f})"
        probes = [cells.get((method, f"{graph}, {probe}")) for probe in PROBES]
        shown = [None if probe is None else probe.mean_text() for probe in probes]
        lines.append([f"{method}, {graph}", f"{value:.2f} ± {half_width:.2f}", cell.mean_text(), difference, *shown])
    return lines


def source_lines(item: dict) -> list[list[str]]:
    """Return the source of each method's settings, and how many are tried on graphs without published ones."""
    lines = []
    for method in item["paper"]:
        tried = {graph: len(alternatives(method, graph)) for graph in item["graphs"]}
        fewest, most = min(tried.values()), max(tried.values())
        by_graph = ", ".join(f"{count} on {graph}" for graph, count in tried.items() if count > 1)
        text = f"{fewest} on every graph" if 1 < fewest == most else by_graph
        lines.append([method, METHODS[method].source, text or "-"])
    return lines


def baselines_note(cells: Cells, printed: Printed, item: dict) -> str:
    """Return how many cells of the baselines are close to the printed value, and how many are above and below it."""
    found = {key: cells[key] for key in printed if key[0] != ADAPTKRY and key in cells and cells[key].has_result}
    margin = item["margin"]
    close = [is_within(cell, printed[key], margin) for key, cell in found.items()]
    above = sum(cell.mean > printed[key] + margin for key, cell in found.items())
    return (
        f"Of the {len(found)} cells of the baselines, {sum(close)} are within {margin:.1f} point of the printed value, "
        f"{above} are above it by more, and {len(found) - sum(close) - above} below it by more."
    )


def best_method(values: Mapping[str, float]) -> str:
    """Return the method with the highest value, the first of equally good ones."""
    return max(values, key=lambda method: values[method])


def rank_of(method: str, values: Mapping[str, float]) -> int:
    """Return the rank of a method, from 1 for the highest value."""
    return 1 + sum(value > values[method] for value in values.values())


def ranking(cells: Cells, item: dict) -> list[dict]:
    """Return the best methods of each graph, as printed and in our rows, and how AdaptKry compares with the best other.

    The difference is over the splits that both methods have, with its corrected interval.
    """
    found = []
    for i, graph in enumerate(item["graphs"]):
        means = {m: cells[m, graph].mean for m in item["paper"] if (m, graph) in cells and cells[m, graph].has_result}
        if ADAPTKRY not in means or len(means) < 2:
            continue
        printed = {method: values[i] for method, values in item["paper"].items()}
        other = best_method({method: mean for method, mean in means.items() if method != ADAPTKRY})
        pair = cells[ADAPTKRY, graph], cells[other, graph]
        differences = paired_differences(*pair)
        found.append({
            "graph": graph, "printed": best_method(printed), "printed_rank": rank_of(ADAPTKRY, printed),
            "ours": best_method(means), "rank": rank_of(ADAPTKRY, means), "other": other, "splits": len(differences),
            "difference": float(differences.mean()) if len(differences) else float("nan"),
            "half_width": difference_half_width(*pair),
        })  # fmt: skip
    return found


def ranking_table(ranked: Sequence[dict]) -> dict:
    """Return the table of the best methods, and of the differences of AdaptKry to the best other method."""
    columns = ["graph", "best, printed", "AdaptKry's rank, printed", "best, ours", "AdaptKry's rank, ours",
               "AdaptKry minus the best other", "splits in common"]  # fmt: skip
    lines = [
        [one["graph"], one["printed"], one["printed_rank"], one["ours"], one["rank"],
         elements.cell(f"{one['difference']:+.2f} ± {one['half_width']:.2f} ({one['other']})", one["difference"]),
         one["splits"]]
        for one in ranked
    ]  # fmt: skip
    note = (
        "mean test accuracy; points, with the 95 % interval corrected for splits that share nodes (Nadeau and Bengio)"
    )
    return elements.table("ranking", columns, lines, note=note)


def ranking_note(ranked: Sequence[dict]) -> str:
    """Return a sentence: on how many graphs AdaptKry is best, as printed and in our rows, and how clearly."""
    graphs = len(ranked)
    wins = [one for one in ranked if one["rank"] == 1]
    clear = [one["graph"] for one in wins if one["difference"] - one["half_width"] > 0]
    losses = ", ".join(f"{one['ours']} on {one['graph']}" for one in ranked if one["rank"] > 1)
    behind = f", behind {losses}" if losses else ""
    excludes = f"excludes zero on {', '.join(clear)}" if clear else "excludes zero on none of them"
    return (
        f"As printed, AdaptKry has the highest mean on {sum(one['printed_rank'] == 1 for one in ranked)} of {graphs} "
        f"graphs; in our rows on {len(wins)} of {graphs}{behind}. The corrected 95 % interval of its lead over the "
        f"best other method {excludes}. The best of {METHODS_COMPARED} methods is partly lucky: no interval is "
        "corrected for their number."
    )
