"""Checks of recipes: settings that have no effect on a method's stages, or that would fail later, are refused."""

from typing import TYPE_CHECKING

from adaptkry.common.choices import MIXED_DIRECTIONS
from adaptkry.common.lookup import pick
from adaptkry.models.stages import CombineHops, Linear, MessagePassing, PolynomialFilter, ResidualMLP
from adaptkry.spectral.signal_bases import ALL_BASES

if TYPE_CHECKING:
    from adaptkry.models.recipe import Recipe


def check_settings(recipe: "Recipe") -> None:
    """Raise an error if some settings do not fit together."""
    check_stages(recipe)
    check_hops(recipe)
    check_basis(recipe)
    check_norms(recipe)
    check_dtype(recipe)
    check_structure(recipe)
    check_labels(recipe)
    check_convolutions(recipe)
    check_task(recipe)


def check_stages(recipe: "Recipe") -> None:
    """Check the order of the stages, and that the optimiser can solve for them."""
    if not recipe.stages or not recipe.stages[0].is_source:
        given = type(recipe.stages[0]).__name__ if recipe.stages else "no stage"
        raise ValueError(
            f"stages must begin with Input, CombineHops or another source; got {given}. Put Input() first."
        )
    if recipe.is_exact and recipe.stages != (CombineHops(), Linear("classes")):
        raise ValueError(
            f"the optimiser logistic solves for one linear layer only; got {recipe.method}, which has other layers. "
            "Use asgc."
        )
    check_order(recipe)
    if recipe.terms == "first" and any(isinstance(stage, CombineHops) for stage in recipe.stages):
        raise ValueError(f"{recipe.method} combines hops, so terms must be all or last; got first. Use mlp instead.")


def check_order(recipe: "Recipe") -> None:
    """Check that the rows of each member are selected once, after all stages that need the signal at all nodes."""
    names = ", ".join(type(stage).__name__ for stage in recipe.stages)
    is_selected = False
    for stage in recipe.stages:
        needs_nodes = stage.selects_rows or stage.propagates or (stage.is_source and stage is not recipe.stages[0])
        if is_selected and needs_nodes:
            raise ValueError(
                f"{type(stage).__name__} needs the signal at all nodes, so no stage before it may select rows, as "
                f"CombineHops, LinearPerHop and SelectRows do; got the stages {names}. Change their order."
            )
        is_selected |= stage.selects_rows
    if not is_selected:
        raise ValueError(
            f"a model must select the rows of each member; got the stages {names}. Add SelectRows() after the last "
            "stage that propagates."
        )


def check_hops(recipe: "Recipe") -> None:
    """Check how the weights of hops are learned."""
    has_filter = any(isinstance(stage, PolynomialFilter) for stage in recipe.stages)
    combines_hops = isinstance(recipe.stages[0], CombineHops)
    if recipe.damping > 0 and not has_filter:
        raise ValueError(
            f"damping is for methods that filter while they train, such as jacobiconv; got {recipe.method}. "
            "Leave it out."
        )
    if recipe.per_channel and not (
        has_filter or (combines_hops and recipe.combine_hops == "sum" and not recipe.is_exact)
    ):
        given = f"{recipe.method} with combine_hops {recipe.combine_hops}" if combines_hops else recipe.method
        raise ValueError(
            f"per_channel is for methods that learn the weights of a sum of hops; got {given}. Leave it out."
        )
    if recipe.combine_hops != "sum" and (not combines_hops or recipe.is_exact):
        raise ValueError(
            f"combine_hops is for methods that combine hops and train by gradient descent, such as adaptkry; got "
            f"{recipe.combine_hops} for {recipe.method}. Leave it out."
        )
    if recipe.combine_hops == "gate" and recipe.term_count == 1:
        raise ValueError(
            f"a gate needs several hops; got degree {recipe.degree} and terms {recipe.terms}. Use combine_hops sum."
        )


def check_basis(recipe: "Recipe") -> None:
    """Check that the method can use the basis, and that the basis has the options it needs."""
    has_filter = any(isinstance(stage, PolynomialFilter) for stage in recipe.stages)
    basis = ALL_BASES[recipe.basis]
    if basis.learned and not has_filter:
        raise ValueError(
            f"the basis {recipe.basis} is learned, so it needs a method that filters while it trains; got "
            f"{recipe.method}. Use for example favardgnn."
        )
    for name, _ in recipe.basis_options if basis.known_options is not None else ():
        pick(dict.fromkeys(basis.known_options or ()), name, f"option of the basis {recipe.basis}")
    missing = set(basis.required_options) - {name for name, _ in recipe.basis_options}
    if missing:
        raise ValueError(
            f"the basis {recipe.basis} needs the options {' and '.join(basis.required_options)}; "
            f"got {dict(recipe.basis_options) or 'none'}. Set basis_options, or use a method that has them."
        )


def check_norms(recipe: "Recipe") -> None:
    """Check that there are layers to normalise, and one kind of norm only."""
    has_norm = any(isinstance(stage, ResidualMLP | MessagePassing) for stage in recipe.stages)
    if recipe.layer_norm and not has_norm:
        raise ValueError(
            f"layer_norm is for methods with the stage ResidualMLP, such as adaptkry, or MessagePassing, such as "
            f"gcn; got {recipe.method}. Leave it out."
        )
    if recipe.layer_norm and recipe.batch_norm:
        raise ValueError("one of batch_norm and layer_norm can be true; got both. Set one of them to false.")


def check_dtype(recipe: "Recipe") -> None:
    """Check that the model can store bfloat16."""
    if recipe.dtype == "bfloat16" and not recipe.reads_padded_columns:
        combines_hops = isinstance(recipe.stages[0], CombineHops)
        given = f"{recipe.method} with combine_hops {recipe.combine_hops}" if combines_hops else recipe.method
        raise ValueError(
            f"dtype bfloat16 is for methods that sum hops, one weight each, and then apply dense layers, such as "
            f"adaptkry with combine_hops sum; got {given}. Leave it out."
        )


def check_structure(recipe: "Recipe") -> None:
    """Check that a structure layer has a dense layer to be added to, and the matrix to itself."""
    is_structured = isinstance(recipe.stages[-1], ResidualMLP) and not recipe.propagates and recipe.layers > 1
    if recipe.structure_layer and not is_structured:
        raise ValueError(
            "structure_layer is for methods that end with ResidualMLP and do not propagate while they train, such "
            f"as adaptkry, with 2 layers or more; got {recipe.method} with layers {recipe.layers}. Leave it out."
        )
    if recipe.structure_layer and recipe.similar_nodes:
        raise ValueError(
            "structure_layer needs another matrix than similar_nodes, and a model has one; got both. Leave one out."
        )


def check_labels(recipe: "Recipe") -> None:
    """Check the settings that use training labels in other ways than as targets of the loss."""
    if recipe.label_smoothing and (recipe.loss != "cross_entropy" or recipe.is_exact):
        given = "the optimiser logistic" if recipe.is_exact else f"the loss {recipe.loss}"
        raise ValueError(f"label_smoothing is for the loss cross_entropy and adam or adamw; got {given}. Leave it out.")
    has_mlp = any(isinstance(stage, ResidualMLP) for stage in recipe.stages)
    if recipe.similar_nodes and (recipe.propagates or not has_mlp):
        raise ValueError(
            f"similar_nodes is for methods with the layers of adaptkry, which compute their basis before training; "
            f"got {recipe.method}. Leave it out, or use adaptkry."
        )


TASK_LOSSES = {
    "classification": ("cross_entropy", "binary"),
    "multilabel": ("binary",),
    "regression": ("mse", "mae"),
}


def check_task(recipe: "Recipe") -> None:
    """Check that loss and settings are those of the task."""
    if recipe.loss not in TASK_LOSSES[recipe.task]:
        raise ValueError(
            f"the loss of the task {recipe.task} must be {' or '.join(TASK_LOSSES[recipe.task])}; got {recipe.loss}. "
            "Leave it out."
        )
    if recipe.class_weight and recipe.is_exact:
        raise ValueError(
            f"class_weight is for methods that train by gradient descent; got {recipe.method}. Leave it out."
        )
    if recipe.task == "classification":
        return
    if recipe.is_exact:
        raise ValueError(
            f"{recipe.method} solves a logistic regression of classes; got the task {recipe.task}. Use another method, "
            "such as adaptkry or gcn."
        )
    for name in ("class_weight", "similar_nodes"):
        if getattr(recipe, name):
            raise ValueError(
                f"{name} is for the task classification, whose labels are classes; got the task {recipe.task}. Leave "
                "it out."
            )


def check_convolutions(recipe: "Recipe") -> None:
    """Check the settings of graph convolutions."""
    kinds = [stage.kind for stage in recipe.stages if isinstance(stage, MessagePassing)]
    for name, is_set in (("residual", recipe.residual), ("self_weights", recipe.self_weights)):
        if is_set and not kinds:
            raise ValueError(
                f"{name} is for methods with graph convolutions, such as gcn; got {recipe.method}. Leave it out."
            )
    if recipe.self_weights and "sage" in kinds:
        raise ValueError("self_weights is for gcn and gat, since sage always has them; got sage. Leave it out.")
    if "gat" in kinds and (recipe.layers > 1 or recipe.residual) and recipe.hidden % recipe.heads:
        raise ValueError(
            f"hidden must be a multiple of heads; got hidden {recipe.hidden} and heads {recipe.heads}. Use for example "
            f"hidden {-(-recipe.hidden // recipe.heads) * recipe.heads}."
        )
    mixed = [direction for direction in recipe.directions if direction in MIXED_DIRECTIONS]
    if "gat" in kinds and mixed:
        raise ValueError(
            f"{recipe.method} learns weights of edges, so directions must be both, out or in; got {mixed[0]}, which "
            "is a product of two matrices. Choose one of those."
        )
