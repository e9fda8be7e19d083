"""The door to Optuna: given the trials so far, what to try next."""

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from adaptkry.selection.space import Choice, Range, Space, dials_at, dials_of, settings_at

Told = tuple[dict[str, Any], float | None]  # settings and their validation score; None: they could not be trained


def proposals(space: Space, told: Sequence[Told], seed: int) -> Iterator[dict[str, Any]]:
    """Settings without end that Optuna's TPE sampler would try after these trials.

    The study is built anew from the trials every time. So what comes next depends on them and the seed alone, and a
    search that was killed goes on as if it had not been.
    """
    try:
        import optuna
        from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    except ImportError:
        raise ImportError("tune needs Optuna, which is not installed: pip install 'adaptkry[tune]'") from None

    def distribution(dial: Range | Choice) -> BaseDistribution:
        if isinstance(dial, Choice):
            return CategoricalDistribution(range(len(dial.options)))
        if isinstance(dial.low, int):
            return IntDistribution(dial.low, int(dial.high), step=int(dial.step or 1))
        return FloatDistribution(dial.low, dial.high, log=dial.log, step=dial.step)

    with warnings.catch_warnings():
        # With a liar the proposals of one round keep away from each other; Optuna has called it experimental since 2.8.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed % 2**32, constant_liar=True)
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # a study says that it was made
    study = optuna.create_study(direction="maximize", sampler=sampler)
    optuna.logging.set_verbosity(before)
    dials = {name: distribution(dial) for name, dial in dials_of(space).items()}
    for settings, score in told:
        stand = dials_at(space, settings)
        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        own = {name: dials[name] for name in stand}
        study.add_trial(optuna.create_trial(state=state, value=score, params=stand, distributions=own))
    return (settings_at(space, study.ask(dials).params) for _ in iter(int, 1))
