from dataclasses import replace

import pytest
import torch

from adaptkry import models
from adaptkry.datasets.synthetic import csbm
from adaptkry.recipes import basis_of, recipe
from adaptkry.training import Member, Training, rows_of

GRAPH = csbm(nodes=150, phi=-0.6, information=0.7, degree=5, classes=3, seed=0)
MADE = recipe("adaptkry", degree=3, hidden=12, layers=3)
BASIS = basis_of(GRAPH, MADE)[0].double()
SPLITS = 4


def masks():
    order = torch.stack([torch.randperm(150, generator=torch.Generator().manual_seed(s)) for s in range(SPLITS)])
    blank = torch.zeros(SPLITS, 150, dtype=torch.bool)
    # of unequal sizes, so that the shorter ones are padded
    train = torch.stack([blank[s].scatter(0, order[s, : 80 + 3 * s], True) for s in range(SPLITS)])
    return {"train": train, "validation": blank.scatter(1, order[:, 100:120], True)}


COMPANY = [
    Member(0, 0, 0.01, 0.01, 5e-4, 0.0, 0.3, 0.2, 15),
    Member(1, 1, 0.05, 0.001, 0.0, 1e-3, 0.0, 0.0, 30),
    Member(2, 2, 0.02, 0.05, 1e-3, 1e-4, 0.5, 0.7, 8),
    Member(3, 3, 0.01, 0.1, 5e-4, 0.0, 0.2, 0.0, 50),
]


def train(members, *, epochs=60, batch_norm=False, combine="sum", dtype=torch.float64, **options) -> Training:
    layout = models.Layout(len(BASIS), BASIS.shape[2], 12, 3, 3, combine, batch_norm)
    made = Training(layout, BASIS.to(dtype), GRAPH.y, masks(), members, hops=4, epochs=epochs, **options)
    made.run()
    return made


@pytest.mark.parametrize(("batch_norm", "combine"), [(False, "sum"), (True, "sum"), (False, "concat")])
def test_member_alone_equals_member_in_company(batch_norm, combine):
    together = train(COMPANY, batch_norm=batch_norm, combine=combine)
    for i, member in enumerate(COMPANY):
        alone = train([member], batch_norm=batch_norm, combine=combine)
        torch.testing.assert_close(together.logits()[i], alone.logits()[0], rtol=0, atol=1e-10)
        for name in ("best_score", "best_epoch"):
            assert together.state.tensors[name][i] == alone.state.tensors[name][0]


def test_the_same_seed_gives_the_same_bits_and_another_seed_does_not():
    first, second = (train(COMPANY, dtype=torch.float32) for _ in range(2))
    assert torch.equal(first.logits(), second.logits())
    other = train([replace(member, seed=member.seed + 10) for member in COMPANY], dtype=torch.float32)
    assert not torch.equal(first.logits(), other.logits())


def test_steps_equal_torchs_adam_on_torchs_autograd():
    member = Member(1, 1, 0.05, 0.01, 1e-3, 1e-2, 0.0, 0.0, 1000)
    ours = train([member], epochs=12)
    layout, rows = ours.layout, rows_of(masks()["train"][1:2])[0][0]
    start = models.initial_weights(layout, [1], 4)
    weights = {name: w[0].double().requires_grad_() for name, w in start.items()}
    mlp = [w for name, w in weights.items() if name != "filter"]
    groups = [
        {"params": mlp, "lr": 0.05, "weight_decay": 1e-3},
        {"params": [weights["filter"]], "lr": 0.01, "weight_decay": 1e-2},
    ]
    adam, losses = torch.optim.Adam(groups), []
    for _ in range(12):
        z = torch.einsum("k,knd->nd", weights["filter"], BASIS[:, rows])
        h = torch.relu(z @ weights["dense0"])
        h = torch.relu(h @ weights["dense1"] + h)
        loss = torch.nn.functional.cross_entropy(h @ weights["dense2"], GRAPH.y[rows])
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
    for i, member in enumerate(COMPANY):
        seen = curve[~curve[:, i].isnan(), i]
        best = int(made.state.tensors["best_epoch"][i])
        assert best == int((seen == seen.max()).nonzero()[0])
        assert len(seen) in (best + member.patience + 1, 120)


def test_a_loss_that_turns_nan_stops_that_member_and_no_other():
    broken = [COMPANY[0], replace(COMPANY[1], mlp_lr=1e200), COMPANY[2]]
    made = train(broken)
    assert int(made.state.tensors["failed_epoch"][1]) >= 0
    assert made.state.tensors["failed_epoch"][[0, 2]].tolist() == [-1, -1]
    torch.testing.assert_close(made.logits()[2], train([COMPANY[2]]).logits()[0], rtol=0, atol=1e-10)


def test_one_batch_of_all_nodes_equals_full_batch():
    quiet = [replace(member, mlp_dropout=0.0, filter_dropout=0.0) for member in COMPANY]
    torch.testing.assert_close(train(quiet, batch=150).logits(), train(quiet).logits(), rtol=0, atol=1e-8)


def test_mini_batches_learn_and_do_not_depend_on_company():
    together = train(COMPANY, batch=60, epochs=30)
    alone = train(COMPANY[2:3], batch=60, epochs=30)
    torch.testing.assert_close(together.logits()[2], alone.logits()[0], rtol=0, atol=1e-10)
    assert float(together.state.tensors["best_score"].mean()) > 0.5  # chance is a third


def test_a_training_restored_halfway_ends_with_the_same_bits():
    whole = train(COMPANY, batch_norm=True)
    half = Training(whole.layout, BASIS, GRAPH.y, masks(), COMPANY, hops=4, epochs=60)
    kept = {}

    def stop(now: Training):
        if now.state.epoch == 20:
            kept.update({k: t.clone() for k, t in (now.state.tensors | now.dice_states()).items()})
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        half.run(stop)
    rest = Training(whole.layout, BASIS, GRAPH.y, masks(), COMPANY, hops=4, epochs=60)
    rest.restore(kept)
    rest.run()
    assert torch.equal(rest.logits(), whole.logits())


@pytest.mark.gpu
def test_gpu_members_alone_equal_members_in_company_and_runs_repeat():
    together, again = (train(COMPANY, device="cuda") for _ in range(2))
    assert torch.equal(together.logits(), again.logits())
    for i, member in enumerate(COMPANY):
        alone = train([member], device="cuda")
        torch.testing.assert_close(together.logits()[i], alone.logits()[0], rtol=0, atol=1e-10)


@pytest.mark.gpu
def test_gpu_dropout_kernels_give_a_member_the_same_training_alone_and_in_company_and_repeat():
    together, again = (train(COMPANY, device="cuda", dtype=torch.float32) for _ in range(2))
    assert together.on_gpu is not None
    assert torch.equal(together.logits(), again.logits())
    for i, member in enumerate(COMPANY):
        alone = train([member], device="cuda", dtype=torch.float32, epochs=5)
        early = train(COMPANY, device="cuda", dtype=torch.float32, epochs=5)
        torch.testing.assert_close(early.logits()[i], alone.logits()[0], rtol=1e-2, atol=1e-2)


@pytest.mark.gpu
def test_no_host_synchronisation_inside_an_epoch():
    made = train(COMPANY, epochs=3, device="cuda", dtype=torch.float32)
    torch.cuda.set_sync_debug_mode("error")
    try:
        made._remember(2, made._learn(3), made._validate(), made.state.tensors["waited"] + 9)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert bool(torch.isfinite(made.state.tensors["curve/loss"][2]).all())
