"""Output of the commands: tables and bars for a terminal, and warnings."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from adaptkry.cli.options import log

if TYPE_CHECKING:
    from adaptkry.graphs.splits import Splits
    from adaptkry.models.recipe import Recipe
    from adaptkry.selection.auto_result import AutoResult
    from adaptkry.selection.comparison_table import ComparisonTable
    from adaptkry.training.data import TrainingData
    from adaptkry.training.ensemble import Ensemble
    from adaptkry.training.run import Run


def show(text: str, **style) -> None:
    """Print to stdout with Rich; numbers are not highlighted."""
    Console().print(text, highlight=False, soft_wrap=True, **style)


def size_of(folder: Path) -> int:
    """Bytes of the files in a folder."""
    return sum(path.stat().st_size for path in folder.iterdir() if path.is_file())


def print_datasets(rows: Sequence[dict]) -> None:
    """Print one line per graph."""
    columns = ("name", "nodes", "features", "classes", "homophily", "metric", "found")
    table = Table(*(Column(name, no_wrap=name != "found") for name in columns))
    for row in rows:
        table.add_row(*("" if row.get(name) is None else str(row[name]) for name in columns))
    Console().print(table)


def print_inspection(found: dict) -> None:
    """Print properties, density of states, suggested settings and warnings of a graph."""
    show(f"[bold]{escape(found['graph'])}[/bold]")
    for name, value in found["facts"].items():
        show(f"  {name:34} {escape(str(value))}")
    print_density(found["density"])
    use = "`adaptkry fit` uses the published ones" if found["published"] else "`adaptkry fit` uses them"
    show(f"settings suggested for adaptkry on this graph ({use}):")
    for reason in found["suggested"]:
        settings = "; ".join(f"{name} {as_text(value)}" for name, value in reason["settings"].items())
        show(f"  {escape(settings or 'no setting')}\n    {escape(reason['why'])}")
    for text in found["warnings"]:
        show(f"[yellow]warning:[/yellow] {escape(text)}")


def print_demo(rows: Sequence[dict]) -> None:
    """Print one line per method, one column per graph, and the pictures that were written."""
    table = Table("method", "description", title="Test accuracy (%), mean ± std of five splits, built-in graphs")
    for graph in dict.fromkeys(row["graph"] for row in rows):
        table.add_column(graph, justify="right")
    for method, description in dict.fromkeys((row["method"], row["what"]) for row in rows):
        scores = [f"{100 * row['mean']:.1f} ± {100 * row['std']:.1f}" for row in rows if row["method"] == method]
        table.add_row(method, description, *scores)
    Console().print(table)
    typer.echo("adaptkry learns from the data whether neighbours agree. Pictures of the learned filters:")
    for row in rows:
        if row["method"] == "adaptkry":
            typer.echo(f"  {row['picture']}")


def print_tour(tour: dict) -> None:
    """Print tables of how tau changes the spectrum and of the checks of the paper's theory."""
    show(f"[bold]{escape(tour['graph'])}[/bold]")
    show("homophily: " + ", ".join(f"{name} {value:.3f}" for name, value in tour["homophily"].items()))
    table = Table(title="P_tau and its Krylov basis for several values of tau")
    for heading in ("tau", "spectrum", "lambda*", "hops until mixed", "angle hop 0-1", "hop 4-5", "hop 9-10"):
        table.add_column(heading, justify="right")
    for row in tour["taus"]:
        bound = "never" if math.isinf(row["mixing_bound"]) else f"{row['mixing_bound']:.1f}"
        ends = f"{row['lowest']:.3f} .. {row['highest']:.3f}"
        angles = [f"{row['angles'][hop]:.1f}°" for hop in (0, 4, 9)]
        table.add_row(f"{row['tau']:g}", ends, f"{row['lambda_star']:.4f}", bound, *angles)
    Console().print(table)
    print_density(tour["density"])
    print_checks(tour["theory"])


def print_density(density: dict) -> None:
    """Print the density of states of P_1 as a row of bars."""
    highest = max(density["mass"])
    bars = "".join(" ▁▂▃▄▅▆▇█"[round(8 * max(0.0, float(mass / highest)))] for mass in density["mass"])
    low, high = density["edges"][0], density["edges"][-1]
    show(f"density of states of P_1 (kernel polynomial method):  {low:.2f} [cyan]{bars}[/cyan] {high:.2f}\n")


def print_checks(checks: Sequence[dict]) -> None:
    """Print the paper's claims, one per row, with what was measured."""
    table = Table(title="The paper's theory on this graph (docs/theory.md explains the errata)", show_lines=True)
    for heading in ("", "claim", "measured"):
        table.add_column(heading)
    for check in checks:
        verdict = "[green]holds[/green]" if check["holds"] else "[red]FAILS[/red]"
        if check["note"].startswith("does not apply"):
            verdict = "[yellow]does not apply[/yellow]"
        table.add_row(f"{check['name']}\n{verdict}", escape(check["claim"]), escape(check["measured"]))
    Console().print(table)


def print_comparison(entries: Sequence[dict], metric: str, splits: "Splits", graph: str = "") -> None:
    """Print the methods, best first; then the methods that could not run, with the reason."""
    from adaptkry.report.comparison_report import best_method, comparison_cells
    from adaptkry.report.elements import cell_text

    console = Console()
    on = f" on {graph}" if graph else ""
    table = Table(title=escape(f"Test {metric} (%){on}, the same {splits.label} for all"))
    measured = ["mean ± std", "to the best", "seconds"]
    is_wide = console.width >= 110
    measured += ["95 % interval", "parameters", "peak MiB", "tried"] if is_wide else []
    for heading in ("method", *measured):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for entry in entries:
        cells = comparison_cells(entry)
        table.add_row(*(escape(cell_text(cells[heading])) for heading in ("method", *measured)))
    console.print(table)
    ranked = [entry for entry in entries if entry["mean"] is not None]
    typer.echo(best_method(ranked, metric))
    for name in ranked[0]["scores"] if ranked else ():
        if name != metric:
            means = (f"{entry['method']} {100 * entry['scores'][name]['mean']:.2f}" for entry in ranked)
            typer.echo(f"test {name} (%): {', '.join(means)}")
    typer.echo("to the best: mean difference to the best method over the splits, with its corrected 95 % interval")
    if is_wide:
        typer.echo("tried: number of settings that were compared on validation nodes")
    else:
        typer.echo("a terminal of 110 columns, or the report, also shows 95 % interval, parameters, peak memory, tried")
    for entry in entries:
        if entry["failed"]:
            show(f"{entry['method']} could not run: {escape(entry['failed'])}")


def print_comparison_table(found: "ComparisonTable") -> None:
    """Print one line per method, one column per graph, and what the marks mean."""
    first, *others = found.columns()
    table = Table(Column(first, no_wrap=True), *(Column(escape(name), justify="right") for name in others))
    for row in found.rows(markup):
        table.add_row(*row)
    Console().print(table)
    typer.echo(found.note())


def markup(mean: str, width: str, is_best: bool, mark: str) -> str:
    """Return a cell of the table of a comparison, the best in bold."""
    text = f"{mean} ± {width}" if width else mean
    return " ".join(part for part in (f"[bold]{text}[/bold]" if is_best else text, mark) if part)


def print_reproduction(outcomes: dict, missing: dict[str, str], replaced: list[str], failed: list[str]) -> None:
    """Print one line per item, then what is missing and what failed."""
    for name, outcome in outcomes.items():
        suffix = f", without {', '.join(outcome.missing)}" if outcome.missing else ""
        show(f"{name}: {outcome.rows} rows{suffix}")
    for reason in missing.values():
        show(escape(f"missing: {reason}"), style="yellow")
    if replaced:
        show(f"not available, replaced by a built-in graph: {', '.join(replaced)}", style="yellow")
    for text in failed:
        show(escape(f"failed: {text}"), style="red")


def print_tuned(run: "Run", rows: Sequence[dict]) -> None:
    """Print the best settings of a search, their scores, and a note about which score to quote."""
    from adaptkry.selection.trial import best_trial
    from adaptkry.training.run import mean_text

    best = best_trial(rows)
    failed = sum(row["state"] == "failed" for row in rows)
    typer.echo(f"best of {len(rows)} trials{f' ({failed} failed)' if failed else ''}: trial {best['trial']}")
    for name, value in rows[0]["settings"].items():
        if any(row["settings"][name] != value for row in rows):
            typer.echo(f"  {name:14} {as_text(best['settings'][name])}")
    validation = mean_text([best["validation"]], best["metric"], best["settings"]["task"])
    typer.echo(f"validation {best['metric']} {validation} (mean over {best['splits']} splits)")
    typer.echo(run.summary(warnings=False))
    typer.echo(f"note: {run.info.warnings[-1]}")


def print_auto(result: "AutoResult") -> None:
    """Print the score of an ensemble, what the edges contribute, and what mattered."""
    from adaptkry.report.auto_report import about_edges, what_mattered

    trials = len(result.trials)
    failed = sum(trial["state"] == "failed" for trial in result.trials)
    typer.echo(result.ensemble.summary(warnings=False))
    typer.echo(about_edges(result))
    lines = what_mattered(result.effects)
    if lines:
        typer.echo("what mattered, in points on validation nodes (best value; the second best with its difference):")
    for line in lines:
        typer.echo(f"  {line}")
    typer.echo(f"{trials} trials{f' ({failed} failed)' if failed else ''}, {result.seconds:.0f} s")


def as_text(value) -> str:
    """A setting as text.

    >>> as_text((0.5, 1.0)), as_text(64)
    ('0.5, 1.0', '64')
    """
    return ", ".join(map(as_text, value)) if isinstance(value, (list, tuple)) else str(value)


def log_suggested(data: "TrainingData", recipe: "Recipe", given: Mapping[str, Any]) -> None:
    """Log in one line how the suggested settings differ from the defaults of the method."""
    from adaptkry.models.recipe import recipe as recipe_of
    from adaptkry.training.data import GraphData

    if not isinstance(data, GraphData):
        return
    if data.graph.features is None and recipe.structure:
        log.info(f"{data.name} has no features: degrees and {recipe.structure} columns of its edges are used instead")
    if not data.has_suggested(recipe.method):
        return
    defaults = recipe_of(recipe.method, **given).to_dict()
    changed = {name: value for name, value in recipe.to_dict().items() if value != defaults[name]}
    if changed:
        settings = "; ".join(f"{name} {as_text(value)}" for name, value in changed.items())
        log.info(f"settings suggested for this graph: {settings}. `adaptkry inspect GRAPH` gives the reasons")


def warn(splits: "Splits") -> None:
    """Log what a user should know about the splits before a training."""
    for text in splits.warnings:
        log.warning(text)


def warn_if_worse_than_mean(run: "Run | Ensemble") -> None:
    """Log a warning if the mean test r2 of a regression is negative: always predicting the mean has about 0."""
    from adaptkry.common.tables import number_text

    if run.task != "regression":
        return
    rows = [run.results[i] for i in run.chosen]
    found = [((row.test_scores or {}) | {run.info.metric: row.test}).get("r2") for row in rows]
    scores = [score for score in found if score is not None]
    mean = sum(scores) / max(len(scores), 1)
    if mean < 0:
        log.warning(
            f"predictions are worse than always predicting the mean (r2 {number_text(mean)}); train longer "
            "(--epochs), or use other settings"
        )
