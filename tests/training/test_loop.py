from dataclasses import replace

import pytest
import torch

from adaptkry.graphs.synthetic import csbm
from adaptkry.models import batched as models
from adaptkry.models.methods import METHODS
from adaptkry.models.recipe import inputs_of, recipe
from adaptkry.models.stages import ModelShape
from adaptkry.training.loop import Member, Training
from adaptkry.training.losses import mean_loss, rows_of

GRAPH = csbm(nodes=150, phi=-0.6, information=0.7, degree=5, classes=3, seed=0)
MADE = recipe("adaptkry", degree=3, hidden=12, layers=3)
BASIS = inputs_of(GRAPH, MADE).terms.double()
SPLITS = 4


def masks():
    order = torch.stack([torch.randperm(150, generator=torch.Generator().manual_seed(s)) for s in range(SPLITS)])
    blank = torch.zeros(SPLITS, 150, dtype=torch.bool)
    # of unequal sizes, so that the shorter ones are padded
    train = torch.stack([blank[s].scatter(0, order[s, : 80 + 3 * s], True) for s in range(SPLITS)])
    return {"train": train, "validation": blank.scatter(1, order[:, 100:120], True)}


def member(split, seed, mlp_lr, filter_lr, mlp_decay, filter_decay, mlp_dropout, filter_dropout, patience) -> Member:
    rates = dict(mlp_lr=mlp_lr, filter_lr=filter_lr, mlp_decay=mlp_decay, filter_decay=filter_decay)
    chances = dict(mlp_dropout=mlp_dropout, filter_dropout=filter_dropout, input_dropout=mlp_dropout)
    return Member(split, seed, replace(MADE, patience=patience, basis_lr=filter_lr, **rates, **chances))


def changed(one: Member, **changes) -> Member:
    return replace(one, made=replace(one.made, **changes))


COMPANY = [
    member(0, 0, 0.01, 0.01, 5e-4, 0.0, 0.3, 0.2, 15),
    member(1, 1, 0.05, 0.001, 0.0, 1e-3, 0.0, 0.0, 30),
    member(2, 2, 0.02, 0.05, 1e-3, 1e-4, 0.5, 0.7, 8),
    member(3, 3, 0.01, 0.1, 5e-4, 0.0, 0.2, 0.0, 50),
]


def train(members, *, epochs=60, dtype=torch.float64, shape=None, **options) -> Training:
    made = replace(MADE, epochs=epochs, **(shape or {}))
    inputs = inputs_of(GRAPH, made, options.get("device", "cpu"))
    layout = ModelShape(made, len(inputs.terms), BASIS.shape[2], 3)
    training = Training(layout, inputs.terms.to(dtype), GRAPH.y, masks(), members, operator=inputs.operator, **options)
    training.run()
    return training


@pytest.mark.parametrize("shape", [{}, {"batch_norm": True}, {"combine": "concat"}], ids=str)
def test_member_alone_equals_member_in_company(shape):
    together = train(COMPANY, shape=shape)
    for i, one in enumerate(COMPANY):
        alone = train([one], shape=shape)
        torch.testing.assert_close(together.logits()[i], alone.logits()[0], rtol=0, atol=1e-10)
        for name in ("best_score", "best_epoch"):
            assert together.state.tensors[name][i] == alone.state.tensors[name][0]


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not():
    first, second = (train(COMPANY, dtype=torch.float32) for _ in range(2))
    assert torch.equal(first.logits(), second.logits())
    other = train([replace(one, seed=one.seed + 10) for one in COMPANY], dtype=torch.float32)
    assert not torch.equal(first.logits(), other.logits())


@pytest.mark.parametrize("optimiser", [torch.optim.Adam, torch.optim.AdamW])
def test_steps_equal_torchs_own_on_torchs_autograd(optimiser):
    one = member(1, 1, 0.05, 0.01, 1e-3, 1e-2, 0.0, 0.0, 1000)
    ours = train([one], epochs=12, shape={"optimiser": optimiser.__name__.lower()})
    rows = rows_of(masks()["train"][1:2])[0][0]
    start = models.initial_weights(ours.layout, [(1, one.made)])
    weights = {name: w[0].double().requires_grad_() for name, w in start.items()}
    mlp = [w for name, w in weights.items() if name != "filter"]
    groups = [
        {"params": mlp, "lr": 0.05, "weight_decay": 1e-3},
        {"params": [weights["filter"]], "lr": 0.01, "weight_decay": 1e-2},
    ]
    adam, losses = optimiser(groups), []
    for _ in range(12):
        z = torch.einsum("k,knd->nd", weights["filter"], BASIS[:, rows])
        h = torch.relu(z @ weights["dense0_1"])
        h = torch.relu(h @ weights["dense1_1"] + h)
        loss = torch.nn.functional.cross_entropy(h @ weights["dense2_1"], GRAPH.y[rows])
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    torch.testing.assert_close(ours.state.tensors["curve/loss"][:, 0], torch.tensor(losses), rtol=1e-6, atol=0)
    for name, w in weights.items():
        torch.testing.assert_close(ours.state.tensors[f"weights/{name}"][0], w.detach(), rtol=1e-9, atol=1e-12)


def test_best_weights_are_those_of_the_first_highest_validation_score_and_patience_counts_from_there():
    made = train(COMPANY, epochs=120)
    curve = made.state.tensors["curve/validation"]
    for i, one in enumerate(COMPANY):
        seen = curve[~curve[:, i].isnan(), i]
        best = int(made.state.tensors["best_epoch"][i])
        assert best == int((seen == seen.max()).nonzero()[0])
        assert len(seen) in (best + one.made.patience + 1, 120)


def test_a_loss_that_turns_nan_stops_that_member_and_no_other():
    broken = [COMPANY[0], changed(COMPANY[1], mlp_lr=1e200), COMPANY[2]]
    made = train(broken)
    assert int(made.state.tensors["failed_epoch"][1]) >= 0
    assert made.state.tensors["failed_epoch"][[0, 2]].tolist() == [-1, -1]
    torch.testing.assert_close(made.logits()[2], train([COMPANY[2]]).logits()[0], rtol=0, atol=1e-10)


def test_one_batch_of_all_nodes_equals_full_batch():
    quiet = [changed(one, mlp_dropout=0.0, filter_dropout=0.0) for one in COMPANY]
    torch.testing.assert_close(train(quiet, batch=150).logits(), train(quiet).logits(), rtol=0, atol=1e-8)


def test_mini_batches_learn_and_do_not_depend_on_company():
    together = train(COMPANY, batch=60, epochs=30)
    alone = train(COMPANY[2:3], batch=60, epochs=30)
    torch.testing.assert_close(together.logits()[2], alone.logits()[0], rtol=0, atol=1e-10)
    assert float(together.state.tensors["best_score"].mean()) > 0.5  # chance is a third


def test_a_training_restored_halfway_ends_with_the_same_bits():
    whole = train(COMPANY, shape={"batch_norm": True})
    half = Training(whole.layout, BASIS, GRAPH.y, masks(), COMPANY)
    kept = {}

    def stop(now: Training):
        if now.state.epoch == 20:
            kept.update({k: t.clone() for k, t in (now.state.tensors | now.dice_states()).items()})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half.run(stop)
    rest = Training(whole.layout, BASIS, GRAPH.y, masks(), COMPANY)
    rest.restore(kept)
    rest.run()
    assert torch.equal(rest.logits(), whole.logits())


@pytest.mark.parametrize("ties", ["earlier", "later"])
@pytest.mark.parametrize("select", ["score", "loss", "last"])
def test_the_kept_epoch_is_the_one_the_rule_names(select, ties):
    made = train(COMPANY, epochs=50, shape={"select": select, "ties": ties, "stop": "never"})
    for i in range(len(COMPANY)):
        score, loss = (made.state.tensors[f"curve/{name}"][:, i] for name in ("validation", "validation_loss"))
        assert not score.isnan().any()  # nobody stopped
        value = {"score": score, "loss": -loss, "last": torch.arange(50.0)}[select]
        best = (value == value.max()).nonzero()[-1 if ties == "later" else 0]
        assert int(made.state.tensors["best_epoch"][i]) == int(best)
        assert float(made.state.tensors["best_score"][i]) == float(score[best])


@pytest.mark.parametrize("least", [0, 260])
def test_stop_by_mean_compares_with_the_last_two_hundred_validation_losses(least):
    made = train(COMPANY, epochs=320, shape={"select": "loss", "stop": "mean", "least_epochs": least})
    stopped = 0
    for curve in made.state.tensors["curve/validation_loss"].T:
        ran = int((~curve.isnan()).sum())
        above = [e for e in range(max(201, least), ran) if curve[e] > curve[e - 200 : e].mean()]
        assert above in ([], [ran - 1])  # the first epoch above the mean is the last one
        assert above or ran == 320
        stopped += bool(above)
    assert stopped


@pytest.mark.parametrize("kind", ["binary", "cross_entropy"])
def test_mean_losses_equal_torchs_own_over_the_rows_that_count(kind):
    die = torch.Generator().manual_seed(0)
    logits, classes = torch.randn(2, 6, 3, generator=die), torch.randint(0, 3, (2, 6), generator=die)
    counted = torch.tensor([[1.0] * 6, [1.0] * 4 + [0.0] * 2])
    found = mean_loss(kind, logits, classes, counted)
    for b, rows in enumerate((6, 4)):
        own, wanted = logits[b, :rows], classes[b, :rows]
        one_hot = torch.nn.functional.one_hot(wanted, 3).float()
        binary = torch.nn.functional.binary_cross_entropy_with_logits(own, one_hot)
        exact = binary if kind == "binary" else torch.nn.functional.cross_entropy(own, wanted)
        torch.testing.assert_close(found[b], exact)


@pytest.mark.gpu
def test_gpu_members_alone_equal_members_in_company_and_runs_repeat():
    together, again = (train(COMPANY, device="cuda") for _ in range(2))
    assert torch.equal(together.logits(), again.logits())
    for i, one in enumerate(COMPANY):
        alone = train([one], device="cuda")
        torch.testing.assert_close(together.logits()[i], alone.logits()[0], rtol=0, atol=1e-10)


@pytest.mark.gpu
@pytest.mark.parametrize("method", [name for name in METHODS if name != "asgc"])
def test_gpu_every_method_can_be_recorded(method):
    made = recipe(method, hidden=8, epochs=8)
    inputs = inputs_of(GRAPH, made, "cuda")
    layout = ModelShape(made, len(inputs.terms), BASIS.shape[2], 3)
    members = [Member(s, s, made) for s in range(2)]
    training = Training(layout, inputs.terms, GRAPH.y, masks(), members, operator=inputs.operator, device="cuda")
    training.run()
    assert training.can_record
    assert bool(torch.isfinite(training.state.tensors["curve/loss"]).all())


@pytest.mark.gpu
def test_gpu_dropout_kernels_give_a_member_the_same_training_alone_and_in_company_and_repeat():
    together, again = (train(COMPANY, device="cuda", dtype=torch.float32) for _ in range(2))
    assert together.on_gpu is not None
    assert torch.equal(together.logits(), again.logits())
    for i, one in enumerate(COMPANY):
        alone = train([one], device="cuda", dtype=torch.float32, epochs=5)
        early = train(COMPANY, device="cuda", dtype=torch.float32, epochs=5)
        torch.testing.assert_close(early.logits()[i], alone.logits()[0], rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode")
def test_no_host_synchronisation_inside_an_epoch():
    made = train(COMPANY, epochs=3, device="cuda", dtype=torch.float32)
    try:
        torch.cuda.set_sync_debug_mode("error")
        made.state.tensors["epoch"].sub_(1)  # the curves end here
        made._epoch(2)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert bool(torch.isfinite(made.state.tensors["curve/loss"][2]).all())


@pytest.mark.gpu
def test_gpu_epochs_from_the_recording_equal_epochs_made_one_by_one(monkeypatch):
    recorded = train(COMPANY, device="cuda", dtype=torch.float32)
    assert recorded.can_record
    monkeypatch.setattr(Training, "_play", lambda _: False)
    by_hand = train(COMPANY, device="cuda", dtype=torch.float32)
    for name in ("curve/loss", "curve/validation", "best_epoch"):
        assert torch.equal(recorded.state.tensors[name].nan_to_num(), by_hand.state.tensors[name].nan_to_num())
