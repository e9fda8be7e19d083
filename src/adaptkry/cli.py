"""The command line: parse, call one library function, print."""

import json
import math
import sys
from typing import Annotated

import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from adaptkry import demo
from adaptkry.about import VERSION

app = typer.Typer(
    help="Learning with polynomial graph filters.",
    epilog="Examples:  adaptkry demo  |  adaptkry demo --phi -0.8  |  adaptkry demo --json > demo.json",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
screen = Console()


def version(asked: bool) -> None:
    """Print the version and leave."""
    if asked:
        typer.echo(f"adaptkry {VERSION}")
        raise typer.Exit


@app.callback()
def common(
    _show: Annotated[
        bool, typer.Option("--version", callback=version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Learning with polynomial graph filters."""


@app.command("demo", epilog="Examples:  adaptkry demo  |  adaptkry demo --nodes 2000 --phi -1  |  adaptkry demo --json")
def demo_command(
    nodes: Annotated[int, typer.Option(min=10, max=4000, help="Size of the built-in graph.")] = 400,
    phi: Annotated[float, typer.Option(help="-1: neighbours differ, 0: edges say nothing, 1: neighbours agree.")] = 0.6,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same graph.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print data instead of tables.")] = False,
) -> None:
    """Show on a built-in graph what tau does to the spectrum and the basis, and check the paper's theory."""
    tour = demo.tour(nodes, phi, seed)
    if as_json:
        typer.echo(json.dumps(tour, default=np.ndarray.tolist))
    else:
        print_tour(tour)


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
        verdict = "[green]holds[/green]" if check["holds"] else "[red]FAILS[/red]"
        table.add_row(f"{check['name']}\n{verdict}", check["claim"], check["measured"])
    screen.print(table)


def main() -> None:
    """Run the command; a user's mistake is one sentence and exit code 2, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, OSError) as error:
        Console(stderr=True).print(f"[red]adaptkry:[/red] {error}", markup=True, highlight=False)
        sys.exit(2)
