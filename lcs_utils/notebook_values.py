"""What a notebook's parameters may be: defaults, their types, and command-line text as values."""

import ast
import re
from typing import Any

PRESET_NAMES = ("tiny", "small", "paper")
MAX_SEED = 2**32 - 1  # of scenes


def known(preset: str) -> bool:
    """Whether `preset` is one of ours, or a trial of one, such as tiny_2000 (`presets.preset`)."""
    return re.fullmatch(rf"({'|'.join(PRESET_NAMES)})(_[1-9]\d*)?", preset) is not None


class NotebookError(ValueError):
    """Wrong use of a notebook: one sentence with what was given and what is allowed."""


def assigned(source: str) -> dict[str, Any]:
    """The literals assigned at the top level of a parameters cell, by name."""
    values = {}
    for node in ast.parse(source).body:
        targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
        for target in targets:
            if isinstance(target, ast.Name):
                values[target.id] = ast.literal_eval(node.value)
    return values


def check_values(given: dict[str, Any], allowed: dict[str, Any], where: str) -> None:
    """Raise NotebookError unless every name is allowed and has its default's type, `preset` is known and
    `seed` is in 0..MAX_SEED.
    """
    for key, value in given.items():
        if key not in allowed:
            raise NotebookError(f"{where} has no parameter {key!r}; allowed: {', '.join(allowed) or 'none'}")
        default = allowed[key]
        kinds = next(
            (kinds for kinds in ((bool,), (int,), (float, int), (list, tuple)) if isinstance(default, kinds)),
            str,
        )
        if default is not None and (
            not isinstance(value, kinds) or isinstance(value, bool) > isinstance(default, bool)
        ):
            raise NotebookError(
                f"{where}: {key} must be {type(default).__name__} (default {default!r}), got {value!r}"
            )
        if key == "preset" and not known(value):
            raise NotebookError(f"{where}: preset must be one of {', '.join(PRESET_NAMES)}, got {value!r}")
        if key == "seed" and type(value) is int and not 0 <= value <= MAX_SEED:
            raise NotebookError(f"{where}: seed must be in 0..{MAX_SEED}, got {value}")


def parse_values(pairs: list[tuple[str, str]], allowed: dict[str, Any], where: str) -> dict[str, Any]:
    """Command-line pairs as typed values: text where the default is text, Python literals elsewhere."""
    values: dict[str, Any] = {}
    for key, text in pairs:
        if isinstance(allowed.get(key), str):
            values[key] = text
            continue
        try:
            values[key] = ast.literal_eval({"true": "True", "false": "False"}.get(text, text))
        except (ValueError, SyntaxError):
            values[key] = text
        if isinstance(allowed.get(key), float) and type(values[key]) is int:
            values[key] = float(values[key])
    check_values(values, allowed, where)
    return values
