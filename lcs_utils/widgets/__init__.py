"""Widgets that are live in a notebook and a picture wherever no kernel runs."""

from lcs_utils.widgets.frames import Pictured, figure_frame, frame_slider, png_bytes

__all__ = ["Pictured", "figure_frame", "frame_slider", "png_bytes"]
