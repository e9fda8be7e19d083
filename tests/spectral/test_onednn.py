"""Products by oneDNN equal those of torch, and are used only where they are faster and allowed."""

import pytest
import torch

from adaptkry.spectral.kernels import onednn

pytestmark = pytest.mark.skipif(not onednn.HAS_PRODUCT, reason="this build of torch has no oneDNN")


@pytest.mark.parametrize(("m", "h", "o"), [(1, 1, 1), (37, 65, 5), (200, 129, 64), (64, 300, 257)])
def test_products_and_gradients_equal_those_in_float64(m, h, o):
    generator = torch.Generator().manual_seed(m)
    x, weight, gradient = (torch.randn(*shape, generator=generator) for shape in ((m, h), (h, o), (m, o)))
    x.requires_grad_()
    weight.requires_grad_()
    found = onednn.Product.apply(x, weight)
    of_x, of_weight = torch.autograd.grad(found, (x, weight), gradient)
    wide_x, wide_weight, wide_gradient = x.detach().double(), weight.detach().double(), gradient.double()
    bound = 1e-6 * max(m, h, o)
    torch.testing.assert_close(found.double(), wide_x @ wide_weight, rtol=0, atol=bound)
    torch.testing.assert_close(of_x.double(), wide_gradient @ wide_weight.T, rtol=0, atol=bound)
    torch.testing.assert_close(of_weight.double(), wide_x.T @ wide_gradient, rtol=0, atol=bound)
    assert torch.equal(found, onednn.Product.apply(x, weight))


def test_it_is_used_for_large_products_of_one_member_in_float32(monkeypatch):
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    x, weight = torch.zeros(1, 1024, 64), torch.zeros(1, 64, 16)
    assert onednn.is_faster(x, weight)
    assert not onednn.is_faster(x[:, :1023], weight)
    assert not onednn.is_faster(x.double(), weight.double())
    assert not onednn.is_faster(x.expand(2, -1, -1), weight.expand(2, -1, -1))
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    assert not onednn.is_faster(x, weight)
