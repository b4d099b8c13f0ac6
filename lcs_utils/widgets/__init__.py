"""Widgets that are live in a notebook, and a picture wherever no kernel runs."""

from lcs_utils.widgets.frames import Pictured, figure_frame, frame_slider, png_bytes

__all__ = ["ConditionSampler", "LocalityExplorer", "Pictured", "figure_frame", "frame_slider", "png_bytes"]


def __getattr__(name):  # these two import torch and diffusers, which a slider over pictures does not need
    if name == "LocalityExplorer":
        from lcs_utils.widgets.explorer import LocalityExplorer

        return LocalityExplorer
    if name == "ConditionSampler":
        from lcs_utils.widgets.condition_grid import ConditionSampler

        return ConditionSampler
    raise AttributeError(f"lcs_utils.widgets has no {name!r}")
