"""What functions of one start refuse, how random starts are scaled, and what learning times are read from."""

import pytest
import torch

from lcs_utils.swing_by import closed_form as sb


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
