"""Two commands on one output at the same time: one of them does its work, the other is refused with a sentence."""

import itertools

import pytest

from forked_commands import contents, differences, run_command, run_together

TRIES = 50
SMALL = "--splits 2 --epochs 10 --device cpu --set hidden=8 --out out"
COMMANDS = {
    "fit": f"fit csbm {SMALL}",
    "tune": f"tune csbm --trials 2 {SMALL}",
    "auto": f"auto csbm --time 0.01s {SMALL}",
    "compare": "compare csbm --methods mlp --splits 2 --epochs 10 --device cpu --out out",
    "propagate": "propagate csbm --taus 0.5 --degree 2 --out out",
    "generate": "generate out --nodes 100 --entries 600",
}
PAIRS = list(itertools.combinations_with_replacement(COMMANDS, 2))


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The files of each command when it runs alone."""
    found = {}
    for name, command in COMMANDS.items():
        folder = tmp_path_factory.mktemp(name)
        code, _, printed = run_command(folder, command.split())
        assert code == 0, printed
        found[name] = contents(folder)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("number", range(TRIES))
def test_one_of_two_commands_wins_and_the_other_is_refused(number, alone, tmp_path):
    pair = PAIRS[number % len(PAIRS)]
    order = pair if number < len(PAIRS) else pair[::-1]
    folder = tmp_path / "both"
    folder.mkdir()
    results = run_together(folder, [COMMANDS[name].split() for name in order])
    winners = [name for name, (code, _, _) in zip(order, results, strict=True) if code == 0]
    refusals = [printed for code, _, printed in results if code]
    assert winners, refusals
    assert all(code in (0, 2) for code, _, _ in results), refusals
    assert all("Traceback" not in text and "out" in text for text in refusals)
    if pair[0] != pair[1]:  # a command may be repeated when it has finished
        assert len(winners) == 1
    assert not differences(alone[winners[0]], contents(folder))
