"""The conditions of App. E.1, counted by hand."""

import pytest
import torch

from lcs_utils.clevr import conditions as c
from lcs_utils.clevr import labels
from lcs_utils.experiments import Experiment


def present(*counts, width=4):
    return torch.arange(width)[None] < torch.tensor(counts)[:, None]


def test_grid_counts_by_hand():
    first = [[0.0, 0.0], [0.99, 0.0], [0.03, 0.5], [0.05, 0.53]]
    second = [[-0.1, 0.5], [1.0, 0.5], [0.5, 0.5], [float("nan")] * 2]
    locations = torch.tensor([first, second])
    grid = c.location_grid(locations, torch.ones(2, 4, dtype=torch.bool))
    expected = torch.zeros(2, 256)
    expected[0, 0], expected[0, 15], expected[0, 8 * 16] = 1, 1, 2  # two objects share a cell
    expected[1, 8 * 16 + 8] = 1  # centers outside the image and absent objects are not counted
    assert torch.equal(grid, expected)
    assert c.location_grid(locations, torch.zeros(2, 4, dtype=torch.bool)).sum() == 0


def test_grid_at_its_edges():
    edge = torch.nextafter(torch.tensor(1.0), torch.tensor(0.0))
    assert c.location_grid(edge.expand(1, 1, 2), present(1, width=1))[0, 255] == 1


def test_test_conditions_are_nested_prefixes():
    for k in range(13):
        grid = c.test_condition(k)
        assert grid.shape == (256,) and grid.sum() == k and grid.max() <= 1
        assert k == 0 or (grid - c.test_condition(k - 1)).min() == 0
    x, y = c.TEST_LOCATIONS[1]
    assert (c.test_condition(2) - c.test_condition(1)).nonzero().item() == int(y * 16) * 16 + int(x * 16)
    with pytest.raises(ValueError, match="0..12"):
        c.test_condition(13)


def test_a_policy_of_your_own(monkeypatch):
    two = labels.LabelPolicy(lambda n, _: n.clamp(max=2), lambda n: min(n, 2))
    monkeypatch.setitem(labels.LABEL_POLICIES, "two", two)
    present = torch.arange(5)[None] < torch.tensor([[1], [2], [5]])
    labeled = c.choose_labels(present, "two", torch.Generator().manual_seed(0))
    assert labeled.sum(1).tolist() == [1, 2, 2] and bool((labeled <= present).all())
    assert Experiment("mine", (1, 3), "two").labeled_share == 5 / 6


@pytest.mark.parametrize("number", [lambda n, _: n + 1, lambda n, _: n - 3, lambda n, _: n / 2])
def test_a_policy_that_labels_what_is_not_there_is_refused(number, monkeypatch):
    monkeypatch.setitem(labels.LABEL_POLICIES, "odd", labels.LabelPolicy(number, lambda n: n))
    present = torch.arange(3)[None] < torch.tensor([[1], [2], [3]])
    with pytest.raises(ValueError, match="label policy odd: the numbers of labels are whole, 0 to that of"):
        c.choose_labels(present, "odd")


@pytest.mark.parametrize("mean", [lambda n: n + 1, lambda n: n - 3])
def test_a_policy_s_mean_is_a_number_of_its_objects(mean, monkeypatch):
    monkeypatch.setitem(labels.LABEL_POLICIES, "odd", labels.LabelPolicy(lambda n, _: n, mean))
    with pytest.raises(ValueError, match="label policy odd: the mean number of labels of 1 objects"):
        Experiment("mine", (1, 3), "odd")


@pytest.mark.parametrize("policy", labels.LABEL_POLICIES)
def test_label_policies(policy):
    n = 3
    generator = torch.Generator().manual_seed(0)
    labeled = c.choose_labels(present(n).repeat(6000, 1), policy, generator)
    assert not labeled[:, n:].any()
    number = labeled.sum(1)
    expected = {"all": {3}, "single": {1}, "drop_one": {2}, "random": {1, 2, 3}, "none": {0}}[policy]
    assert set(number.tolist()) == expected
    share = labeled[:, :n].float().mean(0)  # no object is preferred
    assert (share - number.float().mean() / n).abs().max() < 0.03
    if policy == "random":
        assert all(abs((number == k).float().mean() - 1 / 3) < 0.03 for k in (1, 2, 3))


def test_labels_of_few_objects():
    mixed = present(0, 1, 2)
    for policy, counts in (("all", [0, 1, 2]), ("single", [0, 1, 1]), ("drop_one", [0, 0, 1])):
        assert c.choose_labels(mixed, policy).sum(1).tolist() == counts
    again = [c.choose_labels(mixed, "random", torch.Generator().manual_seed(5)) for _ in range(2)]
    assert torch.equal(*again)


def test_color_counts():
    colors = torch.tensor([[0, 7, 7, -1]], dtype=torch.int8)
    assert c.color_counts(colors, present(3)).tolist() == [[1, 0, 0, 0, 0, 0, 0, 2]]
    assert c.color_counts(colors, present(1)).tolist() == [[1, 0, 0, 0, 0, 0, 0, 0]]
    assert c.COLORS == ("blue", "brown", "cyan", "gray", "green", "purple", "red", "yellow")
    with pytest.raises(ValueError, match="color 8"):
        c.color_counts(torch.tensor([[8]]), present(1, width=1))


def test_errors_name_what_is_allowed():
    with pytest.raises(ValueError, match="'some'; allowed: all, single, random, drop_one, none"):
        c.choose_labels(present(1), "some")
