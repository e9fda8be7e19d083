"""Options: one spelling each, help with examples, and the names that the library knows."""

import pytest
from typer.main import get_command

from adaptkry.cli.app import COMMANDS, app
from adaptkry.common import choices
from adaptkry.paper import ITEM_NAMES

NAMES = [module.__name__.rpartition(".")[2] for module in COMMANDS]


def options() -> dict[str, dict[str, str]]:
    """Command -> option -> help text."""
    commands = get_command(app).commands  # type: ignore[attr-defined]
    return {
        name: {spelling: parameter.help for parameter in one.params for spelling in parameter.opts if "-" in spelling}
        for name, one in commands.items()
    }


def test_names_in_help_texts_are_those_of_the_library():
    from adaptkry.graphs.splits import SPLITS
    from adaptkry.outofcore.basis_folder import DISK_DTYPES
    from adaptkry.outofcore.executors import EXECUTOR_FUNCTIONS
    from adaptkry.paper.reproduce import ITEMS
    from adaptkry.training.calibration import SET_SCORES

    assert tuple(SPLITS) == choices.SCHEMES
    assert tuple(SET_SCORES) == choices.SET_KINDS
    assert tuple(DISK_DTYPES) == choices.STORED_DTYPES
    assert tuple(EXECUTOR_FUNCTIONS) == choices.EXECUTORS
    assert tuple(ITEMS) == ITEM_NAMES


def test_every_command_has_examples_and_json(command):
    assert "Examples:" in command("--help").out
    for name, given in options().items():
        assert "--json" in given
        assert f"adaptkry {name}" in command(name, "--help").out.partition("Examples:")[2]


def test_one_option_has_one_spelling_and_one_meaning():
    found = options()
    assert set(found) == set(NAMES)
    used = {option for given in found.values() for option in given}
    assert not used & {"--tau", "--direction", "--batch", "--engine", "--method-names", "--graph"}
    for option in ("--taus", "--directions", "--split", "--device", "--data-root", "--set", "--json"):
        assert len({given[option] for given in found.values() if option in given}) == 1, option


@pytest.mark.parametrize("option", ["--tau", "--direction", "--batch"])
def test_the_error_for_an_old_spelling_suggests_the_new_one(option, command):
    printed = command("fit", "csbm", option, "1", code=2).err
    assert f"No such option: {option}" in printed
    assert f"{option}s" in printed or f"{option}-size" in printed


def test_help_distinguishes_the_scheme_of_splits_from_their_number(command):
    text = " ".join(command("fit", "--help").out.replace("│", " ").split())
    for words in ("Scheme that divides nodes", "Number of splits of that scheme", "ten published", "--data-root"):
        assert words in text
