import gc
import weakref
from dataclasses import replace

import pytest
import torch

from adaptkry.graphs.synthetic import csbm
from adaptkry.models import batched
from adaptkry.models.dropout import DropoutState, GpuDropout
from adaptkry.models.inputs import model_inputs
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import recipe
from adaptkry.models.stages import ModelShape
from adaptkry.models.weighted_sum import terms_at_rows
from adaptkry.training import loop
from adaptkry.training.batches import FullBatch, InMemoryTerms, SlabBatches, SlabPlan, padded_rows
from adaptkry.training.cuda_graph import RecordedEpoch
from adaptkry.training.loop import GradientDescent
from adaptkry.training.losses import chunk_logits, mean_loss
from adaptkry.training.process_group import ProcessGroup
from adaptkry.training.state import Member

GRAPH = csbm(nodes=150, phi=-0.6, information=0.7, degree=5, classes=3, seed=0)
RECIPE = recipe("adaptkry", degree=3, hidden=12, layers=3)
BASIS = model_inputs(GRAPH, RECIPE).terms.double()
SPLITS = 4


def masks():
    order = torch.stack([torch.randperm(150, generator=torch.Generator().manual_seed(s)) for s in range(SPLITS)])
    blank = torch.zeros(SPLITS, 150, dtype=torch.bool)
    # of different sizes, so that the smaller ones are padded
    train = torch.stack([blank[s].scatter(0, order[s, : 80 + 3 * s], True) for s in range(SPLITS)])
    return {"train": train, "validation": blank.scatter(1, order[:, 100:120], True)}


def member(split, seed, mlp_lr, filter_lr, mlp_decay, filter_decay, mlp_dropout, filter_dropout, patience) -> Member:
    rates = dict(mlp_lr=mlp_lr, filter_lr=filter_lr, mlp_decay=mlp_decay, filter_decay=filter_decay)
    dropouts = dict(mlp_dropout=mlp_dropout, filter_dropout=filter_dropout, input_dropout=mlp_dropout)
    return Member(split, seed, replace(RECIPE, patience=patience, basis_lr=filter_lr, **rates, **dropouts))


def changed(one: Member, **changes) -> Member:
    return replace(one, recipe=replace(one.recipe, **changes))


MEMBERS = [
    member(0, 0, 0.01, 0.01, 5e-4, 0.0, 0.3, 0.2, 15),
    member(1, 1, 0.05, 0.001, 0.0, 1e-3, 0.0, 0.0, 30),
    member(2, 2, 0.02, 0.05, 1e-3, 1e-4, 0.5, 0.7, 8),
    member(3, 3, 0.01, 0.1, 5e-4, 0.0, 0.2, 0.0, 50),
]


def make_training(used, members, *, dtype=torch.float64, device="cpu", batch_size=None) -> GradientDescent:
    inputs = model_inputs(GRAPH, used, device)
    shape = ModelShape(used, len(inputs.terms), BASIS.shape[2], 3, nodes=150 if used.structure_layer else 0)
    terms = inputs.terms.to(dtype)
    data = (GRAPH.y, masks(), torch.tensor([one.split for one in members]), device)
    if batch_size:
        plan = SlabPlan(GRAPH.y >= 0, 1, batch_size)
        return GradientDescent(shape, SlabBatches(InMemoryTerms(terms), plan, *data), members)
    batches = FullBatch(terms, *data, inputs.operator, propagates_features=used.propagates)
    return GradientDescent(shape, batches, members)


def train(members, *, epochs=60, settings=None, **options) -> GradientDescent:
    training = make_training(replace(RECIPE, epochs=epochs, **(settings or {})), members, **options)
    training.run()
    return training


def logits(training: GradientDescent) -> torch.Tensor:
    """Return the logits of all nodes with the best weights: [b, n, c]."""
    batches, best = training.batches, training.state.group("best")
    parts = chunk_logits(training.shape, best, batches.chunks(), batches.operator)
    return torch.cat([part for part, _ in parts], 1)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"batch_norm": True},
        {"layer_norm": True},
        {"combine_hops": "concat"},
        {"combine_hops": "gate"},
        {"combine_hops": "maps", "layer_norm": True},
        {"per_channel": True},
        {"structure_layer": True, "batch_norm": True},
    ],
    ids=str,
)
def test_a_member_trained_separately_equals_the_same_member_in_a_batch(settings):
    batch = train(MEMBERS, settings=settings)
    for i, one in enumerate(MEMBERS):
        separate = train([one], settings=settings)
        torch.testing.assert_close(logits(batch)[i], logits(separate)[0], rtol=0, atol=1e-10)
        for name in ("best_score", "best_epoch"):
            assert batch.state[name][i] == separate.state[name][0]


@pytest.mark.parametrize("settings", [{}, {"batch_norm": True}, {"per_channel": True}], ids=str)
def test_members_computed_in_parts_equal_members_computed_together(settings, monkeypatch):
    together = train(MEMBERS, settings=settings)
    for size, parts in ((1, 4), (3 * 4 * 89 * 16, 2)):  # bytes: one member at a time, or three
        monkeypatch.setattr(batched, "PART_BYTES", size)
        rows = next(together.batches.train(0)).rows
        assert len(batched.member_parts(together.shape, rows, None)) == parts
        in_parts = train(MEMBERS, settings=settings)
        torch.testing.assert_close(logits(in_parts), logits(together), rtol=0, atol=1e-10)
        for name, statistic in together.state.group("statistics").items():
            torch.testing.assert_close(in_parts.state[f"statistics/{name}"], statistic, rtol=0, atol=1e-10)


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not():
    first, second = (train(MEMBERS, dtype=torch.float32) for _ in range(2))
    assert torch.equal(logits(first), logits(second))
    other = train([replace(one, seed=one.seed + 10) for one in MEMBERS], dtype=torch.float32)
    assert not torch.equal(logits(first), logits(other))


@pytest.mark.parametrize("optimiser", [torch.optim.Adam, torch.optim.AdamW])
def test_steps_equal_those_of_torch_optim(optimiser):
    one = member(1, 1, 0.05, 0.01, 1e-3, 1e-2, 0.0, 0.0, 1000)
    trained = train([one], epochs=12, settings={"optimiser": optimiser.__name__.lower()})
    rows = padded_rows(masks()["train"][1:2])[0][0]
    initial = batched.initial_weights(trained.shape, [(1, one.recipe)])
    weights = {name: w[0].double().requires_grad_() for name, w in initial.items()}
    mlp = [w for name, w in weights.items() if name != "filter/weights"]
    groups = [
        {"params": mlp, "lr": 0.05, "weight_decay": 1e-3},
        {"params": [weights["filter/weights"]], "lr": 0.01, "weight_decay": 1e-2},
    ]
    adam, losses = optimiser(groups), []
    for _ in range(12):
        z = torch.einsum("k,knd->nd", weights["filter/weights"], BASIS[:, rows])
        h = torch.relu(z @ weights["mlp/1/layer0"])
        h = torch.relu(h @ weights["mlp/1/layer1"] + h)
        loss = torch.nn.functional.cross_entropy(h @ weights["mlp/1/layer2"], GRAPH.y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    torch.testing.assert_close(trained.state["curve/loss"][:, 0], torch.tensor(losses), rtol=1e-6, atol=0)
    for name, w in weights.items():
        torch.testing.assert_close(trained.state[f"weights/{name}"][0], w.detach(), rtol=1e-9, atol=1e-12)


def test_the_first_epoch_with_the_highest_validation_score_is_kept_and_patience_starts_there():
    found = train(MEMBERS, epochs=120)
    curve = found.state["curve/validation"]
    for i, one in enumerate(MEMBERS):
        seen = curve[~curve[:, i].isnan(), i]
        best = int(found.state["best_epoch"][i])
        assert best == int((seen == seen.max()).nonzero()[0])
        assert len(seen) in (best + one.recipe.patience + 1, 120)


def test_a_loss_that_is_not_finite_stops_only_that_member():
    broken = [MEMBERS[0], changed(MEMBERS[1], mlp_lr=1e200), MEMBERS[2]]
    found = train(broken)
    assert int(found.state["failed_epoch"][1]) >= 0
    assert found.state["failed_epoch"][[0, 2]].tolist() == [-1, -1]
    assert not bool(found.state.running[1])
    failed = int(found.state["failed_epoch"][1])
    assert failed == int(torch.isfinite(found.state["curve/loss"][:, 1]).sum())  # the first epoch without a finite loss
    assert bool(found.state["curve/validation"][failed + 1 :, 1].isnan().all())
    torch.testing.assert_close(logits(found)[2], logits(train([MEMBERS[2]]))[0], rtol=0, atol=1e-10)


def test_one_step_over_all_nodes_equals_full_batch():
    without_dropout = [changed(one, mlp_dropout=0.0, filter_dropout=0.0) for one in MEMBERS]
    one_step, full = (train(without_dropout, batch_size=size) for size in (150, None))
    torch.testing.assert_close(logits(one_step), logits(full), rtol=0, atol=1e-8)


def test_mini_batches_learn_and_do_not_depend_on_other_members():
    batch = train(MEMBERS, batch_size=60, epochs=30)
    separate = train(MEMBERS[2:3], batch_size=60, epochs=30)
    torch.testing.assert_close(logits(batch)[2], logits(separate)[0], rtol=0, atol=1e-10)
    assert float(batch.state["best_score"].mean()) > 0.5  # a random prediction scores 1/3


@pytest.mark.parametrize(
    "settings", [{"combine_hops": "gate"}, {"combine_hops": "maps"}, {"per_channel": True}], ids=str
)
def test_mini_batches_work_with_every_way_to_combine_hops(settings):
    batch = train(MEMBERS, batch_size=60, epochs=10, settings=settings)
    separate = train(MEMBERS[2:3], batch_size=60, epochs=10, settings=settings)
    torch.testing.assert_close(logits(batch)[2], logits(separate)[0], rtol=0, atol=1e-10)
    without_dropout = [changed(one, mlp_dropout=0.0, filter_dropout=0.0) for one in MEMBERS]
    one_step, full = (train(without_dropout, batch_size=size, epochs=10, settings=settings) for size in (150, None))
    torch.testing.assert_close(logits(one_step), logits(full), rtol=0, atol=1e-8)


def test_a_training_restored_halfway_ends_with_the_same_bits():
    whole = train(MEMBERS, settings={"batch_norm": True})
    half, rest = (make_training(whole.recipe, MEMBERS) for _ in range(2))
    checkpoint = {}

    def stop(state):
        if state.epoch == 20:
            checkpoint.update({name: t.clone() for name, t in half.checkpoint().items()})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half.run([stop])
    rest.restore(checkpoint)
    rest.run()
    assert torch.equal(logits(rest), logits(whole))


@pytest.mark.parametrize("ties", ["earlier", "later"])
@pytest.mark.parametrize("select", ["score", "loss", "last"])
def test_the_epoch_is_kept_by_the_rule_of_the_recipe(select, ties):
    found = train(MEMBERS, epochs=50, settings={"select": select, "ties": ties, "stop": "never"})
    for i in range(len(MEMBERS)):
        score, loss = (found.state[f"curve/{name}"][:, i] for name in ("validation", "validation_loss"))
        assert not score.isnan().any()  # no member stopped
        value = {"score": score, "loss": -loss, "last": torch.arange(50.0)}[select]
        best = (value == value.max()).nonzero()[-1 if ties == "later" else 0]
        assert int(found.state["best_epoch"][i]) == int(best)
        assert float(found.state["best_score"][i]) == float(score[best])


@pytest.mark.parametrize("min_epochs", [0, 260])
def test_stop_by_mean_compares_with_the_last_two_hundred_validation_losses(min_epochs):
    found = train(MEMBERS, epochs=320, settings={"select": "loss", "stop": "mean", "min_epochs": min_epochs})
    stopped = 0
    for curve in found.state["curve/validation_loss"].T:
        epochs = int((~curve.isnan()).sum())
        above = [e for e in range(max(201, min_epochs), epochs) if curve[e] > curve[e - 200 : e].mean()]
        assert above in ([], [epochs - 1])  # the first epoch above the mean is the last one
        assert above or epochs == 320
        stopped += bool(above)
    assert stopped


@pytest.mark.parametrize("kind", ["binary", "cross_entropy"])
def test_mean_losses_equal_those_of_torch_over_real_rows(kind):
    generator = torch.Generator().manual_seed(0)
    scores, classes = torch.randn(2, 6, 3, generator=generator), torch.randint(0, 3, (2, 6), generator=generator)
    row_mask = torch.tensor([[1.0] * 6, [1.0] * 4 + [0.0] * 2])
    found = mean_loss(kind, scores, classes, row_mask)
    for b, rows in enumerate((6, 4)):
        real_scores, real_classes = scores[b, :rows], classes[b, :rows]
        one_hot = torch.nn.functional.one_hot(real_classes, 3).float()
        binary = torch.nn.functional.binary_cross_entropy_with_logits(real_scores, one_hot)
        expected = binary if kind == "binary" else torch.nn.functional.cross_entropy(real_scores, real_classes)
        torch.testing.assert_close(found[b], expected)


def test_label_smoothing_of_each_member_equals_that_of_torch_over_real_rows():
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 6, 4, generator=generator, dtype=torch.float64)
    classes, row_mask = torch.randint(0, 4, (3, 6), generator=generator), torch.ones(3, 6)
    classes[1, 4:], row_mask[1, 4:] = -1, 0
    smoothing = (0.0, 0.1, 0.4)
    found = mean_loss("cross_entropy", scores, classes, row_mask, torch.tensor(smoothing, dtype=torch.float64))
    for b, (rows, epsilon) in enumerate(zip((6, 4, 6), smoothing, strict=True)):
        expected = torch.nn.functional.cross_entropy(scores[b, :rows], classes[b, :rows], label_smoothing=epsilon)
        torch.testing.assert_close(found[b], expected, rtol=1e-12, atol=0)
    assert torch.equal(found[0], mean_loss("cross_entropy", scores, classes, row_mask)[0])


@pytest.mark.parametrize("batch_size", [None, 60])
def test_members_with_and_without_label_smoothing_train_as_one_batch(batch_size):
    smoothed = [
        changed(one, label_smoothing=epsilon) for one, epsilon in zip(MEMBERS, (0.0, 0.2, 0.0, 0.1), strict=True)
    ]
    batch = train(smoothed, batch_size=batch_size, epochs=8)
    for i, one in enumerate(smoothed):
        separate = train([one], batch_size=batch_size, epochs=8)
        torch.testing.assert_close(logits(batch)[i], logits(separate)[0], rtol=0, atol=1e-10)
        plain = train([changed(one, label_smoothing=0.0)], batch_size=batch_size, epochs=8)
        is_same = torch.allclose(logits(plain)[0], logits(separate)[0], rtol=0, atol=1e-10)
        assert is_same == (one.recipe.label_smoothing == 0)


def test_the_validation_loss_is_not_smoothed():
    one = changed(MEMBERS[1], label_smoothing=0.3, mlp_lr=0.0, filter_lr=0.0)  # the weights do not change
    smoothed, plain = (train([m], epochs=1) for m in (one, changed(one, label_smoothing=0.0)))
    assert torch.equal(smoothed.state["curve/validation_loss"], plain.state["curve/validation_loss"])
    assert not torch.equal(smoothed.state["curve/loss"], plain.state["curve/loss"])


@pytest.mark.gpu
def test_gpu_members_trained_separately_equal_members_in_a_batch_and_runs_are_reproducible():
    batch, again = (train(MEMBERS, device="cuda") for _ in range(2))
    assert torch.equal(logits(batch), logits(again))
    for i, one in enumerate(MEMBERS):
        separate = train([one], device="cuda")
        torch.testing.assert_close(logits(batch)[i], logits(separate)[0], rtol=0, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("method", [name for name in METHODS if name != "asgc"])
def test_gpu_every_method_can_be_recorded(method):
    used = recipe(method, hidden=8, epochs=8)
    training = make_training(used, [Member(s, s, used) for s in range(2)], dtype=torch.float32, device="cuda")
    training.run()
    assert training.can_record
    assert bool(torch.isfinite(training.state["curve/loss"]).all())


GPU_VARIANTS = [
    {"layer_norm": True, "label_smoothing": 0.1},
    {"combine_hops": "gate"},
    {"combine_hops": "maps", "layer_norm": True},
    {"per_channel": True},
    {"structure_layer": True},
]


@pytest.mark.gpu
@pytest.mark.parametrize("settings", GPU_VARIANTS, ids=str)
def test_gpu_variants_can_be_recorded_and_do_not_depend_on_other_members(settings, monkeypatch):
    monkeypatch.setattr(torch, "set_float32_matmul_precision", lambda _: None)  # TF32 can change the best epoch
    members = [changed(one, **settings) for one in MEMBERS]
    batch, again = (train(members, device="cuda", dtype=torch.float32, epochs=5, settings=settings) for _ in range(2))
    assert batch.can_record
    assert torch.equal(logits(batch), logits(again))
    for i, one in enumerate(members):
        separate = train([one], device="cuda", dtype=torch.float32, epochs=5, settings=settings)
        torch.testing.assert_close(logits(batch)[i], logits(separate)[0], rtol=1e-3, atol=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("settings", GPU_VARIANTS, ids=str)
def test_gpu_variants_equal_those_of_the_cpu(settings):
    changes = {"mlp_dropout": 0.0, "filter_dropout": 0.0, "input_dropout": 0.0} | settings
    members = [changed(one, **changes) for one in MEMBERS]
    cpu, gpu = (train(members, epochs=10, settings=settings, device=device) for device in ("cpu", "cuda"))
    torch.testing.assert_close(logits(cpu), logits(gpu), rtol=0, atol=1e-5)  # the basis is computed in float32


@pytest.mark.gpu
def test_gpu_filter_dropout_of_each_hop_has_its_own_mask_and_the_rate_of_its_member():
    basis = torch.ones(3, 500, 40, device="cuda")
    rows = torch.arange(500, device="cuda").expand(2, -1)
    rates = {"filter_dropout": [0.0, 0.75]}
    gpu = GpuDropout([0, 1], rates, "cuda")
    gpu.step = torch.zeros((), dtype=torch.long, device="cuda")
    hops = torch.stack(list(terms_at_rows(basis, rows, DropoutState([], rates, [500, 500], gpu))))  # [T, b, m, d]
    assert bool((hops[:, 0] == 1).all())
    kept = hops[:, 1] > 0
    assert bool((hops[:, 1][kept] == 4).all())
    torch.testing.assert_close(kept.float().mean((1, 2)).cpu(), torch.full((3,), 0.25), rtol=0, atol=0.02)
    assert float((kept[0] & kept[1]).float().mean()) == pytest.approx(0.0625, abs=0.01)  # independent


@pytest.mark.gpu
def test_gpu_dropout_kernels_do_not_depend_on_other_members_and_are_reproducible():
    batch, again = (train(MEMBERS, device="cuda", dtype=torch.float32) for _ in range(2))
    assert batch.gpu_dropout is not None
    assert torch.equal(logits(batch), logits(again))
    for i, one in enumerate(MEMBERS):
        separate = train([one], device="cuda", dtype=torch.float32, epochs=5)
        early = train(MEMBERS, device="cuda", dtype=torch.float32, epochs=5)
        torch.testing.assert_close(logits(early)[i], logits(separate)[0], rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_no_host_synchronisation_inside_an_epoch():
    found = train(MEMBERS, epochs=3, device="cuda", dtype=torch.float32)
    step = found.step_function()
    try:
        torch.cuda.set_sync_debug_mode("error")
        found.state["epoch"].sub_(1)  # the curves end here
        found.one_epoch(2, step)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert bool(torch.isfinite(found.state["curve/loss"][2]).all())


@pytest.mark.gpu
def test_gpu_recorded_epochs_equal_epochs_that_are_not_recorded(monkeypatch):
    recorded = train(MEMBERS, device="cuda", dtype=torch.float32)
    assert recorded.can_record
    monkeypatch.setattr(RecordedEpoch, "_record", lambda _: False)
    not_recorded = train(MEMBERS, device="cuda", dtype=torch.float32)
    for name in ("curve/loss", "curve/validation", "best_epoch"):
        assert torch.equal(recorded.state[name].nan_to_num(), not_recorded.state[name].nan_to_num())


@pytest.mark.parametrize("batch_size", [None, 60])
@pytest.mark.parametrize("select", ["score", "loss"])
def test_score_and_loss_on_validation_are_those_of_the_best_weights_without_dropout(batch_size, select):
    found = train(MEMBERS, epochs=15, batch_size=batch_size, settings={"select": select, "stop": "never"})
    outputs, validation = logits(found), masks()["validation"]
    assert any(one.recipe.mlp_dropout for one in MEMBERS)
    for i, one in enumerate(MEMBERS):
        rows, epoch = validation[one.split], int(found.state["best_epoch"][i])
        correct = (outputs[i].argmax(-1) == GRAPH.y)[rows]
        assert float(found.state["best_score"][i]) == pytest.approx(float(correct.double().mean()), abs=1e-6)
        loss = torch.nn.functional.cross_entropy(outputs[i, rows], GRAPH.y[rows])
        assert float(found.state["curve/validation_loss"][epoch, i]) == pytest.approx(float(loss), rel=1e-5)


def test_the_validation_loss_of_several_batches_is_the_mean_over_their_rows():
    found = make_training(replace(RECIPE, epochs=1), MEMBERS, batch_size=60)
    sizes = [int(batch.row_mask[0].sum()) for batch in found.batches.validation()]
    assert len(set(sizes)) > 1  # otherwise the mean over batches would be the same


def test_every_member_epoch_and_process_draws_its_own_random_numbers():
    found = make_training(RECIPE, MEMBERS, batch_size=60)
    seeds = [generator.initial_seed() for generator in found.generators]
    drawn = []
    for rank in (0, 1):
        found.group = ProcessGroup(rank, 2)
        for epoch in (0, 1):
            found._reseed(epoch)
            drawn += [generator.initial_seed() for generator in found.generators]
    assert len({*seeds, *drawn}) == 5 * len(MEMBERS)


def stopping_training(share, monkeypatch):
    monkeypatch.setattr(loop, "RUNNING_SHARE", share)
    patient = [changed(one, patience=1 + 8 * i) for i, one in enumerate(MEMBERS)]
    return make_training(replace(RECIPE, epochs=80, select="loss"), patient)


def test_members_that_stopped_are_left_out_and_the_others_do_not_notice(monkeypatch):
    monkeypatch.setattr(loop, "CHECK_EVERY", 4)
    sizes, whole = [], stopping_training(0.0, monkeypatch)
    one_epoch = GradientDescent.one_epoch
    monkeypatch.setattr(
        GradientDescent, "one_epoch", lambda part, *rest: (sizes.append(len(part.members)), one_epoch(part, *rest))
    )
    whole.run()
    assert set(sizes) == {len(MEMBERS)}
    assert len(set((~whole.state["curve/loss"].isnan()).sum(0).tolist())) > 2  # members stop at different epochs
    del sizes[:]
    found = stopping_training(0.9, monkeypatch)
    found.run()
    assert len(set(sizes)) > 2
    interrupted = stopping_training(0.9, monkeypatch)
    interrupted.run([lambda state: int(state.running.sum()) <= len(MEMBERS) // 2])
    resumed = stopping_training(0.9, monkeypatch)
    resumed.restore({name: t.clone() for name, t in interrupted.checkpoint().items()})
    resumed.run()
    for name, expected in whole.state.tensors.items():
        if name.startswith(("best", "curve/", "failed", "epoch", "running")):
            torch.testing.assert_close(found.state[name], expected, rtol=1e-9, atol=1e-12, equal_nan=True)
            assert torch.equal(resumed.state[name].nan_to_num(), found.state[name].nan_to_num()), name


def test_a_training_with_a_recorded_epoch_is_freed_at_once(monkeypatch):
    monkeypatch.setattr(GradientDescent, "can_record", True)
    monkeypatch.setattr(RecordedEpoch, "_record", lambda _: False)
    training = make_training(replace(RECIPE, epochs=3), MEMBERS)
    training.run()
    reference = weakref.ref(training)
    gc.disable()
    try:
        del training
        assert reference() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("min_epochs", [0, 35])
def test_patience_ends_no_training_before_the_minimum_number_of_epochs(min_epochs):
    impatient = [changed(one, patience=3, min_epochs=min_epochs) for one in MEMBERS]
    found = train(impatient, epochs=60, settings={"min_epochs": min_epochs})
    epochs = (~found.state["curve/validation"].isnan()).sum(0)
    assert int(epochs.min()) >= min_epochs
    assert int(epochs.min()) < max(30, min_epochs + 10)
