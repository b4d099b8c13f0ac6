"""A CLEVR scene with controls for objects and light, redrawn by the fast renderer at every change."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from jaxtyping import UInt8

from lcs_utils.clevr.annotations import boxes, trace, visible_pixels
from lcs_utils.clevr.render import render
from lcs_utils.clevr.scenes import (
    BEHIND,
    COLORS,
    MARGIN,
    MATERIALS,
    MIN_DISTANCE,
    MIN_VISIBLE_PIXELS,
    RIGHT,
    SHAPES,
    SIZES,
    Scene,
    sample_scene,
)
from lcs_utils.widgets.controls import Choice, Note, Number, Slider
from lcs_utils.widgets.frames import Picture, Pictured, png_bytes, quick_png
from lcs_utils.widgets.redraw import Redraw
from lcs_utils.widgets.watch import Watch

MOST_OBJECTS = 10  # CLEVR's
LAMPS = ("key", "fill", "back")
LOWEST = 0.5  # height of a lamp above the floor
OPTIONS = {"shape": tuple(SHAPES), "size": tuple(SIZES), "material": tuple(MATERIALS), "color": tuple(COLORS)}
REACH = 3.0  # CLEVR places objects on [-3, 3]^2
SMALL = 64  # pixels of a side while a slider is dragged


@dataclass(frozen=True)
class SceneState:
    """What the controls hold: a scene, the selected object and lamp, each lamp's turn (degrees) and lift."""

    scene: Scene
    selected: int = 0
    lamp: str = "key"
    moved: dict[str, tuple[float, float]] = field(default_factory=lambda: dict.fromkeys(LAMPS, (0.0, 0.0)))


def start(seed: int = 0, count: int = 3) -> SceneState:
    """A fresh CLEVR scene of `count` objects. Raises ValueError for a count outside 1..10 or a
    negative seed.
    """
    if not 1 <= count <= MOST_OBJECTS:
        raise ValueError(f"count must be 1..{MOST_OBJECTS}, got {count}")
    return SceneState(sample_scene(seed, count, count))


def change(state: SceneState, **changes) -> SceneState:
    """The state after changing the selected object (x, y, shape, size, material, color), the lamp (turn,
    lift), or the selection (selected, lamp).

    An object stays on the floor. Raises ValueError for an object or lamp that does not exist, an unknown
    attribute value or key.
    """
    objects = list(state.scene.objects)
    selected = changes.pop("selected", state.selected)
    if not 0 <= selected < len(objects):
        raise ValueError(f"selected must be 0..{len(objects) - 1}, got {selected}")
    lamp = changes.pop("lamp", state.lamp)
    if lamp not in LAMPS:
        raise ValueError(f"unknown lamp {lamp!r}; allowed: {', '.join(LAMPS)}")
    turn, lift = state.moved[lamp]
    moved = state.moved | {lamp: (changes.pop("turn", turn), changes.pop("lift", lift))}
    unknown = set(changes) - {"x", "y", "shape", "size", "material", "color"}
    if unknown:
        known = "x, y, shape, size, material, color, selected, lamp, turn, lift"
        raise ValueError(f"cannot change {', '.join(sorted(unknown))}; allowed: {known}")
    o = objects[selected]
    x, y = changes.pop("x", o.coords[0]), changes.pop("y", o.coords[1])
    o = replace(o, **changes)
    objects[selected] = replace(o, coords=(x, y, SIZES[o.size]), pixel_coords=None)
    return SceneState(replace(state.scene, objects=tuple(objects)), selected, lamp, moved)


def lit_scene(state: SceneState) -> Scene:
    """The scene with its lamps turned about the vertical axis and lifted."""
    places = {}
    for name, (turn, lift) in state.moved.items():
        cos, sin, (x, y, z) = (
            math.cos(math.radians(turn)),
            math.sin(math.radians(turn)),
            getattr(state.scene.lamps, name),
        )
        places[name] = (cos * x - sin * y, sin * x + cos * y, max(z + lift, min(z, LOWEST)))
    return replace(state.scene, lamps=replace(state.scene.lamps, **places))


def picture(state: SceneState, resolution: int = 256) -> UInt8[np.ndarray, "height width 3"]:
    """The rendered state, with brackets around the visible part of the selected object."""
    scene = lit_scene(state)
    image = render([scene], resolution)[0]
    x0, y0, x1, y1 = boxes(trace(scene, resolution, resolution).ids, len(scene.objects))[state.selected]
    if x0 < 0:
        return image
    x0, y0, x1, y1 = max(x0 - 3, 0), max(y0 - 3, 0), min(x1 + 2, resolution - 1), min(y1 + 2, resolution - 1)
    arm = max(2, (x1 - x0) // 5)
    for row, column, down, right in ((y0, x0, 1, 1), (y0, x1, 1, -1), (y1, x0, -1, 1), (y1, x1, -1, -1)):
        for step in range(arm):
            for r, c in ((row + down * step, column), (row, column + right * step)):
                image[min(max(r, 0), resolution - 1), min(max(c, 0), resolution - 1)] = 255
    return image


def placement(scene: Scene) -> str:
    """Whether CLEVR would accept the scene, in words: the circles of the objects' radii keep its gap, their
    centers its margins, and all are seen in its frame; and who is not seen in this square.
    """
    gap = margin = math.inf
    for i, a in enumerate(scene.objects):
        for b in scene.objects[:i]:
            d = np.subtract(a.coords, b.coords)[:2]
            gap = min(gap, float(np.hypot(*d)) - SIZES[a.size] - SIZES[b.size])
            margin = min(margin, abs(float(d @ RIGHT)), abs(float(d @ BEHIND)))
    if gap < 0:
        return "the circles of two objects overlap: CLEVR would reject this scene"
    if gap < MIN_DISTANCE:
        return f"smallest gap {gap:.2f}: CLEVR asks for {MIN_DISTANCE}"
    if margin < MARGIN:
        return f"two objects are aligned within {margin:.2f}: CLEVR asks for {MARGIN}"
    frame = replace(scene, camera=replace(scene.camera, crop="squash", focal=None))  # the whole of it
    for i, pixels in enumerate(4 * visible_pixels(trace(frame, 160, 120).ids, len(scene.objects)), 1):
        if pixels < MIN_VISIBLE_PIXELS:
            return f"object {i} shows {pixels} pixels of the frame: CLEVR asks for {MIN_VISIBLE_PIXELS}"
    unseen = np.flatnonzero(visible_pixels(trace(scene, SMALL, SMALL).ids, len(scene.objects)) == 0) + 1
    words = f"; not in this square: object {', '.join(map(str, unseen))}" if len(unseen) else ""
    return f"CLEVR's gap and margins hold{words}"


def describe(state: SceneState) -> str:
    """The picture in words, for screen readers and where no picture is shown."""
    names = ", ".join(f"{o.size} {o.color} {o.material} {o.shape}" for o in state.scene.objects)
    return f"{len(state.scene.objects)} objects: {names}; {placement(state.scene)}"


def scene_controls(seed: int = 0, count: int = 3, resolution: int = 256) -> Pictured:
    """Live controls of a scene: count and seed; an object's position, shape, size, material and color; each
    lamp.

    A change draws a small picture, followed by the full one when the slider is released; of several changes
    that wait for the renderer only the last is drawn. Without a kernel, shows a picture of the first scene.
    Raises ValueError as `start` does.
    """
    import ipywidgets as w

    first = start(seed, count)
    state, busy, watch = [first], [False], Watch()
    shown = {"layout": {"width": "330px"}}
    at = {"low": -REACH, "high": REACH, "step": 0.1}
    fresh = {
        "count": Slider(count, low=1, high=MOST_OBJECTS, description="objects", **shown),
        "seed": Number(seed, high=9999, description="seed", **shown),
    }
    edits = {
        "selected": Choice((), description="change", tooltip="object to change", **shown),
        "x": Slider(0.0, **at, description="x", **shown),
        "y": Slider(0.0, **at, description="y", **shown),
        **{name: Choice(options, description=name, **shown) for name, options in OPTIONS.items()},
        "lamp": Choice(LAMPS, description="lamp", tooltip="lamp to change", **shown),
        "turn": Slider(0.0, low=-180, high=180, step=5, description="turn °", **shown),
        "lift": Slider(0.0, low=-6, high=6, step=0.5, description="lift", **shown),
    }
    image = Picture(layout={"max_width": "100%"})
    note = Note()

    def draw(small):
        now = state[0]
        drawn = picture(now, min(SMALL, resolution) if small else resolution)
        image.value, image.alt = quick_png(drawn), describe(now)

    def dragged():
        return any(control.dragged for control in everything if isinstance(control, Slider))

    def show():
        now = state[0]
        chosen = now.scene.objects[now.selected]
        busy[0] = True  # the controls follow the state; their events are ignored
        edits["selected"].options = [f"{i + 1}: {o.color} {o.shape}" for i, o in enumerate(now.scene.objects)]
        edits["selected"].value, edits["lamp"].value = now.selected, LAMPS.index(now.lamp)
        edits["turn"].value, edits["lift"].value = now.moved[now.lamp]
        edits["x"].value, edits["y"].value = chosen.coords[:2]
        for name, options in OPTIONS.items():
            edits[name].value = options.index(getattr(chosen, name))
        busy[0] = False
        note.description = placement(now.scene)

    def renew(_):
        if not busy[0]:
            renewed = start(fresh["seed"].value, int(fresh["count"].value))
            state[0] = replace(renewed, lamp=state[0].lamp, moved=state[0].moved)
            show()
            redraw.request()

    def edit(event):
        if not busy[0]:
            name = next(name for name, control in edits.items() if control is event["owner"])
            options = (OPTIONS | {"lamp": LAMPS}).get(name)
            state[0] = change(state[0], **{name: options[event["new"]] if options else event["new"]})
            show()
            redraw.request()

    for control in fresh.values():
        control.observe(renew, "value")
    for control in edits.values():
        control.observe(edit, "value")
    show()
    draw(small=False)
    everything = [*fresh.values(), *edits.values()]
    redraw = Redraw(draw, dragged, watch)
    for control in everything:
        if isinstance(control, Slider):
            control.observe(lambda change: redraw.drop(), "dragged")
    panel = w.VBox([*everything, note, watch], layout={"padding": "0 0 0 16px"}).add_class("lcs-column")
    box = w.HBox([image, panel], layout={"flex_flow": "row wrap"}).add_class("lcs-box")
    return Pictured(box, png_bytes(picture(first, resolution)), describe(first))
