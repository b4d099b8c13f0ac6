"""What the eye says beside the counter, as a figure and a table (App. E.2)."""

from collections.abc import Sequence

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from lcs_utils.evaluation.eye.by_eye import (
    EYE,
    JUDGED,
    RANDOM,
    SIZE,
    SPANS,
    Compared,
    Twice,
    by_same_judges,
)
from lcs_utils.evaluation.eye.hand_count_rows import HandCount
from lcs_utils.evaluation.wording import CELLS
from lcs_utils.plotting import PALETTE


def plot(found: Compared, second: Compared | None = None) -> Figure:
    """Left: share that looks right, by eye (filled) and counter (hollow). Middle and right: mean number of
    objects, counter minus eye and eye minus asked.

    One row per net or control, by the cells asked for, one mark per span of K; bars: 95% over images.
    Diamonds: the second counter.
    """
    groups: dict[str, list[str]] = {}
    for label in found.seen:
        groups.setdefault(RANDOM if label.endswith(RANDOM) else CELLS["test"], []).append(label)
    lines = [line for where, labels in groups.items() for line in (f"{where}, {SIZE}", *labels)]
    figure, panels = plt.subplots(1, 3, figsize=(9.6, 0.5 * len(lines) + 1.6), sharey=True)
    shades = dict(zip(SPANS, (PALETTE["blue"], PALETTE["orange"], PALETTE["purple"])))
    for y, label in enumerate(lines):
        spans = found.seen.get(label, {})
        for i, (span, color) in enumerate(shades.items()):
            if span not in spans:
                continue
            at, of = y + 0.24 * (i - 1), spans[span]
            for axes, value, fill in (
                (panels[0], of.eye, color),
                (panels[0], of.counter, "white"),
                (panels[1], of.bias, color),
                (panels[2], of.extras, color),
            ):
                own = at + 0.08 * (fill == "white")
                axes.plot([value.low, value.high], [own, own], color=color, lw=1, alpha=0.6)
                axes.plot(value.value, own, "o", ms=5, color=color, mfc=fill)
            other = second.seen.get(label, {}).get(span) if second is not None else None
            if other is not None:
                panels[0].plot(other.counter.value, at + 0.08, "D", ms=4, color=color, mfc="white")
                panels[1].plot(other.bias.value, at + 0.08, "D", ms=4, color=color, mfc="white")
    panels[0].set(title="looks right: filled, to the\neye; hollow, to the counter", xlim=(-0.04, 1.04))
    panels[1].set(title="objects by the counter\nminus by eye")
    panels[2].set(title="objects by eye\nminus asked for")
    for axes in panels[1:]:
        axes.axvline(0, color="0.5", lw=1, ls="--")
    panels[0].set_yticks(range(len(lines)), [line.removesuffix(f", {RANDOM}") for line in lines])
    for line, tick in zip(lines, panels[0].get_yticklabels()):
        tick.set_fontweight("normal" if line in found.seen else "bold")
    panels[0].set_ylim(len(lines) - 0.5, -0.5)
    keys = [plt.Line2D([], [], color=color, marker="o", ms=5) for color in shades.values()]
    words = list(shades)
    if second is not None:
        keys.append(plt.Line2D([], [], color="0.3", marker="D", ms=4, mfc="white", ls=""))
        words.append("second counter")
    figure.legend(keys, words, loc="outside lower center", ncols=4, fontsize=9)
    return figure


def markdown(found: Compared, again: Twice | None = None, second: Compared | None = None) -> str:
    """The numbers of `plot` as a table, and the agreement in a sentence, next to the eye's with itself; the
    second counter's numbers after a slash.
    """
    lines = [
        f"| {SIZE} | pictures | look right to the eye | to the counter | objects, counter "
        "minus eye | objects, eye minus asked |",
        "|---|---|---|---|---|---|",
    ]
    for label, spans in found.seen.items():
        for span, of in spans.items():
            other = second.seen.get(label, {}).get(span) if second is not None else None
            looks, bias = f"{of.counter.value:.2f}", f"{of.bias.value:+.2f}"
            if other is not None:
                looks += f" / {other.counter.value:.2f}"
                bias += f" / {other.bias.value:+.2f}"
            lines.append(
                f"| {label}, {span} | {of.samples} | {of.eye.value:.2f} | {looks} | {bias} "
                f"| {of.extras.value:+.2f} |"
            )
    n = len(found.all.pairs)
    said = f"{n} pictures. Cohen's kappa between eye and counter, of looks: {found.kappa_looks:.2f}; of the "
    said += f"count: {found.kappa_counts:.2f}." + " After a slash: the second counter." * (second is not None)
    if again:
        said += (
            f" Of these {again.pictures} were looked at twice. Kappa of looks and of counts on them, the eye "
            f"with itself: {again.kappa_looks:.2f} and {again.kappa_counts:.2f}, the same count in "
            f"{again.same:.2f}; with the counter: {again.counter_looks:.2f} and {again.counter_counts:.2f}."
        )
    return "\n".join(lines) + f"\n\n{said}\n"


def by_judges(hands: Sequence[HandCount]) -> str:
    """A table for each group of judges (`by_eye.JUDGED`) that judged something, under what they judged."""
    titles = {judges: f"**Judged {judges.removeprefix(f'{EYE}, ')}**" for judges in JUDGED}
    return "\n".join(f"{title}\n\n{markdown(by_same_judges(hands, of))}" for of, title in titles.items())
