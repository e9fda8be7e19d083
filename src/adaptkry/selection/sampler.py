"""Settings to try next, proposed by Optuna's TPE sampler. The only module that imports Optuna."""

import importlib.util
import itertools
import math
import random
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from adaptkry.selection.space import Choice, Range, Space, parameters_of, to_parameters, to_settings

ScoredSettings = tuple[dict[str, Any], float | None]  # settings and their validation score; None: the trial failed


def propose(space: Space, trials: Sequence[ScoredSettings], seed: int) -> Iterator[dict[str, Any]]:
    """Return an endless iterator of settings to try after these trials.

    The study is rebuilt from the trials each time. Proposals thus depend only on the trials and the seed, and an
    interrupted search continues as if it had not been interrupted.
    """
    try:
        import optuna
        from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    except ImportError:
        raise ImportError(
            "tune needs Optuna, which is not installed. Install it with: pip install 'adaptkry[tune]'"
        ) from None

    def distribution(kind: Range | Choice) -> BaseDistribution:
        if isinstance(kind, Choice):
            return CategoricalDistribution(range(len(kind.options)))
        if isinstance(kind.low, int):
            return IntDistribution(kind.low, int(kind.high), step=int(kind.step or 1))
        return FloatDistribution(kind.low, kind.high, log=kind.log, step=kind.step)

    with warnings.catch_warnings():
        # constant_liar makes the proposals of one round differ; Optuna has called it experimental since 2.8.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=seed % 2**32, constant_liar=True)
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)  # otherwise the creation of a study is logged
    study = optuna.create_study(direction="maximize", sampler=sampler)
    optuna.logging.set_verbosity(verbosity)
    distributions = {name: distribution(kind) for name, kind in parameters_of(space).items()}
    for settings, score in trials:
        parameters = to_parameters(space, settings)
        state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
        used = {name: distributions[name] for name in parameters}
        study.add_trial(optuna.create_trial(state=state, value=score, params=parameters, distributions=used))
    return (to_settings(space, study.ask(distributions).params) for _ in itertools.repeat(None))


def has_optuna() -> bool:
    """Return whether Optuna is installed."""
    return importlib.util.find_spec("optuna") is not None


def draw_at_random(space: Space, seed: int) -> Iterator[dict[str, Any]]:
    """Return an endless iterator of settings drawn uniformly from the space, for machines without Optuna.

    >>> next(draw_at_random({"hidden": Choice((64,)), "mlp_dropout": Range(0.5, 0.5)}, seed=0))
    {'hidden': 64, 'mlp_dropout': 0.5}
    """
    generator = random.Random(seed)

    def draw(kind: Range | Choice) -> float:
        if isinstance(kind, Choice):
            return generator.randrange(len(kind.options))
        if kind.log:
            return math.exp(generator.uniform(math.log(kind.low), math.log(kind.high)))
        if kind.step or isinstance(kind.low, int):
            step = kind.step or 1
            return kind.low + step * generator.randrange(round((kind.high - kind.low) / step) + 1)
        return generator.uniform(kind.low, kind.high)

    parameters = parameters_of(space)
    return (to_settings(space, {name: draw(kind) for name, kind in parameters.items()}) for _ in itertools.repeat(None))
