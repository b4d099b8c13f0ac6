"""Claims about text to image (section 4, Figs. 6, 7, App. G), decided by stored rows of a small model like
SDXL beside an untrained one.
"""

from collections.abc import Sequence

import numpy as np

from lcs_utils.claims import Claim, judged
from lcs_utils.stats import Interval, say_interval
from lcs_utils.text_to_image import truth
from lcs_utils.text_to_image.truth import Row


def _words(preset: str) -> list[Row] | None:
    return truth.read() or None


def _levels(rows: Sequence[Row], net: str, measure: str, case: str, control: str = "") -> list[Row]:
    """A number, or its control, at every noise level, ascending."""
    found = [r for r in rows if (r.net, r.measure, r.case, r.control) == (net, measure, case, control)]
    if not found or len({r.sigma for r in found}) != len(found):
        raise ValueError(f"no rows of {net}, {measure}, {case}, one per noise level: `{truth.COMMAND}`")
    return sorted(found, key=lambda row: row.sigma)


def _middle(levels: Sequence[Row]) -> Row:
    return levels[len(levels) // 2]


def _say(rows: Sequence[Row]) -> str:
    return ", ".join(f"{row.net} {say_interval(Interval(*row[-3:]))}" for row in rows)


def _heard(rows: Sequence[Row]) -> tuple[str, str]:
    ways = {
        "word": "the word removed",
        "embedding": "only its embedding removed",
        "attention": "only its attention removed",
    }
    found = [
        [_levels(rows, net, "own part", f"eq. (10), {way}") for net in ("t1", "t2", "untrained")]
        for way in ways
    ]
    # Choice: mostly absent means nearer to chance, one half, than to one; the paper names no noise level
    absent = [row.high < 0.75 for own, *_ in found for row in own]
    verdict, held = judged(absent, "pairs of a way to take a word away and a noise level")
    said = "; ".join(
        f"{words}: {_say([_middle(of) for of in nets])}"
        for words, nets in zip(ways.values(), found, strict=True)
    )
    sigma = f"{_middle(found[0][0]).sigma:g}"
    words = "of a word's influence per place in two objects, the share of its own (chance .5, all of it 1)"
    return f"{words}, at σ = {sigma}, {said}{held}", verdict


def _heard_most(rows: Sequence[Row]) -> tuple[str, str]:
    # Choice: more often than at an object of another picture, and than by an untrained net. The paper skips
    # common words; here they compete, too
    case = "eq. (10), word"
    by_net = [
        _levels(rows, net, "heard most", case, control)
        for net, control in (("t1", ""), ("t1", "another picture"), ("untrained", ""))
    ]
    levels = list(zip(*by_net, strict=True))
    verdict, held = judged(
        [own.low > max(null.high for null in nulls) for own, *nulls in levels], "noise levels"
    )
    said = "; ".join(
        f"σ = {own.sigma:g}: {_say([own])} (at another picture's object {there.value:.2f}, untrained "
        f"{bare.value:.2f})"
        for own, there, bare in levels
    )
    words = (
        "objects at which one of their two words is heard most of all seven, the word removed (chance .29)"
    )
    return f"{words}, {said}{held}", verdict


def _near(rows: Sequence[Row]) -> tuple[str, str]:
    # Choice: places look near if, at every noise level, the 90% square is at most half as wide as the
    # picture (16 latents), as in Figs. 2 and 10, and narrower than what an untrained net computes (its eps:
    # an eps that learned nothing does not cancel the x_t in D, which looks at its own place)
    said, near, sides = [], [], [row for row in rows if row.measure == "side"]
    for where in ("objects", "background"):
        of = {
            net: sorted(
                (row for row in sides if (row.net, row.case) == (net, f"eq. (9), {where}")),
                key=lambda row: row.sigma,
            )
            for net in ("t1", "t2", "untrained")
        }
        if not of["t1"] or not of["untrained"]:
            raise ValueError(f"no sides of eq. (9), {where}, of t1 and untrained: `{truth.COMMAND}`")
        pairs = list(zip(of["t1"], of["untrained"], strict=True))  # by noise level
        near.append(all(own.high <= 8 and own.high < bare.low for own, bare in pairs))
        widest = [max(each, key=lambda row: row.value) for each in of.values() if each]
        said.append(f"{where}: {_say(widest)}")
    verdict, held = judged(near, "regions")
    n = pairs[0][0].n
    few = " (intervals of so few are too narrow)" if n < truth.ENOUGH else ""
    words = "side of the 90% square of eq. (9) in latents, of 16, widest over noise levels"
    return f"{words}, {n} pictures{few}, {'; '.join(said)}{held}", verdict


def _composed(rows: Sequence[Row]) -> tuple[str, str]:
    # Choice: similarity to all prompts is not composition, so what counts is by how much the cosine with the
    # word's own single prompt exceeds the mean of the others', at each word, beside an untrained net's
    of = {(r.net, r.case, r.control): r.value for r in rows if r.measure == "composite cosine"}
    said, near = [], []
    if not {"t1", "untrained"} <= {net for net, *_ in of}:
        raise ValueError(f"no composite cosines of t1 and untrained: `{truth.COMMAND}`")
    for baseline, words in (("empty", 'minus ""'), ("mean", "minus the mean of prompts")):
        cases = [case for net, case, control in of if net == "t1" and not control and baseline in case[:5]]
        own, bare = (np.array([of[net, case, ""] for case in cases]) for net in ("t1", "untrained"))
        lead = own - [of["t1", case, "other"] for case in cases]
        bare_lead = bare - [of["untrained", case, "other"] for case in cases]
        near.append(bool((lead > bare_lead).all()))
        count = f"more than untrained at {(lead > bare_lead).sum()} of {len(cases)} words"
        said.append(
            f"{words}: {own.mean():.2f}, {lead.mean():.2f} above the others (untrained {bare.mean():.2f}, "
            f"{bare_lead.mean():.2f}), {count}"
        )
    verdict, held = judged(near, "baselines")
    return f"mean cosine in the mid block, {'; '.join(said)}{held}", verdict


def _blocks(rows: Sequence[Row]) -> tuple[str, str]:
    said, held = [], []
    for baseline, words in (("empty", 'minus ""'), ("mean", "minus the mean of prompts")):
        case = f"{baseline}: within minus between, mid block"
        of = [
            _levels(rows, net, "kinds", case, control)
            for net, control in (("t1", ""), ("t1", truth.FIRST), ("untrained", ""))
        ]
        # Choice: alike at the words, and not as much at the first words of the same prompts
        held += [own.low > max(0, *(null.high for null in nulls)) for own, *nulls in zip(*of, strict=True)]
        each = [
            f"{_say([own])} (first word {first.value:.2f}, untrained {bare.value:.2f})"
            for own, first, bare in zip(*of, strict=True)
        ]
        said.append(f"{words}: {'; '.join(each)}")
    verdict, words = judged(held, "pairs of a baseline and a noise level")
    sigmas = ", ".join(f"{row.sigma:.2g}" for row in of[0])
    few = f", {of[0][0].n} draws (intervals of so few are too narrow)" if of[0][0].n < truth.ENOUGH else ""
    told = f"mean cosine within kinds of words minus between, mid block, at σ = {sigmas}{few}"
    return f"{told}, {'; '.join(said)}{words}", verdict


def _added(rows: Sequence[Row]) -> tuple[str, str]:
    kinds = ("object and style", "two objects")
    found = [
        [_levels(rows, net, "additivity", f"{kind}, mid block") for net in ("t1", "untrained")]
        for kind in kinds
    ]
    added = [own.low > max(0, bare.high) for pair in found for own, bare in zip(*pair, strict=True)]
    verdict, words = judged(added, "pairs of a kind of prompt and a noise level")
    said = "; ".join(
        f"{kind}: {_say([_middle(of) for of in pair])}" for kind, pair in zip(kinds, found, strict=True)
    )
    return f"R2 in the mid block, at σ = {_middle(found[0][0]).sigma:g}, {said}{words}", verdict


CLAIMS = (
    Claim(
        "Fig. 6, abstract: in pixel space, where a word has influence is mostly unrelated to where its "
        "object is (a small model like SDXL)",
        "mostly absent",
        "09",
        _words,
        _heard,
    ),
    Claim(
        "Section 4, Fig. 6: where an object is drawn, its own word is heard most, at most noise levels (a "
        "small model like SDXL)",
        "suggested",
        "09",
        _words,
        _heard_most,
    ),
    Claim(
        "Abstract, last version: in pixel space, places look near (a small model like SDXL)",
        "present",
        "09",
        _words,
        _near,
    ),
    Claim(
        "Figs. 7, 13, section 4: in the mid block, related words attend alike, others less so (a small model "
        "like SDXL)",
        "suggested",
        "10",
        _words,
        _blocks,
    ),
    Claim(
        "Fig. 7, App. G: at a word, attention in a composite prompt is like that in the word's single "
        "prompt (a small model like SDXL)",
        "suggested",
        "10",
        _words,
        _composed,
    ),
    Claim(
        "Prompts, not in the paper: they are additive in feature space (a small model like SDXL)",
        "–",
        "10",
        _words,
        _added,
    ),
)
