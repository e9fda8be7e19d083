"""What the commands show: tables and bars for a terminal, warnings, and the pages that they name."""

import math
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from adaptkry.graphs.splits import Splits
from adaptkry.report import demo
from adaptkry.report.comparison_report import comparison_cells
from adaptkry.report.elements import cell_text
from adaptkry.selection import trial as trials
from adaptkry.training.run import Run

screen = Console()
Json = Annotated[bool, typer.Option("--json", help="Print data for a script instead of text.")]


def print_inspection(found: dict) -> None:
    """What was found about a graph, as text."""
    screen.print(f"[bold]{escape(found['graph'])}[/bold]", highlight=False, soft_wrap=True)
    for name, value in found["facts"].items():
        screen.print(f"  {name:34} {value}", highlight=False, soft_wrap=True)
    print_density(found["density"])
    for text in found["warnings"]:
        screen.print(f"[yellow]warning:[/yellow] {escape(text)}", highlight=False, soft_wrap=True)


def print_contest(rows: list[dict]) -> None:
    """One line a method, one column a graph, and the files that were written."""
    table = Table("method", "what it is", title="Test accuracy (%), mean ± std of five splits, built-in graphs")
    graphs = list(dict.fromkeys(row["graph"] for row in rows))
    for graph in graphs:
        table.add_column(graph, justify="right")
    for method, what in demo.DEMO_METHODS.items():
        own = [row for row in rows if row["method"] == method]
        table.add_row(method, what, *(f"{100 * row['mean']:.1f} ± {100 * row['std']:.1f}" for row in own))
    screen.print(table)
    typer.echo("Nobody told adaptkry which graph it had. Pictures of what it learned, each in its run folder:")
    for row in rows:
        if row["method"] == "adaptkry":
            typer.echo(f"  {row['picture']}")


def print_tour(tour: dict) -> None:
    """The demo as tables."""
    screen.print(f"[bold]{tour['graph']}[/bold]")
    screen.print("homophily: " + ", ".join(f"{name} {value:.3f}" for name, value in tour["homophily"].items()))
    table = Table(title="What tau does to P_tau and its Krylov basis")
    for heading in ("tau", "spectrum", "lambda*", "hops until mixed", "angle hop 0-1", "hop 4-5", "hop 9-10"):
        table.add_column(heading, justify="right")
    for row in tour["taus"]:
        bound = "never" if math.isinf(row["mixing_bound"]) else f"{row['mixing_bound']:.1f}"
        ends = f"{row['lowest']:.3f} .. {row['highest']:.3f}"
        turns = [f"{row['angles'][hop]:.1f}°" for hop in (0, 4, 9)]
        table.add_row(f"{row['tau']:g}", ends, f"{row['lambda_star']:.4f}", bound, *turns)
    screen.print(table)
    print_density(tour["density"])
    print_checks(tour["theory"])


def print_density(density: dict) -> None:
    """Density of states of P_1 as a row of bars."""
    mass = np.asarray(density["mass"])
    bars = "".join(" ▁▂▃▄▅▆▇█"[round(8 * share)] for share in np.clip(mass / mass.max(), 0, 1))
    low, high = density["edges"][0], density["edges"][-1]
    screen.print(f"density of states of P_1 (kernel polynomial method):  {low:.2f} [cyan]{bars}[/cyan] {high:.2f}\n")


def print_checks(checks: list[dict]) -> None:
    """The paper's claims, one a row."""
    table = Table(title="The paper's theory on this graph (docs/theory.md explains the errata)", show_lines=True)
    for heading in ("", "claim", "measured"):
        table.add_column(heading)
    for check in checks:
        applies = not check["note"].startswith("does not apply")
        verdict = "[green]holds[/green]" if check["holds"] else "[red]FAILS[/red]"
        verdict = verdict if applies else "[yellow]does not apply[/yellow]"
        table.add_row(f"{check['name']}\n{verdict}", check["claim"], check["measured"])
    screen.print(table)


def print_comparison(entries: list[dict], metric: str) -> None:
    """The leaderboard, best first; methods that could not run at the end with the reason."""
    table = Table(title=f"Test {metric} (%), the same splits for all")
    measured = ["mean ± std", "to the best", "seconds"]
    measured += ["95 % interval", "parameters", "peak MiB", "tried"] if screen.width >= 110 else []
    for heading in ("method", *measured):
        table.add_column(heading, justify="left" if heading == "method" else "right", no_wrap=True)
    for one in entries:
        cells = comparison_cells(one)
        table.add_row(*(cell_text(cells[heading]) for heading in ("method", *measured)))
    screen.print(table)
    typer.echo("to the best: mean difference split by split, with its 95 % interval")
    if "tried" in measured:
        typer.echo("tried: settings that validation chose from")
    else:
        typer.echo("in the report, or on 110 columns: 95 % interval, parameters, peak memory, settings tried")
    for one in entries:
        if one["failed"]:
            screen.print(f"{one['method']} could not run: {escape(one['failed'])}", highlight=False, soft_wrap=True)


def print_reproduction(done: dict, missing: dict[str, str], replaced: list[str], failed: list[str]) -> None:
    """One line an item, then what is missing and what failed."""
    for name, one in done.items():
        gaps = f", without {', '.join(one.missing)}" if one.missing else ""
        screen.print(f"{name}: {one.rows} rows{gaps}", highlight=False)
    for why in missing.values():
        screen.print(f"missing: {why}", style="yellow", highlight=False)
    if replaced:
        screen.print(f"not at hand, a built-in graph in its place: {', '.join(replaced)}", style="yellow")
    for text in failed:
        screen.print(f"failed: {text}", style="red", highlight=False)


def print_tuned(run: Run, rows: list[dict]) -> None:
    """The best settings of a search, their scores, and which of the two scores to quote."""
    best = trials.best(rows)
    failed = sum(row["state"] == "failed" for row in rows)
    typer.echo(f"best of {len(rows)} trials{f' ({failed} failed)' if failed else ''}: trial {best['trial']}")
    for name in varied(rows):
        typer.echo(f"  {name:14} {words(best['settings'][name])}")
    typer.echo(f"validation {best['metric']} {100 * best['validation']:.2f} % (mean over {best['splits']} splits)")
    typer.echo(run.summary(warnings=False))
    typer.echo(f"note: {run.about['warnings'][-1]}")


def varied(rows: list[dict]) -> list[str]:
    """The settings in which trials differ."""
    return [name for name, value in rows[0]["settings"].items() if any(row["settings"][name] != value for row in rows)]


def words(value) -> str:
    """A setting as one reads it."""
    return ", ".join(map(words, value)) if isinstance(value, (list, tuple)) else str(value)


def warn(split: Splits, standardised: bool | None) -> None:
    """What one should know before a training."""
    if standardised:
        typer.echo("feature columns are standardised (--set standardise=false leaves them as they are)", err=True)
    for text in split.warnings:
        typer.echo(f"warning: {text}", err=True)
