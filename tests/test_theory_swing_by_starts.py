"""What functions of one start refuse, how random starts are scaled, and what learning times are read from."""

import pytest
import torch

from lcs_utils.swing_by import closed_form as sb
from lcs_utils.swing_by import curves, initial
from lcs_utils.theory_examples import swing_by_starts


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_one_start_is_asked_for_where_one_is_answered():
    """A stack of starts gave wrong numbers everywhere but in the flow, which takes several."""
    a, W = torch.ones(2).double(), torch.eye(2).double()
    stack, times = W.expand(2, 2, 2), torch.ones(1).double()
    for call in (sb.identity_loss, sb.two_layer_terms, lambda W, a: sb.one_layer(W, a, times)):
        call(W, a)
        with pytest.raises(ValueError, match=r"W must be one start 2 x 2, got a stack of shape \[2, 2, 2\]"):
            call(stack, a)
    (last,) = sb.two_layer_flow(stack, a, times)
    assert last.shape == (2, 2, 2)
    with pytest.raises(ValueError, match="W must be 2 x 2 to fit 2 rates, got 2"):
        sb.identity_loss(torch.ones(2).double(), a)


def test_starts_keep_their_size_in_every_dimension():
    """The mean of w_pp(0) is scale^2 whatever the dimension."""
    for dim in (2, 8, 32):
        W = initial.random_starts(500, dim, 0.3, seeded())
        assert float(W.diagonal(dim1=1, dim2=2).mean()) == pytest.approx(0.09, rel=0.1)


def test_learning_times_of_whole_moments_are_read_between_them():
    W = torch.tensor([0.0, 0.25, 0.75, 1.0]).reshape(4, 1, 1).double()
    for dtype in (torch.int64, torch.float32, torch.float64):
        found = curves.learning_times(W, torch.tensor([0, 1, 2, 3], dtype=dtype), 1)
        assert found.tolist() == [1.5] and found.is_floating_point()
    never = curves.learning_times(0 * W, torch.arange(4), 1)
    assert bool(never.isinf().all())
    for times in ([0.0, 2.0, 1.0, 3.0], [0.0, 1.0, 1.0, 2.0]):
        with pytest.raises(ValueError, match="times must increase, got"):
            curves.learning_times(W, torch.tensor(times), 1)


def test_small_positive_starts_have_positive_couplings_of_the_normal_size():
    """The control of sign without size: still U U^T, the diagonal as it was."""
    normal, positive = (initial.random_starts(20, 16, 0.1, seeded(), sign) for sign in (False, True))
    small, coupling = swing_by_starts.shrunk(positive, normal), ~torch.eye(16, dtype=torch.bool)
    assert float(small[:, coupling].min()) > 0
    size, large = normal[:, coupling].abs().median(), positive[:, coupling].median()
    assert float(small[:, coupling].median() / size) == pytest.approx(1) and large > 3 * size
    assert torch.allclose(small.diagonal(dim1=1, dim2=2), positive.diagonal(dim1=1, dim2=2))
    assert float(torch.linalg.eigvalsh(small).min()) > -1e-12
