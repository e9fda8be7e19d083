"""Stages of a model: `(Input(), Dropout(), Linear("hidden"), ReLU(), Linear("classes"), SelectRows())`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from adaptkry.common.lookup import pick
from adaptkry.models.stages.base import ModelShape, Stage, StageContext, Weights
from adaptkry.models.stages.dense import Bias, Dropout, FixedNoise, Linear, LinearPerHop, ReLU
from adaptkry.models.stages.message_passing import MessagePassing
from adaptkry.models.stages.norms import initial_statistics
from adaptkry.models.stages.propagation import ARMA, BasisTerms, PolynomialFilter, Propagate, filter_weights
from adaptkry.models.stages.residual_mlp import ResidualMLP
from adaptkry.models.stages.sources import AllTerms, CombineHops, Input, SelectRows

__all__ = [
    "ARMA", "STAGES", "AllTerms", "BasisTerms", "Bias", "CombineHops", "Dropout", "FixedNoise", "Input", "Linear",
    "LinearPerHop", "MessagePassing", "ModelShape", "PolynomialFilter", "Propagate", "ReLU", "ResidualMLP",
    "SelectRows", "Stage", "StageContext", "Weights", "filter_weights", "initial_statistics", "stage_from_dict",
]  # fmt: skip

STAGES: dict[str, type[Stage]] = {
    "ARMA": ARMA,
    "AllTerms": AllTerms,
    "BasisTerms": BasisTerms,
    "Bias": Bias,
    "CombineHops": CombineHops,
    "Dropout": Dropout,
    "FixedNoise": FixedNoise,
    "Input": Input,
    "Linear": Linear,
    "LinearPerHop": LinearPerHop,
    "MessagePassing": MessagePassing,
    "PolynomialFilter": PolynomialFilter,
    "Propagate": Propagate,
    "ReLU": ReLU,
    "ResidualMLP": ResidualMLP,
    "SelectRows": SelectRows,
}


def stage_from_dict(data: Any) -> Stage:
    """Create a stage from plain data, such as a table of a TOML file.

    >>> stage_from_dict({"stage": "Linear", "size": "hidden"})
    Linear(size='hidden', bias=True, init='torch', rates='mlp')
    """
    if isinstance(data, Stage):
        return data
    if not isinstance(data, Mapping) or "stage" not in data:
        raise ValueError(f'a stage must be a table such as {{stage = "Linear", size = "hidden"}}; got {data!r}.')
    kind = pick(STAGES, data["stage"], "stage")
    try:
        return kind(**{name: value for name, value in data.items() if name != "stage"})
    except TypeError:
        given = ", ".join(f"{name}={value!r}" for name, value in data.items() if name != "stage")
        expected = ", ".join(field.name for field in fields(kind)) or "no arguments"
        raise ValueError(f"the stage {data['stage']} takes {expected}; got {given or 'nothing'}.") from None
