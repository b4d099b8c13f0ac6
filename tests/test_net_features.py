"""Features of trained and of stub nets as rows: Exp. 1 against Exp. 2 and an untrained net, locations and
colors.
"""

import pytest
import torch

from lcs_utils import store
from lcs_utils.evaluation.family_grids import HELD_OUT
from lcs_utils.evaluation.features import feature_causal, feature_nets, net_features
from lcs_utils.evaluation.features.feature_nets import Subject
from lcs_utils.evaluation.features.net_features import FeatureRow, Setting
from lcs_utils.features import measures
from lcs_utils.features.capture import Space
from lcs_utils.features.measures import Measured, additivity, own_share
from lcs_utils.models.precond import EDMDenoiser
from lcs_utils.models.unet import EDM2UNet, MCScale

SMALL = dict(channels=16, channel_mult=[1, 2], num_blocks=1, attention_levels=[], head_channels=8)
FIRST = Setting(2.0, "noise", "first", 4)


def stub(cond_dim=8, name="stub", seed=0):
    """An untrained net of few channels that does use its conditions."""
    module = feature_nets.untrained_net(EDM2UNet(cond_dim=cond_dim, **SMALL), seed)
    return Subject(name, "0" * 12, EDMDenoiser(module, 0.5), module, 8, 2)


@pytest.fixture(scope="module")
def trained():
    """{net: sums of the shipped nets and of an untrained one}, at sigma = 2."""
    nets = {net: feature_nets.subject(net) for net in ("exp1", "exp2")}
    nets["untrained"] = feature_nets.untrained_twin(nets["exp1"], 0.14)
    return {name: net_features.sums(of, FIRST, (4,)) for name, of in nets.items()}


def test_additivity_tells_the_net_that_composes(trained):
    """Exp. 1's denoiser adds its conditions at K = 3, Exp. 2's and an untrained net's do not; so with
    removals at K = 4.
    """
    at = {net: sums[Space("denoiser")] for net, sums in trained.items()}
    added = {net: additivity(sums, (3,))[0].value for net, sums in at.items()}
    assert added["exp1"] > 0.9 and added["exp2"] < 0 and added["untrained"] < 0.8
    own = {net: own_share(sums, (4,))[0].value for net, sums in at.items()}
    assert own["exp1"] > 0.75 and own["exp2"] < 0.3 and own["untrained"] < 0.55


def test_layers_are_counted_and_read_in_three_ways(trained):
    spaces = list(trained["exp1"])
    assert len(spaces) == 3 * 10 + 1 and spaces[-1] == Space("denoiser")
    assert sum(space.layer.startswith("encoder") for space in spaces) == 3 * 3
    sizes = {
        space.reading: trained["exp1"][space].size for space in spaces if space.layer == "encoder.0.scale"
    }
    assert sizes == {"flat": 64 * 16 * 16, "mean": 64, "scale": 64}
    assert feature_nets.caption("encoder.0.scale", 16, 32) == "encoder 1, 16 of 32 px"


def test_the_scale_is_what_multiplies():
    """The factors of an MCScale are those by which its output differs from its input."""
    scale = MCScale(4, 3)
    torch.nn.init.constant_(scale.gain, 0.7)
    y, emb = torch.randn(2, 3, 5, 5), torch.randn(2, 4)
    factors = 1 + scale.linear(emb, gain=scale.gain)
    torch.testing.assert_close(scale(y, emb), y * factors[:, :, None, None])


def test_an_untrained_net_hears_its_conditions_and_is_a_function_of_its_seed():
    one, same, other = (stub(seed=s).module for s in (0, 0, 1))
    for a, b in zip(one.parameters(), same.parameters(), strict=True):
        assert torch.equal(a, b)
    assert not torch.equal(one.conv_in.weight, other.conv_in.weight)
    x, sigma = torch.randn(2, 3, 8, 8), torch.ones(2)
    told = EDMDenoiser(one, 0.5)(x[:1].expand(2, -1, -1, -1), sigma, torch.eye(8)[:2])
    assert float((told[0] - told[1]).abs().max()) > 1e-3


def test_color_nets_are_measured_like_location_nets(monkeypatch):
    monkeypatch.setattr(measures, "ROTATIONS", 5)
    monkeypatch.setattr(measures, "RESAMPLES", 20)
    monkeypatch.setattr(net_features, "LAYERS", "encoder.0.scale")
    for cond_dim, kind in ((8, "color"), (256, "location")):
        of = stub(cond_dim)
        assert feature_nets.condition_kind(cond_dim) == kind
        rows = net_features.net_rows(of, "tiny", Setting(2.0, "noise", "random", 4), ks=(2, 8), removals=(2,))
        layers = {row.layer for row in rows}
        assert layers == {"encoder.0.scale", "denoiser"}
        assert {row.measure for row in rows} == {
            "cosine",
            "cosine_abs",
            "additivity",
            "effect",
            "own_share",
            "overlap",
            "probe",
        }
        assert {row.control for row in rows} == {"", "permuted", "random", "rotated"}
        twin = feature_nets.untrained_twin(of, 0.5)
        assert twin.net == {"color": "untrained_color", "location": "untrained"}[kind]


def test_the_untrained_twin_is_one_for_all_nets_of_a_size_and_where_they_are():
    of = stub()
    twin = feature_nets.untrained_twin(of, 0.5)
    told_otherwise = EDM2UNet(cond_dim=8, normalize_label=True, **SMALL)
    other = of._replace(module=told_otherwise, trained=6)
    same = feature_nets.untrained_twin(other, 0.5)
    assert (same.weights, same.trained) == (twin.weights, twin.trained)
    assert not same.module.config.normalize_label
    away = feature_nets.untrained_twin(of._replace(module=stub().module.to("meta")), 0.5)
    assert next(away.module.parameters()).device.type == "meta"


def test_a_stopped_run_goes_on_and_other_weights_replace(tmp_path, monkeypatch):
    file, ran = tmp_path / "features.csv", []
    monkeypatch.setattr(net_features, "subject", lambda net, preset, device: stub(name=net))

    def counted(of, preset, setting, progress):
        ran.append(of.net)
        return net_features.rows_of(
            of, preset, setting, [(Space("denoiser"), Measured("additivity", 2, "", 0.5, 0.4, 0.6))]
        )

    monkeypatch.setattr(net_features, "net_rows", counted)
    settings = [Setting(2.0, "noise", "first", 4), Setting(10.0, "noise", "first", 4)]
    net_features.measure("stub", settings=settings[:1], file=file)
    assert ran == ["stub", "untrained_color"]
    before = file.read_text()
    net_features.measure("stub", settings=settings[:1], file=file)
    assert len(ran) == 2 and file.read_text() == before
    net_features.measure("stub", settings=settings, file=file)
    assert len(ran) == 4
    monkeypatch.setattr(
        net_features, "subject", lambda net, preset, device: stub(name=net)._replace(weights="1" * 12)
    )
    net_features.measure("stub", settings=settings[:1], file=file)
    assert {row.weights for row in net_features.store.read_rows(file, FeatureRow) if row.net == "stub"} == {
        "1" * 12
    }


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["exp9"], "exp9"),
        (["exp3"], "a local patch net, whose layers see patches"),
        (["exp1", "--draws", "3"], "at least 2 draws, so at least 4 in all; got 3"),
        (["exp1", "--sigmas", "0"], "sigma must be > 0, got 0"),
    ],
)
def test_bad_arguments_are_one_clear_sentence(arguments, says, capsys, tmp_path):
    with pytest.raises(SystemExit):
        net_features.main([*arguments, "--inputs", "noise", "--rows", str(tmp_path / "rows.csv")])
    assert says in capsys.readouterr().err and not list(tmp_path.glob("*.csv"))


def test_a_net_of_the_other_kind_is_named():
    with pytest.raises(
        ValueError, match=r"exp1 takes location conditions \(256 numbers\), color conditions were asked for"
    ):
        feature_nets.check_kind("exp1", 256, "color")
    with pytest.raises(ValueError, match="this one takes 51"):
        feature_nets.singles(51)
    with pytest.raises(ValueError, match="inputs must be one of noise, renders"):
        net_features.draws_of(Setting(1.0, "photos"), 8)


def test_places_are_the_cells_around_each_location():
    places = feature_nets.near_places(32)
    assert (
        places.shape == (8, 32, 32) and places.flatten(1).sum(1).tolist() == [100] * 8
    )  # 5 x 5 cells of 2 x 2 px
    assert places[0, 20, 20] and not places[0, 20, 27]  # (0.65, 0.65) is cell (10, 10)
    with pytest.raises(ValueError, match="does not divide"):
        feature_nets.near_places(40)


def test_all_nets_are_shown_the_same_noise():
    """Differences between nets are differences of nets: directions and additivity start from one noise."""

    def first_seen(measure, seed):
        shown = []
        for net in (stub(256), stub(256, "other", 1)):
            of = net._replace(resolution=16)
            seen = []
            kept = of._replace(
                denoise=lambda x, *rest, of=of, seen=seen: seen.append(x) or of.denoise(x, *rest)
            )
            measure(kept, seed)
            shown.append(seen[0])
        return shown

    def sums(of, seed):
        net_features.sums(of, FIRST, (4,), seed)

    def causes(of, seed):
        feature_causal.causal_rows(of, "tiny", ["encoder.0.scale"], 0.5, images=2, steps=2, seed=seed)

    for measure in (sums, causes):
        (one, other), (again, _) = (first_seen(measure, seed) for seed in (0, 1))
        assert torch.equal(one, other) and not torch.equal(one, again)


def test_causes_are_measured_at_the_layers_that_a_net_has(tmp_path, monkeypatch):
    of = stub(256)._replace(resolution=16, net="stub", weights="w")
    monkeypatch.setattr(feature_causal, "subject", lambda *_: of)
    asked = []
    monkeypatch.setattr(
        feature_causal,
        "causal_rows",
        lambda of, preset, layers, *_, **__: asked.append(list(layers)) or [row(layer) for layer in layers],
    )

    def row(layer, value=0.0):
        how = (layer, "flat", 0.0, "samples", "first", 2, "add_effect", 3, "")
        return net_features.FeatureRow("tiny", "stub", "w", *how, value, value, value)

    file, kept = tmp_path / "features.csv.bz2", row("decoder.9.scale", 1.0)
    store.write_rows(file, net_features.COMMAND, net_features.FeatureRow, [kept])
    monkeypatch.setattr(feature_causal, "LAYERS", ("encoder.0.scale", "encoder.99.scale"))
    for _ in range(2):  # what is there is left
        found = feature_causal.measure("stub", "tiny_64", file=file, images=2)
        assert row("encoder.0.scale") in found and asked == [["encoder.0.scale"]]
    feature_causal.measure("stub", layers=["decoder.9.scale"], file=file)  # in place of the old one
    assert asked == [["encoder.0.scale"], ["decoder.9.scale"]]
    read = store.read_rows(file, net_features.FeatureRow)
    assert read == [row("decoder.9.scale"), row("encoder.0.scale")]


def test_causal_rows_have_every_control_and_colors_need_a_counter():
    of = stub(256)._replace(resolution=16)
    rows = feature_causal.causal_rows(of, "tiny", ["encoder.0.scale"], 0.5, images=2, steps=3)
    assert {row.measure for row in rows} == {"add_effect", "add_leak", "remove_effect", "remove_leak"}
    assert {row.control for row in rows} == {"", "condition", "random", "another", "untrained"}
    told = [row.value for row in rows if row.control == "condition" and row.measure == "add_effect"]
    assert told == [pytest.approx(1, abs=1e-3)]
    with pytest.raises(ValueError, match="takes colors, which have no place"):
        feature_causal.causal_rows(stub(8), "tiny", ["encoder.0.scale"], 0.5)
    counted = feature_causal.causal_rows(
        stub(8),
        "tiny",
        ["encoder.0.scale"],
        0.5,
        images=2,
        steps=2,
        count=lambda images: images[:, 0].flatten(1)[:, :8],
    )
    assert len(counted) == len(rows)
    with pytest.raises(ValueError, match="an intervention is on one layer, 'MCScale' is"):
        feature_causal.causal_rows(of, "tiny", ["MCScale"], 0.5)


def test_rows_of_another_alpha_want_a_file_of_their_own():
    with pytest.raises(ValueError, match="alpha 2 want a file of their own, --rows FILE"):
        feature_causal.measure("exp1", alpha=2.0)


def test_renders_under_noise_are_of_scenes_that_no_net_saw(monkeypatch):
    drawn = []

    def sample_scene(seed, index, number, real=net_features.sample_scene, **more):
        drawn.append((seed, index, number))
        return real(seed, index, number, **more)

    monkeypatch.setattr(net_features, "sample_scene", sample_scene)
    net_features.scene_images.__wrapped__(4, 16)
    assert drawn == [(HELD_OUT, 0, 1), (HELD_OUT, 1, 2), (HELD_OUT, 2, 3), (HELD_OUT, 3, 1)]
