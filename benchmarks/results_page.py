"""Write the tables of docs/results.md from the newest rows in results/ and from paper.toml.

python -m benchmarks.results_page
"""

from pathlib import Path
from statistics import median

import numpy as np

from adaptkry.common.rows import read, settings_of
from adaptkry.paper import cells
from adaptkry.paper.items import direction, table_2
from adaptkry.paper.published import PAPER, quoted
from adaptkry.paper.tables import difference_cell
from benchmarks.pages import newest, replace_between
from benchmarks.six import SIX

ALTERNATIVES = ("torch_csr", "scipy")


def speed(rows: list[dict]) -> list[str]:
    """Return Markdown lines: a table with one line per measured basis, then a sentence for each other benchmark."""
    found = newest(rows, "benchmark", "graph", "device")
    table = [
        "| graph shape | device | ours | torch CSR | SciPy | three taus / one | commit |",
        "|---|---|---|---|---|---|---|",
        *(basis_line(row) for row in found if row["benchmark"] == "basis"),
    ]
    sentences = [SENTENCES[row["benchmark"]](row) for row in found if row["benchmark"] in SENTENCES]
    return [*table, "", *sentences, *orthonormal([row for row in rows if row["benchmark"] == "orthonormal"])]


def basis_line(row: dict) -> str:
    """Return one line of the table: our time, and the times of the alternatives with their ratio to ours."""
    times, shape = row["seconds"], settings_of(row)
    ours = times["adaptkry"]
    cells = [f"{times[k] * 1e3:,.1f} ms ({times[k] / ours:.2f}x)" if k in times else "-" for k in ALTERNATIVES]
    name = f"{row['graph']}: {shape['nodes']:,} nodes, {shape['entries']:,} entries, d = {shape['features']:,}"
    end = f"{row['three_taus_over_one']:.2f} | {row['commit']}"
    return f"| {name} | {row['device']} | {ours * 1e3:,.1f} ms | {' | '.join(cells)} | {end} |"


def overhead_sentence(row: dict) -> str:
    """Return a sentence on the time of `fit` that is not training."""
    seconds, epochs = row["seconds"], settings_of(row)["epochs"]
    return (
        f"`adaptkry fit` of {row['graph']} with {epochs} epochs takes {seconds['not training']:.1f} s besides training "
        f"({seconds['training']:.1f} s): {seconds['import']:.1f} s until everything is imported, "
        f"{seconds['load'] + seconds['basis']:.1f} s for graph and basis, {seconds['report']:.1f} s for the report "
        f"after the score ({row['device']})."
    )


def density_sentence(row: dict) -> str:
    """Return a sentence on the time of the density of states."""
    settings = settings_of(row)
    return (
        f"The density of states of the {row['graph']} shape ({settings['moments']} moments, {settings['probes']} "
        f"probes) takes {row['seconds']['density_of_states']:.1f} s on {row['device']}."
    )


def ensemble_sentence(row: dict) -> str:
    """Return a sentence on the speed of one batch compared with a loop over splits."""
    floor = f"; bare products of the same sizes take {row['share_of_floor']:.0%} of its time" * (
        "share_of_floor" in row
    )
    return (
        f"{settings_of(row)['epochs']} epochs of ten splits of {row['graph']} as one batch are {row['speedup']:.1f}x "
        f"as fast as a loop over splits on {row['device']} (test accuracy {100 * row['test_batched']:.1f} and "
        f"{100 * row['test_loop']:.1f} %){floor}."
    )


SENTENCES = {
    "density_of_states": density_sentence,
    "ensemble": ensemble_sentence,
    "fit_overhead": overhead_sentence,
}


def orthonormal(rows: list[dict]) -> list[str]:
    """Return a sentence that compares the orthonormal basis with the Krylov basis."""
    found = newest(rows, "graph")
    if not found:
        return []
    ratios = ", ".join(f"{row['graph']} {row['device_ratio']:.2f}" for row in found)
    degree, commits = settings_of(found[-1])["degree"], ", ".join(sorted({row["commit"] for row in found}))
    return [f"An orthonormal basis of {degree} hops takes this many times as long as the Krylov basis on "
            f"{found[-1]['device']}: {ratios} (device time, commit {commits})."]  # fmt: skip


VARIANTS = {"float32": ("float32", 1), "bfloat16": ("bfloat16", 1), "float32, best of 2": ("float32", 2)}


def accuracy(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per graph: quoted results, then ours in two types, and with two trainings."""
    columns = ["graph", "paper (quoted)", "authors' program (quoted)"]
    columns += [heading for variant in VARIANTS for heading in (f"ours, {variant}", "seconds")]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    table = PAPER["table-2"]
    printed = dict(zip(table["graphs"], table["paper"]["adaptkry"], strict=True))
    found = {name: newest_variant(rows, *variant) for name, variant in VARIANTS.items()}
    for name in table["graphs"]:
        cells = [accuracy_cell([row for row in of_variant if row["graph"] == name]) for of_variant in found.values()]
        lines.append(f"| {name} | {printed[name]:.2f} | {quoted(PAPER['rerun'][name])} | {' | '.join(cells)} |")
    totals = [sum(median_seconds(of_variant).values()) for of_variant in found.values()]
    lines.append(f"| all six | | | {' | '.join(f'| {total:.1f}' for total in totals)} |")
    commits = ", ".join(f"{name}: {of_variant[-1]['commit']}" for name, of_variant in found.items())
    source = f"{rows[-1]['device']}, torch {rows[-1]['torch']}, commits {commits}"
    return [*lines, "", f"Mean ± standard deviation over the ten published splits; {source}."]


def newest_variant(rows: list[dict], dtype: str, restarts: int) -> list[dict]:
    """Return the rows of the newest commit with this type and number of trainings per split."""
    selected = [
        row for row in rows
        if settings_of(row)["directions"] == ["both"] and row.get("restarts") == restarts
        and settings_of(row).get("dtype", "float32") == dtype
    ]  # fmt: skip
    return [row for row in selected if row["commit"] == selected[-1]["commit"]]


def accuracy_cell(rows: list[dict]) -> str:
    """Return mean and standard deviation over the chosen trainings, and the seconds of all trainings."""
    scores = np.array(list({row["split"]: row["test"] for row in rows if row["chosen"]}.values())) * 100
    return f"{scores.mean():.2f} ± {scores.std(ddof=1):.2f} | {median_seconds(rows)[rows[0]['graph']]:.1f}"


def median_seconds(rows: list[dict]) -> dict[str, float]:
    """Return the median time of the rounds by graph; each round has a row for every training."""
    times: dict[str, list[float]] = {}
    for row in rows:
        times.setdefault(row["graph"], []).append(row["run_seconds"])
    return {name: median(of_graph) for name, of_graph in times.items()}


def fresh(rows: list[dict]) -> list[str]:
    """Return a sentence on a machine that has not run the program before, in the order of its processes."""
    totals: dict[str, float] = {}
    for row in {(settings_of(row)["dtype"], row["graph"]): row for row in rows}.values():
        dtype = settings_of(row)["dtype"]
        totals[dtype] = totals.get(dtype, 0.0) + row["run_seconds"]
    parts = ", then ".join(f"{dtype} takes {seconds:.1f} s" for dtype, seconds in totals.items())
    return [f"On a machine that has just been started, {parts} (commit {rows[-1]['commit']})."]


def floor(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per graph and type: the time of an epoch, and what traffic and products allow."""
    lines = ["| graph | type | ms per epoch | floor (ms) | ratio | bytes | operations |", "|---" * 7 + "|"]
    found = {(row["graph"], settings_of(row)["dtype"]): row for row in rows}
    for (name, dtype), row in sorted(found.items(), key=lambda item: (item[0][1] != "float32", SIX.index(item[0][0]))):
        figures = f"{row['milliseconds']:.2f} | {row['floor_milliseconds']:.2f} | {row['times_floor']:.1f}"
        sizes = f"{row['bytes'] / 1e9:.2f} GB | {row['operations'] / 1e9:.0f} G"
        lines.append(f"| {name} | {dtype} | {figures} | {sizes} |")
    commits = ", ".join(sorted({row["commit"] for row in found.values()}))
    return [*lines, "", f"{rows[-1]['device']}, ten splits, commit {commits}."]


def ranking(rows: list[dict]) -> list[str]:
    """Return a sentence on the ranking of AdaptKry among the methods of Table 2, and one on its printed values."""
    measured, item = cells.newest(rows, quick=False), PAPER["table-2"]
    printed = table_2.printed_values(item["paper"], item["graphs"])
    ranked = table_2.ranking_note(table_2.ranking(measured, item))
    return [f"{ranked} {table_2.baselines_note(measured, printed, item)}"]


def directions(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per directed graph: the direction that validation nodes choose, and what it adds."""
    measured, item = cells.newest(rows, quick=False), PAPER["direction"]
    lines = ['| graph | direction, best on validation nodes | ours | "both" | difference |', "|---" * 5 + "|"]
    for graph in item["graphs"]:
        best = direction.chosen_direction(measured, item, graph)
        if best is not None:
            chosen = measured[best, graph]
            difference = difference_cell(chosen, measured["both", graph], "test")
            gain = "-" if difference is None or best == "both" else difference["text"]
            scores = [f"{one.mean:.2f} ± {one.numbers.std(ddof=1):.2f}" for one in (chosen, measured["both", graph])]
            lines.append(f"| {graph} | {best} | {' | '.join(scores)} | {gain} |")
    source = "the settings of `adaptkry reproduce direction`"
    return [*lines, "", f"Mean ± standard deviation; difference on the same splits ± its corrected interval; {source}."]


def calibration(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per graph and scheme: calibration errors, and coverage and size of prediction sets."""
    lines = [
        "| graph | splits | calibration error before | after | coverage of 90 % sets | classes per set | "
        "adaptive: coverage | classes per set |",
        "|---" * 8 + "|",
    ]
    found = newest(rows, "graph", "scheme")
    for row in found:
        sets = {one["kind"]: one for one in row["sets"] if one["level"] == 0.9}
        cells = [
            f"{100 * sets[kind]['coverage']:.1f} % | {sets[kind]['size']:.2f}" for kind in ("threshold", "adaptive")
        ]
        errors = f"{100 * row['error_before']:.1f} | {100 * row['error_after']:.1f}"
        lines.append(f"| {row['graph']} | {row['splits']} {row['scheme']} | {errors} | {' | '.join(cells)} |")
    last = found[-1]
    source = f"{last['epochs']} epochs at most, {last['device']}, commit {last['commit']}"
    return [*lines, "", f"Errors in points; means over the splits; {source}."]


def auto(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per development graph: `auto` on the CPU and the better of GCN and MLP."""
    lines = ["| graph | splits | auto | better baseline | difference | seconds | trials |", "|---" * 7 + "|"]
    for row in newest([row for row in rows if row["benchmark"] == "auto"], "graph", "device"):
        best, test = row["better_baseline"], row["test"]
        difference = f"{100 * row['difference']:+.2f} ± {100 * (row['half_width'] or 0):.2f}"
        lines.append(
            f"| {row['graph']} | {row['scheme']} | {100 * test['ensemble']:.2f} | {best} {100 * test[best]:.2f} | "
            f"{difference} | {row['seconds']:.0f} of {settings_of(row)['time_limit']:.0f} | {row['trials']} |"
        )
    return [*lines, "", "Test accuracy in %; difference on the same splits ± half of its 95 % interval."]


def predictor(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per measured case of the predictor."""
    lines = [
        "| graph | new nodes | hops | one node | update | again | ratio | rows that change |", "|---" * 8 + "|",
    ]  # fmt: skip
    lines += [
        f"| {row['graph']} | {row['place']} | {row['degree']} | {row['one_node_ms']:.2f} ms | "
        f"{row['update_ms']:.0f} ms | {row['recompute_ms']:.0f} ms | {row['ratio']:.1f}x | {row['rows_changed']:.0%} |"
        for row in newest(rows, "graph", "place", "degree")
    ]
    last = rows[-1]
    size = f"{last['nodes']:,} nodes, {last['columns']} columns, {last['new_nodes']} new nodes"
    return [*lines, "", f"{size}; {last['device']}, commit {last['commit']}."]


def wide(rows: list[dict]) -> list[str]:
    """Return sentences on wide sparse features: peak memory, and what the reduction costs in accuracy."""
    memory = [row for row in rows if row["benchmark"] == "wide_features_memory"][-1]
    shape, lines = settings_of(memory), []
    lines.append(
        f"{shape['nodes']:,} nodes with {shape['columns']:,} sparse columns: `fit` with {shape['splits']} splits needs "
        f"{memory['peak_bytes'] / 2**30:.2f} GiB at its peak. "
    )
    reduced = [row for row in rows if row["benchmark"] == "wide_features_reduction" and settings_of(row)["reduce"]]
    parts = [
        f"{settings_of(row)['reduce']} columns {100 * row['difference']:+.1f} ± {100 * row['half_width']:.1f}"
        for row in {settings_of(row)["reduce"]: row for row in reduced}.values()
    ]
    return [f"{lines[0]}Points of accuracy that a reduction changes on citeseer (3,703 columns): {', '.join(parts)}."]


def selection(rows: list[dict]) -> list[str]:
    """Return Markdown lines, one per graph: both ways of choosing members, on held-out validation and test nodes."""
    lines = [
        "| graph | validation nodes per split | candidates | held out: own | all splits | difference | test: own | all "
        "splits | difference |",
        "|" + "---|" * 9,
    ]
    for row in newest(rows, "graph"):
        cells = [row["graph"], f"{row['validation_nodes']:,}", str(row["candidates"])]
        for part in ("held_out", "test"):
            cells += [f"{100 * np.mean(row['scores'][way][part]):.2f}" for way in ("own", "all")]
            cells.append(f"{100 * row['difference'][part]:+.2f} ± {100 * row['half_width'][part]:.2f}")
        lines.append(f"| {' | '.join(cells)} |")
    last = rows[-1]
    return [*lines, "", f"Accuracy in %; {settings_of(last)['time_limit']:.0f} s of search; {last['device']}, commit "
            f"{last['commit']}."]  # fmt: skip


TABLES = {  # marker in the page -> the function that writes it, and its file of rows
    "speed": (speed, "benchmarks.jsonl"),
    "accuracy": (accuracy, "adaptkry.jsonl"),
    "fresh": (fresh, "fresh-machine.jsonl"),
    "floor": (floor, "epoch-floor.jsonl"),
    "direction": (directions, "direction.jsonl"),
    "ranking": (ranking, "table-2.jsonl"),
    "calibration": (calibration, "calibration.jsonl"),
    "auto": (auto, "benchmarks.jsonl"),
    "selection": (selection, "selection.jsonl"),
    "predictor": (predictor, "predictor.jsonl"),
    "wide": (wide, "wide-features.jsonl"),
}


def replace(text: str, marker: str, lines: list[str]) -> str:
    """Return the text with the lines between the begin and end markers of one table replaced."""
    begin = f"<!-- {marker}: begin (written by `python -m benchmarks.results_page`) -->\n"
    return replace_between(text, begin, f"<!-- {marker}: end -->", lines)


def main() -> None:
    """Write all tables and sentences to docs/results.md."""
    page = Path("docs/results.md")
    text = page.read_text(encoding="utf-8")
    for marker, (lines, file) in TABLES.items():
        text = replace(text, marker, lines(rows_of(Path("results") / file)))
    page.write_text(text, encoding="utf-8")


def rows_of(path: Path) -> list[dict]:
    """Read the rows of a file; those of an item under their current names."""
    item = path.stem
    return cells.read(path, item)[0] if item in PAPER else read(path)


if __name__ == "__main__":
    main()
