"""Classes of nets by name: EDM2's U-net and those of one's own, which a preset's `architecture` names.

A class of one's own is a diffusers `ModelMixin, ConfigMixin`. Its `__init__(self, cond_dim, ...)`, decorated
with diffusers' `register_to_config`, takes the settings of the preset's `net` (of `patch_net` for local nets)
by name; one called `normalize_label` is the experiment's. Its `forward(self, x, c_noise, cond)` is the raw
network F of `models.precond.precondition`: images [batch 3 side side] of about unit variance, ln(sigma)/4
[batch] and conditions [batch cond_dim] -> [batch 3 side side]; `side` is `Preset.side`. That of a local net
takes `valid` [batch 1 side side], too: 1 inside the image, 0 outside.

Only parameters are averaged, so no buffer may change in training, as a batch norm's do. Dropout is drawn
anew after a resume. A class that computes in `self.config.dtype_inside` is measured in the dtype asked for.
The preset's learning rate is the class's own: EDM2's is for weights of unit magnitude.
"""

import inspect
import json
from typing import Any

from lcs_utils.checks import check_text

EDM2 = "edm2"
ARCHITECTURES: dict[str, Any] = {EDM2: None}  # EDM2UNet, which takes seconds to import
GIVEN = ("cond_dim", "normalize_label")  # by the experiment
NEEDED = inspect.Parameter.empty  # the default of a setting without one


def settings(kind: type) -> dict[str, Any]:
    """{argument of a class: its default, or NEEDED}."""
    arguments = list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
    return {a.name: a.default for a in arguments if a.kind not in (a.VAR_POSITIONAL, a.VAR_KEYWORD)}


def net_class(name: str) -> Any:
    """One's own class of this name. Raises TypeError or ValueError for an unknown name, and for a class
    without the contract.
    """
    if check_text("architecture", name) not in ARCHITECTURES:
        raise ValueError(
            f"unknown architecture {name!r}, which the file that LCS_EXPERIMENTS names must add; known: "
            f"{', '.join(ARCHITECTURES)}"
        )
    from diffusers import ConfigMixin, ModelMixin  # takes seconds, which the class has spent already

    kind, what = ARCHITECTURES[name], f"architecture {name!r}"
    if not (isinstance(kind, type) and issubclass(kind, ModelMixin) and issubclass(kind, ConfigMixin)):
        raise TypeError(f"{what} must be a class of diffusers' ModelMixin and ConfigMixin, got {kind!r}")
    if "cond_dim" not in settings(kind):
        raise ValueError(f"{what}: __init__ must take cond_dim, got {', '.join(settings(kind)) or 'nothing'}")
    try:
        inspect.signature(kind.forward).bind(None, "x", "c_noise", "cond")
    except TypeError:
        got = inspect.signature(kind.forward)
        raise ValueError(f"{what}: forward must take (self, x, c_noise, cond), got {got}") from None
    named = {other for other in ARCHITECTURES.values() if getattr(other, "__name__", "") == kind.__name__}
    if len(named) > 1 or kind.__name__ == "EDM2UNet":  # which checkpoints call it
        raise ValueError(f"{what}: another class is called {kind.__name__}, too; give yours another name")
    return kind


def check_settings(name: str, of: str, given: dict[str, Any]) -> None:
    """Raise TypeError or ValueError for settings, `of` a preset's net, that the class does not take."""
    kind = net_class(name)
    taken = [setting for setting in settings(kind) if setting not in GIVEN]
    if unknown := [str(setting) for setting in given if setting not in taken]:
        raise ValueError(
            f"{of}: {kind.__name__} takes the settings {', '.join(taken) or 'none'}, got {', '.join(unknown)}"
        )
    try:
        json.dumps(given)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{of}: settings are stored as JSON, got {given} ({error})") from None


def check_use(name: str, of: str, given: dict[str, Any], local: bool, normalize_label: bool) -> None:
    """Raise ValueError for settings that the class needs and lacks, and for an experiment, `of` a preset,
    that it cannot serve.
    """
    kind, taken = net_class(name), settings(net_class(name))
    if missing := [n for n, value in taken.items() if value is NEEDED and n not in (*GIVEN, *given)]:
        raise ValueError(f"{of}: {kind.__name__} needs the settings {', '.join(missing)}, got {given}")
    if local and "valid" not in inspect.signature(kind.forward).parameters:
        got = inspect.signature(kind.forward)
        raise ValueError(
            f"{of}: a local net's forward must take (self, x, c_noise, cond, valid), "
            f"{kind.__name__}'s is {got}"
        )
    if normalize_label and "normalize_label" not in taken:
        raise ValueError(f"{of}: {kind.__name__} must take normalize_label, got {', '.join(taken)}")
