"""Write the README's tables from the newest rows in results/ and from paper.toml: no number is typed by hand.

python -m benchmarks.readme
"""

from pathlib import Path

import numpy as np

from adaptkry.common.rows import read, settings_of
from adaptkry.paper.published import PAPER

RIVALS = ("torch_csr", "scipy")
DIRECTED = 'direction "out", K = 4, tau = 1, hop norm'


def newest(rows: list[dict], *keys: str) -> list[dict]:
    """The last row for each combination of keys."""
    return list({tuple(row[key] for key in keys): row for row in rows}.values())


def speed(rows: list[dict]) -> list[str]:
    """Markdown lines: a table with one line per measured basis, then a sentence for each other benchmark."""
    found = newest(rows, "benchmark", "graph", "device")
    table = [
        "| graph shape | device | ours | torch CSR | SciPy | three taus / one | commit |",
        "|---|---|---|---|---|---|---|",
        *(basis_line(row) for row in found if row["benchmark"] == "basis"),
    ]
    sentences = [SENTENCES[row["benchmark"]](row) for row in found if row["benchmark"] in SENTENCES]
    return [*table, "", *sentences, *orthonormal([row for row in rows if row["benchmark"] == "orthonormal"])]


def basis_line(row: dict) -> str:
    """One line of the table: our time, and the times of the others with their ratio to ours."""
    times, shape = row["seconds"], settings_of(row)
    ours = times["adaptkry"]
    cells = [f"{times[k] * 1e3:,.1f} ms ({times[k] / ours:.2f}x)" if k in times else "-" for k in RIVALS]
    name = f"{row['graph']}: {shape['nodes']:,} nodes, {shape['entries']:,} entries, d = {shape['features']:,}"
    end = f"{row['three_taus_over_one']:.2f} | {row['commit']}"
    return f"| {name} | {row['device']} | {ours * 1e3:,.1f} ms | {' | '.join(cells)} | {end} |"


def density_sentence(row: dict) -> str:
    """How long the density of states takes."""
    settings = settings_of(row)
    return (
        f"The density of states of the {row['graph']} shape ({settings['moments']} moments, {settings['probes']} "
        f"probes) takes {row['seconds']['density_of_states']:.1f} s on {row['device']}."
    )


def ensemble_sentence(row: dict) -> str:
    """How much faster one batch is than a loop."""
    return (
        f"{settings_of(row)['epochs']} epochs of ten splits of {row['graph']} as one batch are {row['speedup']:.1f}x "
        f"as fast as a loop over splits on {row['device']} (test accuracy {100 * row['test_batched']:.1f} and "
        f"{100 * row['test_loop']:.1f} %)."
    )


SENTENCES = {"density_of_states": density_sentence, "ensemble": ensemble_sentence}


def orthonormal(rows: list[dict]) -> list[str]:
    """A sentence that compares the orthonormal basis with the Krylov basis."""
    found = newest(rows, "graph")
    if not found:
        return []
    ratios = ", ".join(f"{row['graph']} {row['device_ratio']:.2f}" for row in found)
    degree, commits = settings_of(found[-1])["degree"], ", ".join(sorted({row["commit"] for row in found}))
    return [f"An orthonormal basis of {degree} hops takes this many times as long as the Krylov basis on "
            f"{found[-1]['device']}: {ratios} (device time, commit {commits})."]  # fmt: skip


def accuracy(rows: list[dict]) -> list[str]:
    """Markdown lines, one per graph: published results, then ours with one training per split and with two."""
    lines = ["| graph | paper | published program | ours | seconds | ours, best of 2 on validation | seconds |"]
    lines += ["|---" * 7 + "|"]
    table = PAPER["table-2"]
    printed = dict(zip(table["graphs"], table["paper"]["adaptkry"], strict=True))
    last = [row for row in rows if row["commit"] == rows[-1]["commit"]]
    for direction in ("both", "out"):
        for name in table["graphs"]:
            cells = [accuracy_cell(last, name, direction, restarts) for restarts in (1, 2)]
            if all(cells):
                others = f"{printed[name]:.2f} | {PAPER['rerun'][name]:.2f}" if direction == "both" else "- | -"
                title = name if direction == "both" else f"{name}, {DIRECTED}"
                lines.append(f"| {title} | {others} | {' | '.join(cells)} |")
    where = f"{rows[-1]['device']}, commit {rows[-1]['commit']}"
    return [*lines, "", f"Mean ± standard deviation over the ten published splits, {where}."]


def accuracy_cell(rows: list[dict], name: str, direction: str, restarts: int) -> str:
    """Mean and standard deviation over the chosen trainings, and the seconds of all of them."""
    same = [
        row for row in rows
        if row["graph"] == name and settings_of(row)["directions"] == [direction] and row["restarts"] == restarts
    ]  # fmt: skip
    scores = np.array([row["test"] for row in same if row["chosen"]]) * 100
    return f"{scores.mean():.2f} ± {scores.std(ddof=1):.2f} | {same[0]['run_seconds']:.1f}" if same else ""


def replace(text: str, marker: str, lines: list[str]) -> str:
    """The text with new lines between the begin and end markers of one table."""
    begin, end = f"<!-- {marker}: begin (written by `python -m benchmarks.readme`) -->\n", f"<!-- {marker}: end -->"
    head, rest = text.split(begin)
    return head + begin + "\n".join(lines) + "\n" + end + rest.split(end)[1]


def main() -> None:
    """Write both tables."""
    page = Path("README.md")
    text = replace(page.read_text(encoding="utf-8"), "speed", speed(read("results/benchmarks.jsonl")))
    text = replace(text, "accuracy", accuracy(read("results/adaptkry.jsonl")))
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
