"""Write the README's speed table from the newest rows of results/benchmarks.jsonl: figures are never typed.

python -m benchmarks.readme
"""

from pathlib import Path

from adaptkry import results

BEGIN, END = "<!-- speed: begin (written by `python -m benchmarks.readme`) -->\n", "<!-- speed: end -->"


def newest(rows: list[dict]) -> list[dict]:
    """The last row of each benchmark, graph and kind of device."""
    return list({(row["benchmark"], row["graph"], row["device"]): row for row in rows}.values())


def table(rows: list[dict]) -> str:
    """Markdown, one line a row."""
    lines = [
        "| graph shape | device | ours | torch CSR | SciPy | three taus / one | commit |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in newest(rows):
        if row["benchmark"] == "basis":
            times, shape = row["seconds"], row["config"]
            ours = times["adaptkry"]
            cells = [
                f"{times[k] * 1e3:,.1f} ms ({times[k] / ours:.1f}x)" if k in times else "-"
                for k in ("torch_csr", "scipy")
            ]
            name = f"{row['graph']}: {shape['nodes']:,} nodes, {shape['entries']:,} entries, d = {shape['features']:,}"
            end = f"{row['three_taus_over_one']:.2f} | {row['commit']}"
            lines.append(f"| {name} | {row['device']} | {ours * 1e3:,.1f} ms | {' | '.join(cells)} | {end} |")
    lines.append("")
    for row in newest(rows):
        if row["benchmark"] == "density_of_states":
            lines.append(
                f"The density of states of the {row['graph']} shape ({row['config']['moments']} moments, "
                f"{row['config']['probes']} probes) takes "
                f"{row['seconds']['density_of_states']:.1f} s on {row['device']}."
            )
    return "\n".join(lines) + "\n"


def main() -> None:
    """Replace what stands between the two marks."""
    page = Path("README.md")
    text = page.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    page.write_text(
        head + BEGIN + table(results.read("results/benchmarks.jsonl")) + END + rest.split(END)[1], encoding="utf-8"
    )


if __name__ == "__main__":
    main()
