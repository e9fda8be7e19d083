import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import mannwhitneyu

from adaptkry.training.metrics import accuracy, pick_metric, roc_auc


@given(st.integers(0, 1000), st.booleans())
def test_roc_auc_equals_the_mann_whitney_statistic_with_ties_and_padding(seed, tied):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, 30, 2, generator=generator)
    scores = scores.round() if tied else scores
    classes = torch.randint(0, 2, (2, 30), generator=generator)
    classes[:, :2] = torch.tensor([0, 1])
    row_mask = torch.ones(2, 30, dtype=torch.bool)
    row_mask[1, 25:] = False
    found = roc_auc(scores, classes, row_mask)
    for b in range(2):
        s, y = (scores[b, :, 1] - scores[b, :, 0])[row_mask[b]].numpy(), classes[b][row_mask[b]].numpy()
        expected = mannwhitneyu(s[y == 1], s[y == 0]).statistic / ((y == 1).sum() * (y == 0).sum())
        assert abs(float(found[b]) - expected) < 1e-9


def test_accuracy_ignores_padding_rows():
    logits = torch.eye(3)[None].repeat(2, 1, 1)
    classes = torch.tensor([[0, 1, 0], [0, 0, 0]])
    row_mask = torch.tensor([[True, True, True], [True, True, False]])
    torch.testing.assert_close(accuracy(logits, classes, row_mask), torch.tensor([2 / 3, 1 / 2]))


def test_roc_auc_refuses_three_classes_and_unknown_metrics_get_the_nearest_name():
    with pytest.raises(ValueError, match="two classes; got 3"):
        roc_auc(torch.zeros(1, 2, 3), torch.zeros(1, 2), torch.ones(1, 2, dtype=torch.bool))
    with pytest.raises(ValueError, match="accuracy"):
        pick_metric("acuracy")


def test_accuracy_counts_real_rows_only():
    logits = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [1.0, 0.0]]]).expand(2, -1, -1)
    classes, row_mask = torch.tensor([[0, 0, 0], [0, 1, 1]]), torch.tensor([[True, True, False], [True, True, True]])
    assert accuracy(logits, classes, row_mask).tolist() == pytest.approx([1 / 2, 2 / 3])
