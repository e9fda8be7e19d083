"""Training labels as inputs (`similar_nodes`): no leakage, and everything else as without them."""

from dataclasses import replace

import pytest
import scipy.sparse
import torch

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph
from adaptkry.graphs.synthetic import csbm
from adaptkry.models import batched
from adaptkry.models.dropout import random_half
from adaptkry.models.inputs import model_inputs
from adaptkry.models.recipe import recipe
from adaptkry.models.stages import ModelShape
from adaptkry.training.batches import FullBatch
from adaptkry.training.data import training_labels, training_masks
from adaptkry.training.fit import fit
from adaptkry.training.loop import GradientDescent
from adaptkry.training.run_folder import load_run
from adaptkry.training.state import Member

assert_close = torch.testing.assert_close
GRAPH = csbm(nodes=120, phi=0.5, classes=3, seed=0)
SPLIT = splits.stratified(GRAPH.y, count=3)
RECIPE = recipe("adaptkry", degree=2, hidden=8, epochs=25, similar_nodes=8, mlp_dropout=0.3, filter_dropout=0.2)
MEMBERS = [Member(split, 10 + split, RECIPE) for split in range(3)]


def make_training(members=MEMBERS, used=RECIPE, labels=GRAPH.y, dtype=torch.float64, device="cpu") -> GradientDescent:
    inputs = model_inputs(GRAPH, used, device)
    shape = ModelShape(used, len(inputs.terms), inputs.terms.shape[2], 3)
    split_of_member = torch.tensor([member.split for member in members])
    batches = FullBatch(
        inputs.terms.to(dtype), labels, training_masks(SPLIT), split_of_member, device, inputs.operator,
        propagates_features=False,
    )  # fmt: skip
    return GradientDescent(shape, batches, members, fixed={"labels": training_labels(labels, SPLIT, members)})


def trained(members=MEMBERS, **options) -> GradientDescent:
    training = make_training(members, **options)
    training.run()
    return training


def step_logits(training: GradientDescent) -> torch.Tensor:
    """Return the logits of all training rows in the first step, without dropout: [b, m, c]."""
    (batch,) = training.batches.train(0)
    state = training._dropout(batch)
    state = replace(state, rates={name: [0.0] * len(training.members) for name in state.rates})
    parts = training.state.group("weights"), training.state.group("statistics")
    row_mask = batch.row_mask.to(batch.terms.dtype)
    return batched.logits(training.shape, *parts, batch.terms, batch.rows, row_mask, training.batches.operator, state)


def test_the_label_of_a_node_does_not_affect_its_own_logits_and_only_visible_rows_have_labels():
    before = step_logits(make_training(MEMBERS[:1]))[0]
    nodes = SPLIT.train[0].nonzero()[:, 0]
    visible = random_half(torch.tensor([10]), torch.tensor(0), GRAPH.nodes)[0][nodes]
    changed = torch.zeros(len(nodes), dtype=torch.bool)
    for position, node in enumerate(nodes.tolist()):
        flipped = GRAPH.y.clone()
        flipped[node] = (flipped[node] + 1) % 3
        differs = (step_logits(make_training(MEMBERS[:1], labels=flipped))[0] != before).any(1)
        assert not differs[position]
        changed |= differs
    assert changed[visible].any()  # labels do reach other nodes
    assert not changed[~visible].any()


def test_labels_of_validation_and_test_nodes_are_never_inputs():
    changed = torch.where(SPLIT.train[0], GRAPH.y, (GRAPH.y + 1) % 3)
    used = replace(RECIPE, select="last", stop="never")  # otherwise validation labels choose the epoch
    one, other = (trained(MEMBERS[:1], used=used, labels=labels) for labels in (GRAPH.y, changed))
    for name, weight in one.state.group("best").items():
        assert torch.equal(weight, other.state[f"best/{name}"])
    assert not torch.equal(one.state["best_score"], other.state["best_score"])


def test_labels_without_information_do_not_help_on_validation():
    generator = torch.Generator().manual_seed(0)
    edges = torch.randint(0, 600, (2, 3000), generator=generator)
    labels = torch.randint(0, 2, (600,), generator=generator)
    graph = Graph(edges, torch.randn(600, 4, generator=generator), labels)
    used = recipe("adaptkry", degree=2, hidden=16, epochs=60, similar_nodes=8, select="last", stop="never")
    run = fit(graph, used, splits.stratified(labels, count=4), device="cpu")
    assert float(run.curves["loss"][-20:].mean()) > 0.55  # log 2 = 0.69; a node that saw its own label would be fitted
    for part in ("validation", "test"):
        scores = [getattr(result, part) for result in run.results]
        assert abs(sum(scores) / 4 - 0.5) < 0.07  # 480 nodes in all: three standard errors


def test_labels_help_where_nodes_with_the_same_neighbours_have_the_same_label():
    # 100 groups of 4 nodes; the nodes of a group have the same 6 neighbours and one label; features say nothing.
    generator = torch.Generator().manual_seed(0)
    hubs = torch.rand(100, 200, generator=generator).argsort(1)[:, :6]
    edges = torch.stack([torch.arange(400).repeat_interleave(6), 400 + hubs.repeat_interleave(4, 0).flatten()])
    labels = torch.cat([torch.randint(0, 2, (100,), generator=generator).repeat_interleave(4), torch.full((200,), -1)])
    graph = Graph(edges, torch.randn(600, 2, generator=generator), labels)
    split = splits.stratified(graph.y, count=2)
    scores = [
        sum(result.test for result in fit(graph, "adaptkry", split, device="cpu", degree=1, hidden=16, epochs=60,  # type: ignore[arg-type, call-overload]
                                          similar_nodes=count).results) / 2
        for count in (0, 4)
    ]  # fmt: skip
    assert scores[0] < 0.8
    assert scores[1] > 0.9


@pytest.mark.parametrize("settings", [{}, {"batch_norm": True, "layers": 3}], ids=str)
def test_a_member_trained_separately_equals_the_same_member_in_a_batch(settings):
    used = replace(RECIPE, **settings)
    members = [replace(member, recipe=used) for member in MEMBERS]
    batch = trained(members, used=used)
    for i, member in enumerate(members):
        separate = trained([member], used=used)
        for name, weight in separate.state.group("best").items():
            assert_close(batch.state[f"best/{name}"][i], weight[0], rtol=0, atol=1e-10)


def test_a_training_restored_halfway_ends_with_the_same_bits():
    whole, half, rest = trained(), make_training(), make_training()
    checkpoint = {}

    def stop(_):
        checkpoint.update({name: t.clone() for name, t in half.checkpoint().items()})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half.run([stop])
    rest.restore(checkpoint)
    rest.run()
    assert all(torch.equal(weight, rest.state[f"best/{name}"]) for name, weight in whole.state.group("best").items())


def test_runs_are_saved_with_labels_and_predict_new_nodes(tmp_path):
    run = fit(GRAPH, RECIPE, SPLIT, device="cpu")
    predicted = run.member_probabilities(GRAPH)
    for i, result in enumerate(run.results):
        test = SPLIT.test[result.split]
        assert result.test == pytest.approx(float((predicted[i].argmax(1) == GRAPH.y)[test].float().mean()), abs=1e-6)
        assert torch.equal(run.weights["labels"][i] >= 0, SPLIT.train[i])
    assert run.parameters == sum(w[0].numel() for name, w in run.weights.items() if name != "labels")
    run.save(tmp_path / "run")
    loaded = load_run(tmp_path / "run")
    assert torch.equal(loaded.member_probabilities(GRAPH), predicted)  # type: ignore[attr-defined]
    assert torch.equal(run.only([2]).member_probabilities(GRAPH)[0], predicted[2])
    # New nodes without edges have no label, and do not change the predictions of the others.
    adjacency = scipy.sparse.block_diag([GRAPH.adjacency, scipy.sparse.csr_array((5, 5))])
    bigger = Graph.from_scipy(adjacency, torch.cat([GRAPH.x, GRAPH.x[:5]]))
    assert_close(loaded.member_probabilities(bigger)[:, : GRAPH.nodes], predicted)  # type: ignore[attr-defined]
    smaller = Graph.from_scipy(GRAPH.adjacency[:100, :100], GRAPH.x[:100])
    with pytest.raises(ValueError, match="so it needs the 120 training nodes, and possibly more; got 100 nodes"):
        run.predict(smaller)


def test_batches_are_refused():
    with pytest.raises(ValueError, match=r"similar_nodes needs all nodes at once.*got 32.*set similar_nodes to 0"):
        fit(GRAPH, RECIPE, SPLIT, device="cpu", batch_size=32)


def test_recipes_with_other_taus_are_not_mixed_because_labels_use_the_first():
    with pytest.raises(ValueError, match="must agree in taus"):
        fit(GRAPH, [RECIPE, replace(RECIPE, taus=(1.0,))], SPLIT, device="cpu")


@pytest.mark.gpu
def test_gpu_epochs_with_labels_are_recorded_and_never_wait_for_the_device():
    used = replace(RECIPE, epochs=12, batch_norm=True)
    members = [replace(member, recipe=used) for member in MEMBERS]
    training = trained(members, used=used, dtype=torch.float32, device="cuda")
    assert training.can_record
    assert bool(torch.isfinite(training.state["curve/loss"]).all())
    seeds, step = torch.arange(3), torch.tensor(5)
    assert torch.equal(random_half(seeds.cuda(), step.cuda(), 100).cpu(), random_half(seeds, step, 100))
