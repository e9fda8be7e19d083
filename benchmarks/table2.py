"""Every baseline of the paper's Table 2 on its six graphs and ten splits: published against ours.

    python -m benchmarks.table2 [--device cuda] [--quick] [--out results/table2.jsonl] [--page docs/methods.md]

Published settings where a method's own program has any for these splits; else the settings in `methods.TRIED`, all
of them trained, chosen on validation nodes. `--quick`: two splits, 20 epochs, one setting: does everything run?
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path

from adaptkry import comparison, datasets, fitting, memory, results, splits, timing, tuning
from adaptkry.recipes import recipe
from benchmarks import keep_memory
from benchmarks.methods_page import GRAPHS, PUBLISHED, write_page

# Seeds of the splits: BernNet's for the programs that share its generator, AdaptKry's for the others.
OWN_SEEDS = ("gcn", "chebnet", "gprgnn", "bernnet", "evennet", "chebnetii")


def cell(graph, method: str, device: str, quick: bool, scheme: str | None) -> list[dict]:
    """Rows of one method on one graph, each with the whole cell's time, memory and number of settings tried."""
    scheme = scheme or ("class_balanced_bernnet" if method in OWN_SEEDS else "class_balanced")
    split = splits.make(graph, scheme, 2 if quick else 10)
    made = tuning.alternatives(method, graph.info.name)
    made = [replace(recipe(method, graph.info.name), epochs=20)] if quick else made
    start = time.perf_counter()
    with memory.peak(fitting.choose_device(device)) as peak:
        run, tried = tuning.choose(graph, made, split, device=device)
    spent = time.perf_counter() - start
    extra = {
        "benchmark": "table2", "quick": quick, "method": method, "cell_seconds": spent, "settings_tried": len(tried),
        "peak_bytes": peak.bytes, "parameters": comparison.parameters(run), "cell_epochs": len(run.curves["loss"]),
    }  # fmt: skip
    return [{**row, **extra} for row in run.rows]


def main() -> None:
    """Train, print, append the rows, write the page."""
    keep_memory()
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--graphs", nargs="+", default=list(GRAPHS))
    parser.add_argument("--methods", nargs="+", default=list(PUBLISHED))
    parser.add_argument("--scheme", default=None, help="other splits than the method's own")
    parser.add_argument("--out", default="results/table2.jsonl")
    parser.add_argument("--page", default=None, help="write the page here at the end")
    asked = parser.parse_args()
    start = time.perf_counter()
    with timing.progress("cells", len(asked.graphs) * len(asked.methods)) as tick:
        for name in asked.graphs:
            graph = datasets.load(name)
            for method in asked.methods:
                try:
                    rows = cell(graph, method, asked.device, asked.quick, asked.scheme)
                except (ValueError, MemoryError, RuntimeError) as error:  # the table shows the gap
                    print(f"{name:10} {method:11} could not run: {error}", flush=True)
                    continue
                results.append(asked.out, rows)
                found = comparison.summary(comparison.test_scores(rows))
                first, target = rows[0], PUBLISHED.get(method, {}).get(name)
                about = (
                    f"{first['cell_seconds']:6.1f} s, {first['settings_tried']} settings, {first['cell_epochs']} epochs"
                )
                print(f"{name:10} {method:11} {100 * found['mean']:6.2f}  published {target}  {about}", flush=True)
                tick()
    print(f"whole table: {time.perf_counter() - start:.0f} s")
    if asked.page:
        write_page(asked.out, Path(asked.page))


if __name__ == "__main__":
    main()
