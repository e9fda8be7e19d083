"""Greedy ensemble selection: equal to a brute-force search in NumPy, and blind to test nodes."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from adaptkry.graphs.splits import stratified
from adaptkry.graphs.synthetic import csbm
from adaptkry.models.recipe import recipe
from adaptkry.selection import ensemble_selection
from adaptkry.selection.ensemble_selection import (
    bagged_shares,
    bags_of,
    greedy_counts,
    greedy_shares,
    selection_rows,
    selection_seconds,
)
from adaptkry.training.data import GraphData
from adaptkry.training.ensemble import combine_runs
from adaptkry.training.fit import fit

GRAPH = csbm(nodes=120, phi=-0.4, information=0.4, seed=0)
SPLITS = stratified(GRAPH.y, count=2)


def brute_force(probabilities: np.ndarray, classes: np.ndarray, metric: str, rounds: int) -> list[int]:
    """Greedy selection in plain Python: every candidate in every round, the earliest best ensemble."""
    k = len(probabilities)
    chosen: list[int] = []
    path = []
    for _ in range(rounds):
        values = []
        for i in range(k):
            mean = np.mean([probabilities[j] for j in [*chosen, i]], axis=0)
            right = mean[np.arange(len(classes)), classes]
            score = (mean.argmax(1) == classes).mean() if metric == "accuracy" else roc_auc_score(classes, mean[:, 1])
            values.append((round(score, 9), np.log(np.maximum(right, 1e-12)).mean()))
        winner = max(range(k), key=lambda i: values[i])
        chosen.append(winner)
        path.append((values[winner], list(chosen)))
    best_score = max(score for (score, _), _ in path)
    best = None
    for (score, likelihood), members in path:  # the latest that is clearly more likely among those of the best score
        if score == best_score and (best is None or likelihood > best[0] + 1e-6):
            best = (likelihood, members)
    assert best is not None
    return [best[1].count(i) for i in range(k)]


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
@pytest.mark.parametrize("seed", range(5))
def test_greedy_selection_equals_brute_force(metric, seed):
    random = np.random.default_rng(seed)
    classes = random.integers(0, 2, 30)
    signal = random.normal(size=(6, 30, 2))
    signal[:, np.arange(30), classes] += random.uniform(0, 1, (6, 1))
    probabilities = np.exp(signal) / np.exp(signal).sum(-1, keepdims=True)
    counts = greedy_counts(torch.from_numpy(probabilities), torch.from_numpy(classes), metric, rounds=8)
    assert counts.tolist() == brute_force(probabilities, classes, metric, rounds=8)
    assert counts.sum() >= 1


@pytest.fixture(scope="module")
def parts():
    """Two runs of three recipes and two seeds on the same splits."""
    options = {"predict": True, "test": False, "device": "cpu", "seeds": 2}
    recipes = [recipe("adaptkry", degree=degree, hidden=8, epochs=10) for degree in (1, 3)]
    return [fit(GRAPH, one, SPLITS, **options) for one in [*recipes, recipe("mlp", hidden=8, epochs=10)]]


def test_the_shares_of_a_split_add_up_to_one(parts):
    shares = greedy_shares(parts, GRAPH.y, SPLITS, "accuracy")
    for split in range(2):
        total = sum(
            share
            for part, weights in zip(parts, shares, strict=True)
            for member, share in zip(part.members, weights, strict=True)
            if member.split == split
        )
        assert total == pytest.approx(1)


def test_bagged_shares_are_the_mean_of_those_of_the_bags():
    random = torch.Generator().manual_seed(0)
    probabilities = torch.rand(20, 40, 3, generator=random, dtype=torch.float64).softmax(-1)
    classes = torch.randint(3, (40,), generator=random)
    bags = bags_of(20)
    assert len(bags) == ensemble_selection.BAGS
    assert {len(bag) for bag in bags} == {5 + 4}  # the best, and 30 % of the others
    assert all(bag[:5].tolist() == [0, 1, 2, 3, 4] for bag in bags)
    assert len(torch.cat(bags).unique()) > 5 + 4  # they differ
    expected = torch.zeros(20, dtype=torch.float64)
    for bag in bags:
        counts = brute_force(
            probabilities[bag].numpy(), classes.numpy(), "accuracy", ensemble_selection.SELECTION_ROUNDS
        )
        expected[bag] += torch.tensor(counts).double() / sum(counts) / len(bags)
    torch.testing.assert_close(bagged_shares(probabilities, classes, "accuracy"), expected)


def test_an_ensemble_of_few_is_at_least_as_good_on_its_own_validation_nodes_as_its_best_member(parts):
    parts = [part.only(range(2)) for part in parts]  # three candidates: one bag
    shares = greedy_shares(parts, GRAPH.y, SPLITS, "accuracy", nodes=0)
    ensemble = combine_runs(parts, shares, GraphData(GRAPH), SPLITS, combine="greedy")
    for split, result in enumerate(ensemble.results):
        single = [r.validation for part in parts for r in part.results if r.split == split]
        assert result.validation >= max(single) - 1e-6


@pytest.mark.parametrize("metric", ["accuracy", "roc_auc"])
def test_labels_of_test_nodes_do_not_change_the_shares_of_a_split(parts, metric):
    expected = greedy_shares(parts, GRAPH.y, SPLITS, metric)
    for split in range(2):
        flipped = torch.where(SPLITS.test[split], 1 - GRAPH.y, GRAPH.y)
        found = greedy_shares(parts, flipped, SPLITS, metric)
        assert of_split(parts, found, split) == of_split(parts, expected, split)
        flipped = torch.where(SPLITS.validation[1 - split] & SPLITS.train[split], 1 - GRAPH.y, GRAPH.y)
        found = greedy_shares(parts, flipped, SPLITS, metric)
        is_same = of_split(parts, found, split) == of_split(parts, expected, split)
        assert is_same == (metric == "roc_auc")  # which is not pooled


def of_split(parts, shares, split):
    """Return the shares of the members of a split."""
    return [
        share
        for part, weights in zip(parts, shares, strict=True)
        for member, share in zip(part.members, weights, strict=True)
        if member.split == split
    ]


def test_members_are_chosen_on_validation_nodes_of_all_splits_without_the_test_nodes_of_theirs():
    splits = stratified(GRAPH.y, count=4)
    validation, test = splits.validation.numpy(), splits.test.numpy()
    for split in range(4):
        rows = selection_rows(splits, split, [0, 1, 3], 5000)
        assert [other for other, _ in rows] == [split, *(o for o in (0, 1, 3) if o != split)]
        for other, nodes in rows:
            allowed = validation[other] if other == split else validation[other] & ~test[split]
            assert nodes.tolist() == np.flatnonzero(allowed).tolist()
    size = int(validation[0].sum())
    (own, nodes), *others = selection_rows(splits, 0, range(4), size + 10)
    assert own == 0
    assert nodes.tolist() == np.flatnonzero(validation[0]).tolist()
    assert 10 - 3 <= sum(len(nodes) for _, nodes in others) <= 10
    assert all((validation[other] & ~test[0])[nodes.numpy()].all() for other, nodes in others)
    usable = [np.flatnonzero(validation[other] & ~test[0]) for other, _ in others]
    assert any(nodes.tolist() != few[: len(nodes)].tolist() for (_, nodes), few in zip(others, usable, strict=True))
    assert len(selection_rows(splits, 0, range(4), size)) == 1


def test_the_shares_are_those_of_the_pooled_predictions(parts):
    parts = [part.only(range(2)) for part in parts]  # three candidates, and a member for each split
    shares = greedy_shares(parts, GRAPH.y, SPLITS, "accuracy")
    for split in range(2):
        rows = selection_rows(SPLITS, split, range(2), 5000)
        pooled = torch.stack([torch.cat([part.predicted[o, nodes] for o, nodes in rows]) for part in parts])
        classes = torch.cat([GRAPH.y[nodes] for _, nodes in rows])
        scores = (pooled.argmax(2) == classes).double().mean(1)
        order = scores.argsort(descending=True, stable=True).numpy()
        rounds = ensemble_selection.SELECTION_ROUNDS
        counts = brute_force(pooled.numpy()[order], classes.numpy(), "accuracy", rounds)
        found = np.array(of_split(parts, shares, split))
        np.testing.assert_allclose(found[order], np.array(counts) / sum(counts))


def test_predictions_at_other_than_validation_nodes_do_not_change_the_shares(parts):
    changed = [part.only(range(len(part.members))) for part in parts]
    for part in changed:
        part.predicted = part.predicted.clone()
        for i, member in enumerate(part.members):
            part.predicted[i, ~SPLITS.validation[member.split]] = 0.5
    expected = greedy_shares(parts, GRAPH.y, SPLITS, "accuracy")
    assert greedy_shares(changed, GRAPH.y, SPLITS, "accuracy") == expected
    flipped = torch.where(SPLITS.validation.any(0), 1 - GRAPH.y, GRAPH.y)
    assert greedy_shares(parts, flipped, SPLITS, "accuracy") != expected


def test_failed_members_have_no_share_and_runs_without_predictions_are_refused(parts):
    broken = parts[0].only(range(4))
    broken.results = [replace(result, validation=None, failed="loss was not finite") for result in broken.results]
    broken.predicted = torch.full_like(parts[0].predicted, torch.nan)
    shares = greedy_shares([broken, parts[2]], GRAPH.y, SPLITS, "accuracy")
    assert shares[0] == [0.0] * 4
    assert sum(shares[1]) == pytest.approx(2)
    broken = parts[0].only(range(2))  # failed in the other split: not pooled, since scores must be comparable
    broken.results = [replace(r, validation=None) if r.split == 1 else r for r in broken.results]
    shares = greedy_shares([broken, parts[2].only(range(2))], GRAPH.y, SPLITS, "accuracy")
    alone = greedy_shares([part.only([0]) for part in (parts[0], parts[2])], GRAPH.y, SPLITS, "accuracy")
    assert [weights[0] for weights in shares] == [weights[0] for weights in alone]
    assert [weights[1] for weights in shares] == [0.0, 1.0]
    broken = parts[0].only(range(4))
    broken.predicted = None
    with pytest.raises(ValueError, match="needs the predictions of its members"):
        greedy_shares([broken], GRAPH.y, SPLITS, "accuracy")


def test_a_time_limit_ends_the_selection_after_at_least_one_round(parts):
    shares = greedy_shares(parts, GRAPH.y, SPLITS, "accuracy", seconds=0.0)
    assert sorted(share for weights in shares for share in weights)[-2:] == [1.0, 1.0]  # one member per split
    assert selection_seconds(10, 2, SPLITS, "roc_auc") > selection_seconds(10, 2, SPLITS, "accuracy") > 0
    assert selection_seconds(50, 2, SPLITS, "accuracy") == selection_seconds(500, 2, SPLITS, "accuracy")


def test_candidates_are_the_best_members_on_validation_nodes(parts, monkeypatch):
    monkeypatch.setattr(ensemble_selection, "CANDIDATES", 1)
    shares = greedy_shares(parts, GRAPH.y, SPLITS, "accuracy", nodes=0)
    for split in range(2):
        scores = {(p, i): part.results[i].validation for p, part in enumerate(parts)
                  for i, member in enumerate(part.members) if member.split == split}  # fmt: skip
        assert len(set(scores.values())) > 1
        (chosen,) = [key for key in scores if shares[key[0]][key[1]] > 0]
        assert scores[chosen] == max(scores.values())
