"""Write the README's tables from the newest rows in results/: figures are never typed.

python -m benchmarks.readme
"""

from pathlib import Path

import numpy as np

from adaptkry.common.rows import read

# Other people's figures: the paper's Table 2; the authors' program run again on an H200, row-normalised features.
PAPER = {"cora": 89.95, "citeseer": 83.78, "pubmed": 92.05, "actor": 42.70, "chameleon": 74.53, "squirrel": 63.31}
RERUN = {"cora": 89.06, "citeseer": 82.24, "pubmed": 91.07, "actor": 40.61, "chameleon": 74.00, "squirrel": 62.66}


def newest(rows: list[dict], *keys: str) -> list[dict]:
    """The last row for each combination of keys."""
    return list({tuple(row[key] for key in keys): row for row in rows}.values())


def speed(rows: list[dict]) -> list[str]:
    """Markdown, one line a basis benchmark, and a sentence for each other one."""
    head = "| graph shape | device | ours | torch CSR | SciPy | three taus / one | commit |"
    lines, rest = [head, "|---|---|---|---|---|---|---|"], [""]
    for row in newest(rows, "benchmark", "graph", "device"):
        times, config = row["seconds"], row["config"]
        if row["benchmark"] == "basis":
            ours = times["adaptkry"]
            rivals = ("torch_csr", "scipy")
            cells = [f"{times[k] * 1e3:,.1f} ms ({times[k] / ours:.2f}x)" if k in times else "-" for k in rivals]
            name = (
                f"{row['graph']}: {config['nodes']:,} nodes, {config['entries']:,} entries, d = {config['features']:,}"
            )
            end = f"{row['three_taus_over_one']:.2f} | {row['commit']}"
            lines.append(f"| {name} | {row['device']} | {ours * 1e3:,.1f} ms | {' | '.join(cells)} | {end} |")
        if row["benchmark"] == "density_of_states":
            spent = f"{times['density_of_states']:.1f} s on {row['device']}"
            probes = f"{config['moments']} moments, {config['probes']} probes"
            rest.append(f"The density of states of the {row['graph']} shape ({probes}) takes {spent}.")
        if row["benchmark"] == "ensemble":
            rest.append(
                f"{config['epochs']} epochs of ten splits of {row['graph']} as one batch are {row['speedup']:.1f}x as "
                f"fast "
                f"as a loop over splits on {row['device']} (test accuracy {100 * row['test_batched']:.1f} and "
                f"{100 * row['test_loop']:.1f} %)."
            )
    return lines + rest + orthonormal([row for row in rows if row["benchmark"] == "orthonormal"])


def orthonormal(rows: list[dict]) -> list[str]:
    """A sentence: the orthonormal basis against the Krylov basis."""
    found = newest(rows, "graph")
    if not found:
        return []
    each = ", ".join(f"{row['graph']} {row['device_ratio']:.2f}" for row in found)
    hops, commits = found[-1]["config"]["degree"], ", ".join(sorted({row["commit"] for row in found}))
    device = found[-1]["device"]
    return [f"An orthonormal basis of {hops} hops costs, in times of the Krylov basis, on {device}: {each} "
            f"(device time, commit {commits})."]  # fmt: skip


def accuracy(rows: list[dict]) -> list[str]:
    """Markdown, one line a graph: other people's figures, then ours: one training a split, and the best of two."""
    lines = ["| graph | paper | published program | ours | seconds | ours, best of 2 on validation | seconds |"]
    lines += ["|---" * 7 + "|"]
    newest_rows = [row for row in rows if row["commit"] == rows[-1]["commit"]]
    for direction in ("both", "out"):
        for name in PAPER:
            cells = [accuracy_cell(newest_rows, name, direction, restarts) for restarts in (1, 2)]
            if all(cells):
                others = f"{PAPER[name]:.2f} | {RERUN[name]:.2f}" if direction == "both" else "- | -"
                title = name if direction == "both" else f'{name}, direction "out", K = 4, tau = 1, hop norm'
                lines.append(f"| {title} | {others} | {' | '.join(cells)} |")
    where = f"{rows[-1]['device']}, commit {rows[-1]['commit']}"
    return [*lines, "", f"Mean ± standard deviation over the ten published splits, {where}."]


def accuracy_cell(rows: list[dict], name: str, direction: str, restarts: int) -> str:
    """Mean and standard deviation of the trainings that count, and the seconds of all of them."""
    own = [
        row for row in rows
        if row["graph"] == name and row["config"]["directions"] == [direction] and row["restarts"] == restarts
    ]  # fmt: skip
    scores = np.array([row["test"] for row in own if row["chosen"]]) * 100
    return f"{scores.mean():.2f} ± {scores.std(ddof=1):.2f} | {own[0]['run_seconds']:.1f}" if own else ""


def replace(text: str, mark: str, lines: list[str]) -> str:
    """Put lines between the begin and end marks of one table."""
    begin, end = f"<!-- {mark}: begin (written by `python -m benchmarks.readme`) -->\n", f"<!-- {mark}: end -->"
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
