"""The scene's controls: a pure state, a picture that follows it, and a widget that follows both."""

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from lcs_utils.clevr.annotations import trace
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import SIZES
from lcs_utils.widgets import scene_controls as c


def changed(a, b):
    return np.abs(c.picture(a, 64).astype(int) - c.picture(b, 64)).max(2) > 30


def test_a_state_is_a_scene_and_a_picture_of_it():
    state = c.start(3, 4)
    assert state == c.start(3, 4) != c.start(4, 4) and len(state.scene.objects) == 4
    image, plain = c.picture(state, 64), render([state.scene], 64)[0]
    bracket = (image != plain).any(2)
    assert 4 <= bracket.sum() < 80 and (image[bracket] == 255).all()
    assert "CLEVR's gap and margins hold" in c.describe(state)


def test_changes_move_paint_and_light():
    state = c.change(
        c.start(0, 2), shape="sphere", size="large", material="rubber", color="red", x=0.0, y=0.0
    )
    o = state.scene.objects[0]
    assert o.coords == (0.0, 0.0, SIZES["large"])
    seen = trace(state.scene, 64, 64).ids == 0
    assert render([state.scene], 64)[0][seen].mean(0).argmax() == 0  # red
    blue = c.change(state, color="blue")
    assert render([blue.scene], 64)[0][seen].mean(0).argmax() == 2
    assert changed(state, blue)[seen].mean() > 0.8 and changed(state, blue)[~seen].mean() < 0.05
    assert c.change(state, size="small").scene.objects[0].coords[2] == SIZES["small"]  # stays on the floor
    turned = c.change(state, turn=150.0)
    assert (
        turned.scene == state.scene and changed(state, turned)[~seen].mean() > 0.02
    )  # only the light differs
    assert np.isclose(np.linalg.norm(c.lit_scene(turned).lamps.key), np.linalg.norm(state.scene.lamps.key))
    assert c.lit_scene(state) == state.scene
    for lamp in c.LAMPS:  # each turns and lifts by itself
        for change in ({"turn": 150.0}, {"lift": 6.0}):
            lit = c.change(state, lamp=lamp, **change)
            assert (c.picture(lit, 64) != c.picture(state, 64)).any()
            moved = [
                name
                for name in c.LAMPS
                if getattr(c.lit_scene(lit).lamps, name) != getattr(state.scene.lamps, name)
            ]
            assert moved == [lamp] and c.change(lit, lamp="key").moved == lit.moved
    assert c.lit_scene(c.change(state, lift=-99.0)).lamps.key[2] == c.LOWEST


def test_placements_that_clevr_would_reject_are_named():
    first, other = c.start(0, 2), c.start(0, 2).scene.objects[1].coords
    assert "circles of two objects overlap" in c.placement(c.change(first, x=other[0], y=other[1]).scene)
    reach = sum(SIZES[o.size] for o in first.scene.objects)
    near = c.change(first, x=other[0] + reach + 0.1, y=other[1])
    assert "smallest gap 0.10" in c.placement(near.scene)
    aligned = c.change(first, x=other[0] + 0.6563 * (reach + 1), y=other[1] + 0.7545 * (reach + 1))
    assert "aligned within 0.00" in c.placement(aligned.scene)


def test_objects_that_are_not_seen_are_named():
    state = c.change(c.start(1, 4), x=3.0, y=3.0)
    assert c.placement(state.scene) == "CLEVR's gap and margins hold; not in this square: object 1"
    away = c.change(state, x=30.0, y=30.0)
    assert c.placement(away.scene) == "object 1 shows 0 pixels of the frame: CLEVR asks for 200"
    for seed in range(20):  # what CLEVR's own procedure gives is never refused
        assert c.placement(c.start(seed, 8).scene).startswith("CLEVR's gap and margins hold")


def test_bad_changes_are_refused():
    for changes, message in (
        ({"selected": 2}, r"selected must be 0\.\.1, got 2"),
        ({"color": "pink"}, "unknown color 'pink'; allowed: blue"),
        ({"weight": 3}, "cannot change weight; allowed: x, y"),
        ({"lamp": "sun"}, "unknown lamp 'sun'; allowed: key, fill, back"),
    ):
        with pytest.raises(ValueError, match=message):
            c.change(c.start(0, 2), **changes)
    with pytest.raises(ValueError, match=r"count must be 1\.\.10, got 11"):
        c.start(0, 11)


def test_the_widget_follows_its_controls():
    with ThreadPoolExecutor() as own:  # the browser tests leave a running loop in this thread
        own.submit(follow).result()


def follow():
    live = c.scene_controls(seed=0, count=2, resolution=48)
    image, panel = live.widget.children
    controls = {child.description: child for child in panel.children[:-2]}

    def shown():
        return np.asarray(Image.open(io.BytesIO(image.value)))

    assert np.array_equal(shown(), c.picture(c.start(0, 2), 48))
    color = controls["color"]
    color.value, controls["x"].value = color.options.index("yellow"), 1.5
    state = c.change(c.change(c.start(0, 2), color="yellow"), x=1.5)
    assert np.array_equal(shown(), c.picture(state, 48)) and "yellow" in image.alt
    controls["change"].value = 1  # the other controls show the second object, and change nothing
    assert color.options[color.value] == state.scene.objects[1].color
    assert np.array_equal(shown(), c.picture(c.change(state, selected=1), 48))
    controls["objects"].value = 5
    assert np.array_equal(shown(), c.picture(c.start(0, 5), 48)) and len(controls["change"].options) == 5
    bundle, metadata = live._repr_mimebundle_()
    assert metadata["image/png"]["alt"] == bundle["text/plain"]
    assert {"application/vnd.jupyter.widget-view+json", "image/png", "text/plain"} <= set(bundle)
