"""A recipe: every setting of a training except the graph, the splits and the seed.

A recipe is plain data. Recipes that train as one batch may differ in the settings `PER_MEMBER`; those that shape the
basis or the layers must be the same.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args, get_origin, get_type_hints

from adaptkry.common import checks
from adaptkry.common.choices import DIRECTIONS
from adaptkry.common.lookup import pick, shortened
from adaptkry.graphs.readers import LOAD_OPTIONS
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe_checks import check_settings
from adaptkry.models.stages import (
    CombineHops,
    Input,
    ResidualMLP,
    Stage,
    stage_from_dict,
)
from adaptkry.spectral.filters import PARAMETRISATIONS
from adaptkry.spectral.initial_weights import INITIAL_WEIGHTS
from adaptkry.spectral.signal_bases import ALL_BASES

LOSSES = {"multilabel": "binary", "regression": "mse"}  # the default loss of tasks other than classification
# settings of earlier commits, and their values if they were off
DELETED: dict[str, Any] = {"correct_and_smooth": 0.0, "label_hops": 0}
WEIGHT_GROUPS = ("mlp", "filter", "basis")  # each has a learning rate and a decay


def setting(
    default: Any,
    help: str,  # noqa: A002
    *,
    at_least: float | None = None,
    below: float | None = None,
    at_most: int = 10**9,
    words: Mapping[str, Any] | None = None,
) -> Any:
    """Declare a field with its help text and its range; `at_most` is for integers.

    `words` are names of values; None stands for the default or the suggested value (see `given_settings`).
    """
    limits = {"at_least": at_least, "below": below, "at_most": at_most}
    return field(default=default, metadata={"help": help, "words": words or {}, **limits})


@dataclass(frozen=True)
class Recipe:
    """Every setting of a training except the graph, the splits and the seed.

    `adaptkry.models.recipe.help_texts()` describes all fields.
    """

    method: str = setting("adaptkry", "Name of the method.")
    stages: tuple[Stage, ...] = setting((CombineHops(), ResidualMLP()), "The stages of the model, in order.")
    # the propagation matrix
    taus: tuple[float, ...] = setting((0.5,), "One or several positive numbers.")
    directions: tuple[str, ...] = setting(
        ("both",), "both, out, in, or the products out-in and in-out; one basis for each of them."
    )
    self_loops: Literal["keep", "drop", "add"] = setting(
        "keep", "Whether to keep or drop self-loops of the graph, or add one to every node."
    )
    normalisation: Literal["symmetric", "row", "column"] = setting(
        "symmetric",
        "Divide entries by the roots of both degrees, by row sums (the mean over neighbours), or by column sums.",
    )
    isolated: float = setting(1.0, "Share of its signal that a node without edges keeps at tau = 1.")
    # the basis
    basis: str = setting("krylov", "Name of the basis.")
    basis_options: tuple[tuple[str, Any], ...] = setting((), "Options of the basis, pairs of name and value.")
    degree: int = setting(10, "Number of hops K.", at_least=0, at_most=checks.MAX_DEGREE)
    tied: bool = setting(
        True, "With several taus: one weight per hop for their mean (as published), or one per hop and tau."
    )
    terms: Literal["all", "first", "last"] = setting("all", "Which terms are computed before training.")
    hop_norm: bool = setting(False, "Scale every hop to the norm of X.")
    normalise: bool = setting(False, "Divide each row of features by its sum first.")
    standardise: bool = setting(False, "Scale each feature column to mean 0 and standard deviation 1 first.")
    reduce: int = setting(
        0,
        "Number of columns to which wider features are reduced by a truncated SVD; none or 0 keeps them, auto reduces "
        "more than 8,192 columns, and terms that would not fit in memory, unless settings are published for the graph.",
        at_least=0,
        words={"auto": None, "none": 0},
    )
    structure: int = setting(
        0,
        "Number of structure columns (truncated SVD of the scaled adjacency matrix, for out and in each) appended to "
        "the features.",
        at_least=0,
    )
    # the coefficients
    combine_hops: Literal["sum", "gate", "concat", "maps"] = setting(
        "sum",
        "Add the weighted hops (sum), with weights that depend on the node (gate), or after a dense layer and ReLU of "
        "each (maps); or concatenate them (concat).",
    )
    parametrisation: str = setting(
        "free", "How coefficients are computed from weights: free, positive, even or interpolated."
    )
    initial_weights: str = setting("uniform", "Name of the initial weights of hops.")
    alpha: float = setting(0.1, "Parameter of the initial weights.")
    per_channel: bool = setting(False, "One filter per channel instead of one for all.")
    damping: float = setting(0.0, "Polynomial coefficient decomposition with this alpha; 0 is off.", at_least=0)
    # the layers
    hidden: int = setting(64, "Number of hidden units.", at_least=1, at_most=10**6)
    layers: int = setting(2, "Number of dense layers, or of graph convolutions.", at_least=1, at_most=1000)
    heads: int = setting(8, "Number of attention heads, among which hidden units are divided.", at_least=1)
    batch_norm: bool = setting(False, "Batch norm between layers.")
    layer_norm: bool = setting(False, "Layer norm between layers.")
    residual: bool = setting(
        False,
        "Graph convolutions in residual blocks with a dense layer each and norm (layer norm unless batch_norm is set).",
    )
    self_weights: bool = setting(
        False, "Graph convolutions add a dense layer of the node itself, as GraphSAGE always does."
    )
    structure_layer: bool = setting(
        False,
        "Add the normalised adjacency matrix times learned weights, a vector per node, to the output of the first "
        "dense layer.",
    )
    dtype: Literal["float32", "bfloat16"] = setting(
        "float32",
        "Type in which a GPU stores terms and activations; weights and sums have float32. bfloat16 takes half the "
        "memory and less time.",
    )
    mlp_dropout: float = setting(0.5, "Dropout rate before dense layers.", at_least=0, below=1)
    input_dropout: float = setting(0.0, "Dropout rate of the features.", at_least=0, below=1)
    filter_dropout: float = setting(
        0.0, "Dropout rate of basis terms, before the filter, or of attention.", at_least=0, below=1
    )
    # training labels as inputs
    similar_nodes: int = setting(
        0,
        "Use the training labels of this number of nodes, those with the most similar neighbours, as inputs; 0 is off.",
        at_least=0,
        at_most=1000,
    )
    # the training
    optimiser: Literal["adam", "adamw", "logistic"] = setting(
        "adam", "Gradient descent (adam, adamw), or exact logistic regression on the best of the terms (logistic)."
    )
    task: Literal["classification", "multilabel", "regression"] = setting(
        "classification", "What is predicted: a class, several labels, or numbers; it is that of the graph."
    )
    loss: Literal["cross_entropy", "binary", "mse", "mae"] = setting(
        "cross_entropy", "Training loss: binary for multilabel, mse or mae for regression."
    )
    class_weight: tuple[str, ...] = setting(
        (), "Weights of classes in the training loss: balanced, one number per class, or entries CLASS=WEIGHT."
    )
    label_smoothing: float = setting(
        0.0,
        "Share of the training target that all classes get equally, as in torch's cross_entropy.",
        at_least=0,
        below=1,
    )
    mlp_lr: float = setting(0.01, "Learning rate of dense layers.", at_least=0)
    filter_lr: float = setting(0.01, "Learning rate of filter weights.", at_least=0)
    basis_lr: float = setting(0.01, "Learning rate of a learned basis.", at_least=0)
    mlp_decay: float = setting(5e-4, "Weight decay of dense layers.", at_least=0)
    filter_decay: float = setting(0.0, "Weight decay of filter weights.", at_least=0)
    basis_decay: float = setting(0.0, "Weight decay of a learned basis.", at_least=0)
    # which epoch is kept, and when a member stops
    select: Literal["score", "loss", "last"] = setting(
        "score", "Which epoch is kept: best validation score, lowest validation loss, or the last."
    )
    ties: Literal["earlier", "later"] = setting("earlier", "Which of two equally good epochs is kept.")
    stop: Literal["patience", "mean", "never"] = setting(
        "patience",
        "When to stop: after `patience` epochs without improvement, or if validation loss is above its recent mean.",
    )
    min_epochs: int = setting(0, "Minimum number of epochs.", at_least=0)
    patience: int = setting(200, "Epochs without improvement after which a member stops.", at_least=1)
    epochs: int = setting(1000, "Maximum number of epochs.", at_least=1, at_most=10**7)

    def __post_init__(self):
        if not isinstance(self.method, str):
            raise TypeError(f"method must be a name; got {shortened(self.method)}.")
        object.__setattr__(self, "taus", checks.taus(self.taus))
        object.__setattr__(self, "stages", tuple(map(stage_from_dict, _as_tuple(self.stages, "stages"))))
        object.__setattr__(self, "directions", _as_tuple(self.directions, "directions"))
        object.__setattr__(self, "class_weight", _class_weight(self.class_weight))
        object.__setattr__(self, "basis_options", _pairs(self.basis_options))
        pick(ALL_BASES, self.basis, "basis")
        pick(PARAMETRISATIONS, self.parametrisation, "parametrisation")
        pick(INITIAL_WEIGHTS, self.initial_weights, "initial weights")
        for name, allowed in CHOICES.items():
            pick(dict.fromkeys(allowed), getattr(self, name), name)
        if not self.directions:
            raise ValueError("directions must have at least one entry; got none. Try both.")
        for direction in self.directions:
            pick(dict.fromkeys(DIRECTIONS), direction, "direction")
        for f in fields(self):
            if HINTS[f.name] in CHECKS:
                object.__setattr__(self, f.name, CHECKS[HINTS[f.name]](getattr(self, f.name), f.name, f.metadata))
        check_settings(self)

    @property
    def uses_features_only(self) -> bool:
        """Whether the features are the only precomputed term."""
        starts_with_features = self.residual or self.self_weights or any(isinstance(s, Input) for s in self.stages)
        return self.degree == 0 or self.terms == "first" or starts_with_features

    @property
    def norm(self) -> Literal["batch", "layer"] | None:
        """Which norm is between layers; residual blocks always have one."""
        if self.batch_norm:
            return "batch"
        return "layer" if self.layer_norm or self.residual else None

    @property
    def norm_count(self) -> int:
        """Number of norm layers, if there is a norm: between layers, or before every residual block and at the end."""
        return self.layers + 1 if self.residual else self.layers - 1

    @property
    def term_count(self) -> int:
        """Number of precomputed terms T."""
        if self.uses_features_only or self.terms != "all":
            return 1
        return (self.degree + 1) * len(self.directions) * (1 if self.tied else len(self.taus))

    @property
    def propagates(self) -> bool:
        """Whether the model propagates while it trains."""
        return any(stage.propagates for stage in self.stages)

    @property
    def needs_operator(self) -> bool:
        """Whether features are propagated, or labels of similar nodes are summed, after the terms were computed."""
        return self.propagates or self.similar_nodes > 0

    @property
    def is_exact(self) -> bool:
        """Whether the weights are solved for exactly instead of trained by gradient descent."""
        return self.optimiser == "logistic"

    @property
    def needs_all_nodes(self) -> bool:
        """Whether training must see all nodes at once."""
        return self.needs_operator or self.is_exact or self.structure_layer

    @property
    def mixes_taus(self) -> bool:
        """Whether members with different taus can share one basis: not if hops are scaled after they were averaged."""
        is_sum = isinstance(self.stages[0], CombineHops) and self.combine_hops == "sum"
        return self.tied and is_sum and len(self.directions) == 1 and not self.needs_operator and not self.hop_norm

    @property
    def reads_padded_columns(self) -> bool:
        """Whether the model gives the same results if the terms have more columns, which are 0."""
        kinds = [type(stage) for stage in self.stages]
        return kinds == [CombineHops, ResidualMLP] and self.combine_hops == "sum" and not self.per_channel

    @property
    def per_member(self) -> frozenset[str]:
        """Settings in which members of one batch may differ."""
        return frozenset() if self.is_exact else PER_MEMBER

    def to_dict(self) -> dict[str, Any]:
        """Return plain data, as stored in result rows and run folders."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {
            "stages": [stage.to_dict() for stage in self.stages]
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Recipe":
        """Read what `to_dict` returned, also after JSON has turned tuples into lists.

        Settings that no longer exist are left out if they were off.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"settings must be a mapping of names to values; got {shortened(data)}.")
        data = {name: value for name, value in data.items() if name not in DELETED or value != DELETED[name]}
        check_names(data, ["method"])
        return cls(**{name: value if name == "stages" else _tuples(value) for name, value in data.items()})


HINTS = get_type_hints(Recipe)
CHOICES = {name: get_args(hint) for name, hint in HINTS.items() if get_origin(hint) is Literal}
NAMED_VALUES: dict[str, Mapping[str, Any]] = {f.name: f.metadata["words"] for f in fields(Recipe)}
DROPOUT_RATES = ("mlp_dropout", "input_dropout", "filter_dropout")
OPTIMISER_SETTINGS = tuple(f"{group}_{name}" for group in WEIGHT_GROUPS for name in ("lr", "decay"))
PER_MEMBER = frozenset({*DROPOUT_RATES, *OPTIMISER_SETTINGS, "label_smoothing", "patience", "initial_weights", "alpha"})


def _number(value: Any, name: str, limits: Mapping[str, Any]) -> float:
    """Return a finite number in its range."""
    value, low, high = checks.number(value, name), limits["at_least"], limits["below"]
    if (low is not None and value < low) or (high is not None and value >= high):
        expected = f"at least {low} and below {high}" if high is not None else f"{low} or more"
        raise ValueError(f"{name} must be {expected}; got {value}.")
    return value


CHECKS: dict[Any, Callable[[Any, str, Mapping[str, Any]], Any]] = {  # by the type of a setting
    int: lambda value, name, limits: checks.count(value, name, limits["at_most"], at_least=limits["at_least"]),
    float: _number,
    bool: lambda value, name, _: checks.flag(value, name),
}


def _as_tuple(value: Any, name: str) -> tuple:
    """Return a list or another iterable as a tuple; text and mappings are one entry."""
    if isinstance(value, str | Mapping | Stage):
        return (value,)
    if not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list; got {shortened(value)}.")
    return tuple(value)


def _pairs(options: Any) -> tuple[tuple[str, Any], ...]:
    """Return the options of a basis, a mapping or pairs, as pairs of name and number."""
    pairs = tuple(options.items()) if isinstance(options, Mapping) else _as_tuple(options, "basis_options")
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2 or not isinstance(pair[0], str):
            raise ValueError(
                f"basis_options must be pairs of name and value, as in {{'a': 1.0}}; got {shortened(pair)}."
            )
        if not isinstance(pair[1], bool):
            checks.number(pair[1], f"the basis option {pair[0]}")
    return tuple((name, value) for name, value in pairs)


def _class_weight(given: Any) -> tuple[str, ...]:
    """Return weights of classes, a name, numbers or a mapping by class, as text: "balanced", "2.0" or "cat=2.0".

    >>> _class_weight({"cat": 2, "dog": 0.5}), _class_weight([2, 1]), _class_weight("balanced")
    (('cat=2', 'dog=0.5'), ('2', '1'), ('balanced',))
    """
    if given is None:
        return ()
    pairs = given.items() if isinstance(given, Mapping) else [(None, value) for value in _entries(given)]
    texts = []
    for name, value in pairs:
        is_text = isinstance(value, str) and name is None
        text = value if is_text else repr(checks.number(value, "a class weight"))
        texts.append(text if name is None else f"{name}={text}")
    for text in texts:
        if text != "balanced" or len(texts) > 1:
            _check_class_weight(text)
    named = [text.rpartition("=")[0] for text in texts if "=" in text]
    if len({*named}) < len(named):
        twice = next(name for name in named if named.count(name) > 1)
        raise ValueError(f"class_weight must have one weight per class; got {twice} twice. Keep one.")
    return tuple(texts)


def _entries(given: Any) -> tuple:
    """Return the entries of a list, a tensor or an array, or one name."""
    return _as_tuple(given.tolist() if hasattr(given, "tolist") else given, "class_weight")


def _check_class_weight(text: str) -> None:
    """Refuse an entry whose weight is not a positive number."""
    number = text.rpartition("=")[2]
    try:
        is_positive = 0 < float(number) <= checks.LARGEST_FLOAT32
    except ValueError:
        is_positive = False
    if not is_positive:
        raise ValueError(
            f"class_weight must be balanced, a positive number for each class, or entries CLASS=WEIGHT; got {text!r}. "
            "Use for example balanced."
        )


def _tuples(value: Any) -> Any:
    """Convert lists to tuples, at every level."""
    return tuple(map(_tuples, value)) if isinstance(value, (list, tuple)) else value


def recipe(method: str = "adaptkry", graph: str | None = None, **settings) -> Recipe:
    """Return a method's defaults, updated by the settings published for the graph of that name and by `settings`.

    >>> recipe("adaptkry", "squirrel", degree=4).taus
    (0.8,)
    """
    entry = pick(METHODS, method, "method")
    given = given_settings(check_names(settings))
    if given.get("task") in LOSSES:
        given = {"loss": LOSSES[given["task"]]} | given
    if entry.settings.get("degree") == 0 and given.get("degree"):
        raise ValueError(f"{method} uses no edges, so its degree must be 0; got {given['degree']}. Leave it out.")
    return replace(Recipe(method=method), **{**entry.settings, **entry.published.get(graph or "", {}), **given})


def given_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that are not None, with values for words.

    >>> given_settings({"reduce": "none", "hidden": None}), given_settings({"reduce": "auto"})
    ({'reduce': 0}, {})
    """
    values = {name: NAMED_VALUES[name].get(value, value) if isinstance(value, str) and name in NAMED_VALUES else value
              for name, value in settings.items()}  # fmt: skip
    return {name: value for name, value in values.items() if value is not None}


def check_names(settings: Mapping[str, Any], others: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return the settings; refuse names that are neither a field of `Recipe` nor one of `others`."""
    known = dict.fromkeys([*(f.name for f in fields(Recipe) if f.name != "method"), *others])
    for name in settings:
        if name in LOAD_OPTIONS and name not in known:
            raise ValueError(
                f"unknown setting {name!r}: it is an option of load. Load the graph first, "
                f"graph = ak.load(data, {name}=...), and pass the graph."
            )
        pick(known, name, "setting")
    return settings


def help_texts() -> dict[str, str]:
    """Return the description and the default of every setting."""
    return {f.name: f"{f.metadata['help']} Default: {f.default}." for f in fields(Recipe)}
