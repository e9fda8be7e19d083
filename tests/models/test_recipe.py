import json

import pytest
import torch

from adaptkry.graphs.synthetic import csbm
from adaptkry.models import batched
from adaptkry.models.inputs import model_inputs, scaled_features
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import HINTS, Recipe, help_texts, recipe
from adaptkry.models.stages import CombineHops, ModelShape, Stage
from adaptkry.spectral.bases import krylov, stack
from adaptkry.spectral.propagation_matrix import Propagation

GRAPH = csbm(nodes=60, seed=0)


def test_given_settings_override_those_published_for_a_graph():
    found = recipe("adaptkry", "cora", hidden=32)
    assert (found.taus, found.layers, found.hidden, found.normalise) == ((0.5, 0.8, 1.1), 3, 32, True)
    assert recipe("adaptkry", "no-such-graph") == Recipe()


def test_tied_taus_are_averaged_and_untied_taus_are_concatenated():
    x = GRAPH.x
    bases = [stack(krylov(Propagation(GRAPH, tau), x, 3)).transpose(0, 1) for tau in (0.5, 1.2)]
    tied = model_inputs(GRAPH, Recipe(taus=(0.5, 1.2), degree=3)).terms
    untied = model_inputs(GRAPH, Recipe(taus=(0.5, 1.2), degree=3, tied=False)).terms
    torch.testing.assert_close(tied, (bases[0] + bases[1]) / 2)
    torch.testing.assert_close(untied, torch.cat(bases))


def test_hop_normalisation_scales_every_hop_to_the_norm_of_x_and_returns_the_scale():
    plain = model_inputs(GRAPH, Recipe(degree=4)).terms
    found = model_inputs(GRAPH, Recipe(degree=4, hop_norm=True))
    terms, scale = found.terms, found.hop_scale
    torch.testing.assert_close(torch.stack([hop.norm() for hop in terms]), GRAPH.x.norm().expand(5))
    torch.testing.assert_close(terms, plain * scale[:, None, None])


def test_normalised_rows_sum_to_at_most_one():
    graph = csbm(nodes=60, seed=0)
    graph.features.abs_()
    rows = scaled_features(graph, Recipe(normalise=True)).sum(1)
    assert float(rows.max()) <= 1 + 1e-6


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "adaptcry"}, "Did you mean 'adaptkry'"),
        ({"mlp_rate": 1}, "unknown setting 'mlp_rate'"),
        ({"mlp_dropout": 1.0}, "at least 0 and below 1; got 1.0"),
        ({"degree": -1}, "degree must be 0 or more"),
        ({"method": "mlp", "degree": 4}, "mlp uses no edges"),
        ({"taus": (0.0,)}, "tau must be positive and finite"),
        ({"directions": ("up",)}, "unknown direction"),
        ({"method": "gat", "directions": ("out-in",)}, "directions must be both, out or in; got out-in"),
        ({"basis": "chebichev"}, "Did you mean 'chebyshev'"),
        ({"layers": 0}, "layers must be 1 or more"),
        ({"structure_layer": True, "layers": 1}, "with 2 layers or more; got adaptkry with layers 1"),
        ({"method": "gcn", "structure_layer": True}, "do not propagate while they train, such as adaptkry"),
        ({"structure_layer": True, "similar_nodes": 1}, "needs another matrix than similar_nodes"),
        ({"method": "sgc", "structure_layer": True}, "is for methods that end with ResidualMLP"),
        ({"combine_hops": "add"}, "unknown combine_hops"),
    ],
)
def test_bad_settings_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        recipe(**changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"damping": 0.5}, "damping is for methods that filter"),
        (
            {"per_channel": True, "combine_hops": "concat"},
            "per_channel is for .*; got adaptkry with combine_hops concat",
        ),
        ({"per_channel": True, "combine_hops": "gate"}, "per_channel is for .*; got adaptkry with combine_hops gate"),
        ({"method": "asgc", "per_channel": True}, "per_channel is for"),
        ({"method": "sign", "per_channel": True}, "per_channel is for .*; got sign"),
        (
            {"method": "gprgnn", "combine_hops": "maps"},
            "combine_hops is for methods that combine hops.*; got maps for gprgnn",
        ),
        (
            {"method": "asgc", "combine_hops": "gate"},
            "combine_hops is for methods that combine hops.*; got gate for asgc",
        ),
        ({"combine_hops": "gate", "degree": 0}, "a gate needs several hops; got degree 0"),
        ({"combine_hops": "gate", "terms": "last"}, "a gate needs several hops; .* terms last"),
        ({"basis": "favard"}, "favard is learned, so it needs a method that filters"),
        ({"basis": "gaussian"}, "high and low"),
        ({"optimiser": "logistic"}, "one linear layer"),
        ({"terms": "first"}, "terms must be all or last"),
        ({"mlp_lr": -1.0}, "mlp_lr must be 0 or more"),
        ({"filter_decay": float("nan")}, "filter_decay must be finite; got nan"),
        ({"min_epochs": -5}, "min_epochs"),
        ({"batch_norm": True, "layer_norm": True}, "one of batch_norm and layer_norm"),
        ({"method": "arma", "layer_norm": True}, "layer_norm is for methods with the stage ResidualMLP.*; got arma"),
        ({"label_smoothing": 1.0}, "label_smoothing must be at least 0 and below 1; got 1.0"),
        ({"label_smoothing": 0.1, "loss": "binary"}, "label_smoothing is for .*; got the loss binary"),
        ({"method": "asgc", "label_smoothing": 0.1}, "label_smoothing is for .*; got the optimiser logistic"),
    ],
    ids=str,
)
def test_settings_that_do_not_fit_the_method_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        recipe(**changes)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ([], "stages must begin with Input, CombineHops or another source; got no stage"),
        ([{"stage": "ReLU"}], "stages must begin with Input, CombineHops or another source; got ReLU"),
        ([{"stage": "CombineHops"}, {"stage": "foo"}], "unknown stage 'foo'"),
        ([{"stage": "Linear", "units": 3}], "the stage Linear takes size, bias, init, rates; got units=3"),
        (["combine", "mlp"], "a stage must be a table such as .*; got 'combine'"),
    ],
    ids=str,
)
def test_invalid_stages_are_refused(stages, message):
    with pytest.raises(ValueError, match=message):
        Recipe(stages=stages)


def test_a_model_must_end_with_one_column_per_class():
    shape = ModelShape(Recipe(stages=(CombineHops(),)), 11, 16, 2)
    with pytest.raises(ValueError, match="must end with 2 columns, one per class; got 16 after the stages CombineHops"):
        batched.initial_weights(shape, [(0, shape.recipe)])


def test_a_recipe_is_unchanged_after_json():
    for method in METHODS:
        used = recipe(method, "cora")
        assert Recipe.from_dict(json.loads(json.dumps(used.to_dict()))) == used


def test_every_setting_has_a_help_text():
    assert help_texts().keys() == HINTS.keys()
    assert help_texts()["degree"] == "Number of hops K. Default: 10."


def test_a_stage_must_compute_something():
    with pytest.raises(TypeError, match="abstract"):
        Stage()  # type: ignore[abstract]


def test_taus_that_differ_do_not_share_a_basis_if_hops_are_scaled():
    assert Recipe().mixes_taus
    assert not Recipe(hop_norm=True).mixes_taus


def test_settings_that_were_deleted_are_read_if_they_were_off():
    saved = recipe("mlp").to_dict()
    assert Recipe.from_dict(saved | {"correct_and_smooth": 0.0}) == recipe("mlp")
    with pytest.raises(ValueError, match="unknown setting 'correct_and_smooth'"):
        Recipe.from_dict(saved | {"correct_and_smooth": 0.8})
