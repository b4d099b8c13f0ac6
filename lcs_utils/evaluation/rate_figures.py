"""Rates along K, or along training, as curves with their intervals (Fig. 1, App. E.2)."""

from collections.abc import Sequence

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from lcs_utils.evaluation import wording
from lcs_utils.evaluation.rates import NUMBERS
from lcs_utils.plotting import MARKERS
from lcs_utils.stats import Interval


def plot_rates(
    found: dict[str, dict[int, dict[str, Interval]]],
    measures: Sequence[str],
    labels: dict[str, str],
    colors: dict[str, str],
    along_training: bool = False,
    said: dict[str, str] | None = None,
) -> Figure:
    """One panel per measure, one line per net against K, its 95% interval as a band (Fig. 1, App. E.2).

    `found` is {net: rates(rows, net)}, or {net: rates.along_training(...)}; `labels` and `colors` by net;
    `said` is appended to a measure's title. Raises KeyError for an unknown measure.
    """
    width = min(3.1 * len(measures), 9.8)  # inches: wider, and its text is too small on a page
    figure, panels = plt.subplots(1, len(measures), figsize=(width, 3.3), squeeze=False)
    shades = dict.fromkeys(colors[net] for net in found)  # trainings of one kind share color and marker
    left = [marker for color, marker in MARKERS.items() if color not in shades]
    markers = dict(zip((color for color in shades if color not in MARKERS), left)) | MARKERS
    for axes, measure in zip(panels[0], measures, strict=True):
        for net, table in found.items():
            ks = [k for k in table if k > 0]
            value, low, high = zip(*(table[k][measure] for k in ks))
            axes.plot(
                ks, value, marker=markers.get(colors[net], "o"), ms=4.5, color=colors[net], label=labels[net]
            )
            axes.fill_between(ks, low, high, color=colors[net], alpha=0.18, lw=0)
        axes.set_title(wording.MEASURES[measure] + (said or {}).get(measure, ""))
        axes.set(xlabel="training images", xscale="log") if along_training else axes.set(
            xlabel="K, locations asked for", xticks=range(0, 13, 2)
        )
        axes.set_ylim(*((0, None) if measure in (*NUMBERS, "K") else (-0.03, 1.03)))
    panels[0, 0].set_ylabel(f"mean ({wording.EARLIER})")
    lines, names = panels[0][0].get_legend_handles_labels()
    columns = len(names) if len(names) < 6 else 4  # no entry alone in a second line
    figure.legend(lines, names, loc="outside lower center", ncols=columns, fontsize=9)
    return figure
