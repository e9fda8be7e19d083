"""Bagged greedy ensemble selection with repetition on validation nodes (Caruana et al., ICML 2004), split by split.

Only the validation nodes of a split choose its members and their shares; test nodes are not used. The selection is
repeated among the best candidates and random parts of the others, and averaged: of many candidates, a single selection
chooses those that fit the validation nodes by chance.
"""

import math
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from adaptkry.graphs.splits import Splits
from adaptkry.training.ensemble import candidates_of
from adaptkry.training.metrics import pick_metric
from adaptkry.training.run import Run

BAGS, BEST, BAG_SHARE = 16, 5, 0.3  # bags, the number of best candidates in all of them, and the share of the others
SELECTION_ROUNDS = 20  # members added per bag, with repetition
LEAST_SHARE = 0.01  # of a member of the ensemble
CANDIDATES = 50  # the best members of a split by validation score, among which the selection chooses
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
    shares[shares < LEAST_SHARE * shares.sum()] = 0
    return shares / shares.sum()


def selection_seconds(candidates: int, classes: int, splits: Splits, metric: str, device: str = "cpu") -> float:
    """Estimate the time of `greedy_shares`."""
    nodes = int(splits.validation.sum())  # of all splits
    speed = GPU_SPEED if device.startswith("cuda") else 1
    each = SORTING_SECONDS if pick_metric(metric).ranks_rows else ROUND_SECONDS
    bags = bags_of(min(candidates, CANDIDATES))
    products = each * len(bags[0]) * nodes * classes / speed
    return len(bags) * SELECTION_ROUNDS * (products + LAUNCH_SECONDS * len(splits))


def greedy_shares(
    parts: Sequence[Run],
    labels: Tensor,
    splits: Splits,
    metric: str,
    *,
    device: str = "cpu",
    seconds: float = math.inf,
) -> list[list[float]]:
    """Return the share of each member of each part in the ensemble of its split.

    Args:
        parts: runs with `predicted`, on the same data and splits.
        labels: the class of each node [n].
        splits: the splits.
        metric: the name of the metric of which the best value is sought.
        device: where to compute.
        seconds: time limit; if it is too short, fewer members are added.
    """
    end = time.monotonic() + seconds
    shares = [[0.0] * len(part.members) for part in parts]
    for split in range(len(splits)):
        candidates = candidates_of(parts, split)
        best_first = sorted(candidates, key=lambda candidate: candidate[0], reverse=True)[:CANDIDATES]  # a stable sort
        if not best_first:
            continue
        nodes = splits.validation[split].nonzero()[:, 0]
        probabilities = torch.stack([_predicted(parts[p])[i, nodes] for _, p, i in best_first])  # [k, m, c]
        left = (end - time.monotonic()) / (len(splits) - split)
        found = bagged_shares(probabilities.to(device), labels[nodes].to(device), metric, left)
        for (_, p, i), share in zip(best_first, found.tolist(), strict=True):
            shares[p][i] = share
    return shares


def _predicted(part: Run) -> Tensor:
    """Return the predictions of a part; raise an error if they were not kept."""
    if part.predicted is None:
        raise ValueError("an ensemble needs the predictions of its members; got a run without. Use fit(predict=True).")
    return part.predicted
