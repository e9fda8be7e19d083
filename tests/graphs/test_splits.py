from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adaptkry.graphs import splits
from adaptkry.graphs.graph import Graph, Info
from adaptkry.graphs.splits import ADAPTKRY_SEEDS, BERNNET_SEEDS, PARTS, SPLITS, Splits
from benchmark_graphs import benchmark_graph, graph_parameters

# Sizes, sums of node ids, first five validation nodes, classes that are in neither validation nor test
PUBLISHED = {
    "cora": ((1557, 542, 609), (2077178, 738557, 849543), (812, 1110, 1831, 924, 1316), {1, 6}),
    "citeseer": ((1929, 665, 733), (3293823, 1054305, 1184673), (191, 1179, 670, 929, 3316), {0}),
    "pubmed": ((11829, 3943, 3945), (116133627, 39211414, 39025145), (13756, 18422, 16861, 3574, 13630), set()),
    "actor": ((4501, 1520, 1579), (17179522, 5762498, 5934180), (6635, 1990, 5090, 3836, 5924), {0}),
    "chameleon": ((1365, 455, 457), (1570420, 501382, 519424), (2115, 829, 126, 1601, 1375), set()),
    "squirrel": ((3120, 1040, 1041), (8092033, 2710497, 2720070), (732, 4049, 610, 304, 4798), set()),
}


@pytest.mark.data
@pytest.mark.parametrize("name", graph_parameters(PUBLISHED))
def test_class_balanced_splits_are_the_published_ones(name):
    sizes, sums, draws, absent = PUBLISHED[name]
    y = benchmark_graph(name).y
    split = splits.class_balanced(y)
    ids = torch.arange(len(y))
    assert split.seeds == ADAPTKRY_SEEDS
    for part, size, total in zip(PARTS, sizes, sums, strict=True):
        mask = getattr(split, part)
        assert mask.sum(1).tolist() == [size] * 10
        assert int(ids[mask[0]].sum()) == total
    assert splits.draw_class_balanced(y.numpy(), ADAPTKRY_SEEDS[0])[1][:5].tolist() == list(draws)
    for part in ("validation", "test"):
        assert set(y[getattr(split, part).any(0)].tolist()) == set(range(int(y.max()) + 1)) - absent
    named = ", ".join(map(str, sorted(absent)))
    expected = [f"{part} lacks class{'es' * (len(absent) > 1)} {named} in every split." for part in PARTS[1:]]
    assert list(split.warnings) == (expected if absent else [])


def test_published_seeds_differ_in_three_places():
    assert [i for i in range(10) if ADAPTKRY_SEEDS[i] != BERNNET_SEEDS[i]] == [1, 3, 7]


labels = st.lists(st.integers(-1, 3), min_size=30, max_size=90).map(
    lambda y: torch.tensor([*y, 0, 0, 0, 0, 1, 1, 1, 1])
)
SCHEMES = {
    "class_balanced": lambda y: splits.class_balanced(y, seeds=[1, 2, 3]),
    "class_permuted": lambda y: splits.class_permuted(y, 3),
    "stratified": lambda y: splits.stratified(y, 3),
    "uniform": lambda y: splits.uniform(y, 3),
}


@pytest.mark.parametrize("draw", SCHEMES.values(), ids=SCHEMES)
@given(y=labels)
def test_every_labelled_node_is_in_exactly_one_part_and_unlabelled_nodes_in_none(draw, y):
    split, again = draw(y), draw(y)
    assert len(split) == len(split.seeds) == 3
    count = torch.stack([getattr(split, part).int() for part in PARTS]).sum(0)
    assert torch.equal(count, (y >= 0).long().expand(3, -1))
    assert all(torch.equal(getattr(split, part), getattr(again, part)) for part in PARTS)


@pytest.mark.parametrize("draw", [lambda y: splits.class_balanced(y, seeds=[5]), lambda y: splits.class_permuted(y, 1)])
@given(y=labels)
def test_class_balanced_draws_equally_many_of_each_class_or_all_of_a_small_one(draw, y):
    split = draw(y)
    n, c = int((y >= 0).sum()), int(y.max()) + 1
    for label in range(c):
        size = int((y == label).sum())
        assert int(split.train[0, y == label].sum()) == min(size, round(0.6 * n / c))
    assert int(split.validation.sum()) == round(0.2 * n)


@given(y=labels, fractions=st.sampled_from([(0.6, 0.2, 0.2), (0.1, 0.1, 0.8), (0.3, 0.3, 0.3), (0.98, 0.01, 0.01)]))
def test_stratified_splits_every_class_by_the_fractions_without_empty_parts(y, fractions):
    split = splits.stratified(y, 2, fractions)
    for label in y[y >= 0].unique().tolist():
        sizes = [int(getattr(split, part)[1, y == label].sum()) for part in PARTS]
        total = int((y == label).sum())
        assert sizes[0] >= 1
        if total >= 3:
            assert min(sizes) >= 1
        for size, fraction in zip(sizes, fractions, strict=True):
            assert abs(size - fraction * total) <= 2


def test_uniform_ignores_classes_and_keeps_the_fractions():
    y = torch.tensor([0] * 900 + [1] * 100 + [-1] * 50)
    split = splits.uniform(y, 20, (0.5, 0.25, 0.2), seed=3)
    assert [int(getattr(split, part)[7].sum()) for part in PARTS] == [500, 250, 200]
    assert split.seeds == tuple(range(3, 23))
    rare = split.train[:, y == 1].sum(1).float()
    assert float(rare.std()) > 0  # stratified splits would have the same number each time
    assert float(rare.mean()) == pytest.approx(50, abs=5)


def test_split_i_is_drawn_with_seed_plus_i():
    y = torch.arange(60) % 3
    for draw in (splits.stratified, splits.uniform, splits.class_permuted):
        assert torch.equal(draw(y, 5, seed=10).train[4], draw(y, 1, seed=14).train[0])


def test_take_keeps_the_first_splits_with_their_seeds():
    split = splits.class_balanced(torch.arange(60) % 3)
    first = split.take(2)
    assert (len(first), first.seeds, first.scheme) == (2, ADAPTKRY_SEEDS[:2], "class_balanced")
    assert torch.equal(first.test, split.test[:2])
    for count in (0, 11):
        with pytest.raises(ValueError, match=f"must be between 1 and 10; got {count}"):
            split.take(count)


def masks(*rows: str) -> torch.Tensor:
    return torch.tensor([[letter == "x" for letter in row] for row in rows])


def graph_with_masks() -> Graph:
    parts = (masks("xx....", "....xx"), masks("..xx..", "..xx.."), masks("....x.", "xx...."))
    info = Info("toy", masks=dict(zip(PARTS, parts, strict=True)), class_names=("ham", "spam"))
    return Graph([[0], [1]], labels=[0, 0, 1, 1, 0, 1], info=info)


def test_fixed_splits_are_those_of_the_graph_and_warn_by_class_name():
    split = splits.fixed(graph_with_masks())
    assert (split.scheme, len(split), split.seeds) == ("fixed", 2, ())
    assert split.warnings == (
        "train lacks class spam in 1 of 2 splits.",
        "validation lacks class ham in every split.",
        "test lacks class spam in every split.",
    )
    assert splits.make(graph_with_masks(), "fixed", 1).warnings[0] == "train lacks class spam in every split."
    with pytest.raises(ValueError, match=r"toy has no fixed splits. Use another scheme: class_balanced"):
        splits.fixed(Graph([[0], [1]], labels=[0, 1], info=Info("toy")))


def test_masks_may_be_one_row_or_many():
    one = splits.from_masks([True, False, False], [False, True, False], np.array([False, False, True]))
    assert (len(one), one.scheme, one.warnings) == (1, "masks", ())
    assert one.train.tolist() == [[True, False, False]]


@pytest.mark.parametrize("scheme", SPLITS)
def test_make_accepts_every_scheme_by_name(scheme):
    y = torch.arange(50) % 2
    parts = splits.stratified(y, 4)
    graph = Graph([[0], [1]], labels=y, info=Info(masks={part: getattr(parts, part) for part in PARTS}))
    split = splits.make(graph, scheme, 3)
    assert (split.scheme, len(split)) == (scheme, 3)
    assert len(splits.make(graph, scheme)) == (4 if scheme == "fixed" else 10)


@pytest.mark.parametrize("name", ["cora", "mine"])
@pytest.mark.parametrize("is_benchmark", [True, False])
@pytest.mark.parametrize("masks", [None, 4])
def test_default_splits_are_published_fixed_or_stratified(name, is_benchmark, masks):
    y = torch.arange(50) % 2
    own = None if masks is None else splits.stratified(y, masks, (0.2, 0.2, 0.6))
    known = {part: getattr(own, part) for part in PARTS} if own else None
    info = Info(name, masks=known, known_as=name if is_benchmark else None)
    expected = ("stratified", 5) if masks is None else ("fixed", masks)
    expected = ("class_balanced", 10) if is_benchmark and name == "cora" else expected
    split = splits.make(Graph([[0], [1]], labels=y, info=info))
    assert (split.scheme, len(split)) == expected
    assert split.label == f"{expected[1]} {expected[0]} splits"
    assert splits.make(Graph([[0], [1]], labels=y, info=info), None, 1).label.endswith(" split")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"validation": None}, "toy has no validation mask. Add it, or use another scheme, such as stratified"),
        ({"test": masks("......", "......")}, "every split needs test nodes.* Or use another scheme"),
        ({"train": masks("xx..x.", "....xx")}, "node 4 is in train and test of split 0.* Or use another scheme"),
    ],
    ids=["lacking", "empty", "overlap"],
)
def test_incomplete_fixed_splits_give_a_clear_error(change, message):
    graph = graph_with_masks()
    parts = {part: mask for part, mask in {**(graph.info.masks or {}), **change}.items() if mask is not None}
    graph.info = replace(graph.info, masks=parts)
    with pytest.raises(ValueError, match=message):
        splits.make(graph)


def test_error_for_an_unknown_scheme_suggests_a_similar_name():
    with pytest.raises(ValueError, match=r"unknown split scheme 'stratfied'. Did you mean 'stratified'"):
        splits.make(graph_with_masks(), "stratfied", 1)


A, B, C = masks("x..."), masks(".x.."), masks("..x.")


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: Splits(A, B & False, C), ValueError, "needs validation nodes; split 0 of 1 .* has none"),
        (lambda: Splits(A & False, B, C), ValueError, "needs train nodes"),
        (lambda: Splits(A, B, C & False), ValueError, "needs test nodes"),
        (lambda: Splits(A, A | B, C), ValueError, "node 0 is in train and validation of split 0"),
        (lambda: Splits(A, B, A | C), ValueError, "node 0 is in train and test"),
        (lambda: Splits(A, B, B | C), ValueError, "node 1 is in validation and test"),
        (
            lambda: Splits(A, B[:, :3], C),
            ValueError,
            r"validation mask must have shape \[1, 4\] like train; got \[1, 3",
        ),
        (lambda: Splits(A[0], B, C), ValueError, r"train mask must have shape \[s, n\]; got \[4\]"),
        (lambda: Splits(A[:0], B[:0], C[:0]), ValueError, r"train mask must have shape \[s, n\]; got \[0, 4\]"),
        (lambda: Splits(A.int(), B, C), TypeError, "train mask must be a bool tensor; got torch.int32"),
        (lambda: splits.from_masks([0, 1], [2], [3]), TypeError, "Convert node ids to a mask first"),
        (
            lambda: splits.from_masks(A, B, C, y=[0, 1, -1, 1]),
            ValueError,
            "every node in a mask needs a label; node 2 in the test mask has none",
        ),
        (lambda: splits.from_masks(A, B, C, y=[0, 1]), ValueError, "got 2 labels for Splits"),
        (
            lambda: splits.uniform([0, 0, 0, -1]),
            ValueError,
            r"at least 2 classes; the 3 labelled nodes \(of 4\) are all of class 0",
        ),
        (lambda: splits.stratified([-1, -1]), ValueError, "none of 2 nodes has a label"),
        (lambda: splits.class_balanced([0, 1]), ValueError, "needs validation nodes"),
        (lambda: splits.class_balanced([0, 1] * 9, seeds=[]), ValueError, "at least one seed; got none"),
        (lambda: splits.stratified([0, 1] * 9, 0), ValueError, r"splits must be 1 or more; got 0\.( |$)"),
        (
            lambda: splits.uniform([0, 1] * 9, 2, (0.6, 0.6, 0.2)),
            ValueError,
            "add up to at most 1; got .0.6, 0.6, 0.2",
        ),
        (lambda: splits.uniform([0, 1] * 9, 2, (0.6, 0.0, 0.2)), ValueError, "three positive numbers"),
        (lambda: splits.uniform([0, 1] * 9, count=2.5), TypeError, r"splits must be an integer; got 2.5\.( |$)"),  # type: ignore[arg-type]
        (
            lambda: splits.make(graph_with_masks(), "class_balanced", 11),
            ValueError,
            "10 published seeds, one per split; got 11 .* another scheme: stratified",
        ),
        (lambda: splits.make(graph_with_masks(), "fixed", 3), ValueError, r"between 1 and 2; got 3\.( |$)"),
    ],
)
def test_bad_splits_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_some_splits_can_be_chosen_by_their_numbers():
    five = splits.stratified(torch.arange(60) % 3, count=5)
    some = five.only([3, 1])
    assert some.seeds == (3, 1)
    assert torch.equal(some.validation, five.validation[[3, 1]])
    assert splits.from_masks(five.train, five.validation, five.test).only(range(2)).seeds == ()


def published_split(y: np.ndarray, seed: int) -> tuple[set[int], set[int], set[int]]:
    """Return the parts of a split as BernNet's `random_splits` draws them, with 60 and 20 % of all nodes."""
    state, classes = np.random.RandomState(seed), int(y.max()) + 1
    per_class, validation_size = round(0.6 * len(y) / classes), round(0.2 * len(y))
    train: list[int] = []
    for label in range(classes):
        members = np.where(y == label)[0]
        few = len(members) < per_class
        train.extend(members if few else state.choice(members, per_class, replace=False))
    rest = [node for node in range(len(y)) if node not in set(train)]
    validation = set(state.choice(rest, validation_size, replace=False).tolist())
    return set(map(int, train)), validation, set(rest) - validation


TOY_LABELS = torch.tensor([0] * 70 + [1] * 60 + [2] * 8)[
    torch.randperm(138, generator=torch.Generator().manual_seed(0))
]
# sums of node numbers times split part (1 train, 2 validation, 3 test) for every split: checksums
CHECKSUMS = {
    "class_balanced": [1727584, 1625708, 1675749, 1658826, 1671312, 1583032, 1698879, 1791100, 1620427, 1607605],
    "class_balanced_bernnet": [
        1727584,
        1655794,
        1675749,
        1646256,
        1671312,
        1583032,
        1698879,
        1566595,
        1620427,
        1607605,
    ],
    "class_permuted": [1615073, 1654194, 1633871, 1724628, 1571006, 1690297, 1715069, 1666513, 1612391, 1596094],
    "stratified": [1447699, 1475815, 1359575, 1343507, 1416770, 1387232, 1358608, 1391797, 1427141, 1445020],
    "uniform": [1481105, 1417404, 1449465, 1330361, 1488064, 1468902, 1486925, 1491549, 1443583, 1367492],
}


def checksums(split: Splits) -> list[int]:
    """Return one number per split, which depends on the part of every node."""
    parts = split.train.long() + 2 * split.validation.long() + 3 * split.test.long()  # [s, n]
    return (parts * torch.arange(1, parts.shape[1] + 1) ** 2).sum(1).tolist()


@pytest.mark.parametrize("scheme", CHECKSUMS)
def test_all_ten_splits_of_every_scheme_have_their_checksums(scheme):
    split = splits.make(Graph([[0], [1]], labels=TOY_LABELS), scheme, 10)
    assert checksums(split) == CHECKSUMS[scheme]


@pytest.mark.parametrize(
    ("scheme", "seeds"), [("class_balanced", ADAPTKRY_SEEDS), ("class_balanced_bernnet", BERNNET_SEEDS)]
)
def test_all_published_splits_are_those_of_the_published_generator(scheme, seeds):
    split = splits.make(Graph([[0], [1]], labels=TOY_LABELS), scheme, 10)
    assert split.seeds == seeds
    for number, seed in enumerate(seeds):
        found = [set(getattr(split, part)[number].nonzero()[:, 0].tolist()) for part in PARTS]
        assert found == list(published_split(TOY_LABELS.numpy(), seed))
