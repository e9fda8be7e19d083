"""Bagged greedy ensemble selection with repetition on validation nodes (Caruana et al., ICML 2004), split by split.

The members of a split are chosen on its validation nodes. If these are few, of many candidates some fit them by chance.
Hence the same recipes are also scored in the other splits, on their validation nodes without the test nodes of this
split. No label of its test nodes is compared with a prediction; the members of other splits may have been trained on
some, as wherever settings are chosen by their mean over splits. For the same reason the selection is repeated among the
best candidates and random parts of the others, and averaged.
"""

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from adaptkry.graphs.splits import Splits
from adaptkry.training.metrics import pick_metric
from adaptkry.training.run import Run

BAGS, BEST, BAG_SHARE = 4, 5, 0.3  # bags, the number of best candidates in all of them, and the share of the others
SELECTION_ROUNDS = 20  # members added per bag, with repetition
CANDIDATES = 50  # the best members of a split by validation score, among which the selection chooses
SELECTION_NODES = 5000  # validation nodes above which those of other splits are left out
ROUND_SECONDS = 5e-9  # on one core, per candidate, node and class
SORTING_SECONDS = 1e-7  # the same for metrics that rank nodes
GPU_SPEED = 30  # times as fast on a GPU, roughly
LAUNCH_SECONDS = 1e-3  # of a round, however small it is


def greedy_counts(
    probabilities: Tensor, classes: Tensor, metric: str, rounds: int = SELECTION_ROUNDS, seconds: float = math.inf
) -> Tensor:
    """Return how often each candidate is in the ensemble: [k].

    In every round the candidate is added with which the mean of the probabilities scores best; of equally good ones
    the one with the lowest log loss. The ensemble after the best round is returned, the earliest of equally good ones.

    Args:
        probabilities: class probabilities of k candidates on the validation nodes, [k, m, c].
        classes: the true classes [m].
        metric: the name of the metric of which the best value is sought.
        rounds: number of rounds.
        seconds: time limit; at least one round is completed.

    >>> right, wrong = [0.9, 0.1], [0.2, 0.8]
    >>> greedy_counts(torch.tensor([[right, wrong], [wrong, right], [right, right]]), torch.tensor([0, 0]), "accuracy")
    tensor([0, 0, 1])
    """
    k, m, _ = probabilities.shape
    measure = pick_metric(metric)
    end = time.monotonic() + seconds
    classes_of_all = classes.expand(k, -1)
    mask = torch.ones(k, m, dtype=torch.bool, device=probabilities.device)
    right = probabilities.gather(2, classes_of_all[:, :, None])[:, :, 0]  # [k, m] probability of the true class
    sums = torch.empty_like(probabilities)  # [k, m, c] sums of probabilities, whose scores are those of means
    total, total_right = torch.zeros_like(probabilities[0]), torch.zeros_like(right[0])  # [m, c], [m]
    counts = torch.zeros(k, dtype=torch.long)
    best_counts, best = counts, (-torch.inf, -torch.inf)
    for number in range(1, rounds + 1):
        torch.add(total, probabilities, out=sums)
        scores = torch.nan_to_num(measure(sums, classes_of_all, mask).double(), nan=-1.0)  # [k]
        likelihood = ((total_right + right) / number).clamp(min=1e-12).log().mean(1).double()  # [k]
        is_best = scores >= scores.max() - 1e-12
        winner = int(torch.where(is_best, likelihood, -torch.inf).argmax())
        total, total_right, counts = total + probabilities[winner], total_right + right[winner], counts.clone()
        counts[winner] += 1
        value = (float(scores[winner]), float(likelihood[winner]))
        if value[0] > best[0] + 1e-12 or (value[0] >= best[0] - 1e-12 and value[1] > best[1] + 1e-6):
            best, best_counts = value, counts
        if time.monotonic() > end:
            break
    return best_counts


def bags_of(candidates: int) -> list[Tensor]:
    """Return the candidates of each bag, of which the first are the best; a single bag if they are few.

    >>> [bag.tolist() for bag in bags_of(3)]
    [[0, 1, 2]]
    """
    others = candidates - BEST
    if others <= 0:
        return [torch.arange(candidates)]
    generator, size = torch.Generator().manual_seed(0), max(1, round(BAG_SHARE * others))
    drawn = [torch.randperm(others, generator=generator)[:size].sort().values for _ in range(BAGS)]
    return [torch.cat([torch.arange(BEST), BEST + bag]) for bag in drawn]


def bagged_shares(probabilities: Tensor, classes: Tensor, metric: str, seconds: float = math.inf) -> Tensor:
    """Return the share of each candidate in the mean of the ensembles of all bags: [k].

    The arguments are those of `greedy_counts`, with the best candidates first. The time limit ends the selection after
    at least one bag.
    """
    end = time.monotonic() + seconds
    shares, bags = torch.zeros(len(probabilities), dtype=torch.float64), bags_of(len(probabilities))
    for number, bag in enumerate(bags):
        left = (end - time.monotonic()) / (len(bags) - number)
        if number and left <= 0:
            break
        counts = greedy_counts(probabilities[bag.to(probabilities.device)], classes, metric, SELECTION_ROUNDS, left)
        shares[bag] += counts.double() / counts.sum()
    return shares / shares.sum()


def selection_seconds(candidates: int, classes: int, splits: Splits, metric: str, device: str = "cpu") -> float:
    """Estimate the time of `greedy_shares`."""
    own, ranks_rows = splits.validation.sum(1), pick_metric(metric).ranks_rows
    most = 0 if ranks_rows else min(SELECTION_NODES, int(own.sum()))
    nodes = int(own.clamp(min=most).sum())
    speed = GPU_SPEED if device.startswith("cuda") else 1
    each = SORTING_SECONDS if ranks_rows else ROUND_SECONDS
    bags = bags_of(min(candidates, CANDIDATES))
    products = each * len(bags[0]) * nodes * classes / speed
    return len(bags) * SELECTION_ROUNDS * (products + LAUNCH_SECONDS * len(splits))


def greedy_shares(
    parts: Sequence[Run],
    labels: Tensor,
    splits: Splits,
    metric: str,
    *,
    nodes: int = SELECTION_NODES,
    device: str = "cpu",
    seconds: float = math.inf,
) -> list[list[float]]:
    """Return the share of each member of each part in the ensemble of its split.

    Args:
        parts: runs with `predicted`, on the same data and splits.
        labels: the class of each node [n].
        splits: the splits.
        metric: the name of the metric of which the best value is sought.
        nodes: number of validation nodes up to which those of other splits are used besides those of its own.
        device: where to compute.
        seconds: time limit; if it is too short, fewer members are added.
    """
    end = time.monotonic() + seconds
    shares = [[0.0] * len(part.members) for part in parts]
    measure = pick_metric(metric)
    of_splits = [members_of_split(parts, split) for split in range(len(splits))]
    for split, members in enumerate(of_splits):
        if not members:
            continue
        # Scores that rank rows cannot be pooled: the probabilities of several models are on different scales.
        others = [] if measure.ranks_rows else range(len(splits))
        rows = selection_rows(splits, split, [o for o in others if members.keys() <= of_splits[o].keys()], nodes)
        classes = torch.cat([labels[chosen] for _, chosen in rows]).to(device)
        probabilities = torch.stack(
            [
                torch.cat([_predicted(parts[part])[of_splits[other][part, rank], chosen] for other, chosen in rows])
                for part, rank in members
            ]
        ).to(device)  # [k, m, c]
        every = torch.ones(probabilities.shape[:2], dtype=torch.bool, device=device)
        scores = torch.nan_to_num(measure(probabilities, classes.expand(len(every), -1), every), nan=-1.0)
        best_first = scores.argsort(descending=True, stable=True)[:CANDIDATES]
        left = (end - time.monotonic()) / (len(splits) - split)
        found = bagged_shares(probabilities[best_first], classes, metric, left)
        candidates = list(members.items())
        for candidate, share in zip(best_first.tolist(), found.tolist(), strict=True):
            (part, _), member = candidates[candidate]
            shares[part][member] = share
    return shares


def members_of_split(parts: Sequence[Run], split: int) -> dict[tuple[int, int], int]:
    """Return the members of a split that did not fail, by their part and their rank among those of the split.

    The members of the same part and rank in all splits have the same recipe.
    """
    return {
        (p, rank): i
        for p, part in enumerate(parts)
        for rank, i in enumerate(i for i, member in enumerate(part.members) if member.split == split)
        if part.results[i].validation is not None
    }


def selection_rows(splits: Splits, split: int, others: Sequence[int], most: int) -> list[tuple[int, Tensor]]:
    """Return the nodes on which members are chosen for a split, as pairs of the predicting split and its nodes.

    All its own validation nodes come first. If they are fewer than `most`, random validation nodes of other splits
    follow that are not test nodes of this one.
    """
    rows = [(split, splits.validation[split].nonzero()[:, 0])]
    room = most - len(rows[0][1])
    usable = [(o, (splits.validation[o] & ~splits.test[split]).nonzero()[:, 0]) for o in others if o != split]
    total = sum(len(nodes) for _, nodes in usable)
    if room <= 0:
        return rows
    generator = torch.Generator().manual_seed(0)
    for other, nodes in usable:
        drawn = torch.randperm(len(nodes), generator=generator)[: len(nodes) * min(room, total) // total]
        rows.append((other, nodes[drawn.sort().values]))
    return rows


def _predicted(part: Run) -> Tensor:
    """Return the predictions of a part; raise an error if they were not kept."""
    if part.predicted is None:
        raise ValueError("an ensemble needs the predictions of its members; got a run without. Use fit(predict=True).")
    return part.predicted
