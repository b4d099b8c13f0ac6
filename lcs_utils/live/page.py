"""The front page of the web edition: the article "Locality you can slide" and all that its scripts load.

Every number in it comes from the shipped rows and figures when the page is built; what is not known yet is
left out.
"""

import argparse
import base64
import gzip
import hashlib
import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm.auto import tqdm

from lcs_utils import checkpoints, nets, paths, provenance, store
from lcs_utils.clevr.conditions import GRID_SIZE
from lcs_utils.live import export, runtime, stored, words
from lcs_utils.live.nets import NETS, STEPS, counter_version, resolution

HERE = Path(__file__).parent
PLACE = "_static/live"  # below the front page
SCRIPTS = ("noise.js", "sampler.js", "nets.js", "page.js")
CODE = "import lcs_utils.live.stored\nimport lcs_utils.live.export\n"
LARGEST_LOAD = 40e6  # bytes


def kept() -> Path:
    """Where graphs, samples and maps of the current nets, counter and code are cached between builds."""
    rests_on = [provenance.digest(provenance.imported_files(CODE)), *(net.weights for net in NETS)]
    rests_on.append(counter_version())
    return paths.RUNS / "live" / hashlib.sha256(" ".join(rests_on).encode()).hexdigest()[:16]


def known() -> tuple[dict, dict[str, bytes]]:
    """`stored.compute()`, cached for these nets and this code."""
    folder = kept() / "stored"
    if not (folder / "known.json").exists():
        told, pictures = stored.compute()
        with store.atomic_folder(folder) as temporary:
            for name, png in pictures.items():
                (temporary / f"{name}.png").write_bytes(png)
            (temporary / "known.json").write_text(json.dumps(told))
    pictures = {net.key: (folder / f"{net.key}.png").read_bytes() for net in NETS}
    return json.loads((folder / "known.json").read_text()), pictures


def graphs() -> dict[str, bytes]:
    """The nets and the counter as ONNX files, under the names that the scripts use; exported once. Raises as
    `nets.resolution`.
    """
    folder = kept() / "graphs"
    if not folder.exists():
        side = resolution()
        with store.atomic_folder(folder) as temporary:
            for net in tqdm(NETS, desc="exporting nets"):
                graph = export.denoiser(checkpoints.load(net.name, net.preset))
                (temporary / f"{net.key}.onnx").write_bytes(export.to_onnx(graph))
            counter = export.Counted(export.ObjectCounter.from_pretrained(), side)
            (temporary / "counter.onnx").write_bytes(export.to_onnx(counter))
    return {path.stem: path.read_bytes() for path in sorted(folder.glob("*.onnx"))}


def packed(name: str, content: bytes) -> str:
    """A script that holds a file, gzipped and in base64: a page from the file system can load scripts but not
    fetch.
    """
    text = base64.b64encode(gzip.compress(content, mtime=0)).decode()
    return f'window.LCS.put("{name}", "{text}");\n'


def filled(template: str, values: Mapping[str, Any]) -> str:
    """`template` with each {{name}} replaced. Raises KeyError for a name without a value."""
    return re.sub(r"\{\{(\w+)\}\}", lambda found: str(values[found[1]]), template)


def panel(net, count: int) -> str:
    """HTML of one net's sample with name, weights, progress and count, before anything is loaded."""
    told = f"asked for {stored.ASKED}, counted {count} (stored, seed {stored.SEED})"
    return (
        f'<figure id="live-net-{net.key}"><img src="{PLACE}/{net.key}.png" width="320" height="320" '
        f'alt="{net.title}, {net.told}: {told}"><figcaption><b>{net.title}</b>{net.told}'
        f'<span class="live-small"><br>net {net.preset}/{net.name} {net.weights}</span>'
        f'<progress max="1" value="0" aria-label="{net.title} is drawing" hidden></progress>'
        f"<span data-note>{told}</span></figcaption></figure>"
    )


def looks(net) -> str:
    """HTML of one net's two maps: the conditions and the pixels that the chosen pixel listens to."""
    canvas = '<canvas width="320" height="320" role="img"></canvas>'
    part = f"<div>{canvas}<span data-note></span></div>"
    return (
        f'<figure id="live-looks-{net.key}"><figcaption><b>{net.title}</b>{net.told}</figcaption>'
        f'<div class="live-pair">{part}{part}</div></figure>'
    )


def article(told: dict, loads: str) -> str:
    """The Markdown of the front page."""
    rows = [nets.verified_row(net.name, net.preset) for net in NETS]
    low, most = rows[0]["objects"]

    def part(name, values):
        return filled((HERE / name).read_text(), values)

    button = '<button type="button" data-locations="{0}">{1}</button>'
    counts = " ".join(button.format(k, k or "none") for k in (3, 6, 9, 12, 0))
    counter, seed = told["counter"], stored.SEED
    panels = "\n".join(panel(net, told["start"]["counts"][net.key]) for net in NETS)
    radio = '<label><input type="radio" name="live-target" value="{0}"{2}> {1}</label>'
    targets = " ".join(radio.format(k, k + 1, "" if k else " checked") for k in range(stored.K))
    sigmas = told["scene"]["sigmas"]
    place = f"figures/{NETS[0].preset}"

    def there(name):
        return (paths.ROOT / place / name).exists()

    picture = f'; <a href="{place}/fig10.html">Fig. 10</a> shows the same as a picture'
    slide = {
        "instead": picture if there("fig10.json") else "",
        "last": len(sigmas) - 1,
        "middle": len(sigmas) // 2 + 1,
        "targets": targets,
        "seed": seed,
    }
    slide |= {"panels": "\n".join(map(looks, NETS))}
    scripts = ["stored.js", *SCRIPTS]
    links = "\n".join(f'<script src="{PLACE}/{name}"></script>' for name in scripts)
    values = {
        "most": most,
        "asked": stored.ASKED,
        "objects": f"{low} to {most}",
        "resolution": rows[0]["resolution"],
        "nets": "; ".join(f"**{net.title}**: {net.told}" for net in NETS) + ".",
        "grid": GRID_SIZE,
        "radius": next((row["radius"] for row in rows if row["radius"] is not None), "-"),
        "scene_objects": stored.K,
        "sample": part(
            "sample.html",
            {
                "counts": counts,
                "seed": seed,
                "loads": loads,
                "panels": panels,
                "counter": counter,
                "steps": STEPS,
            },
        ),
        "slide": part("slide.html", slide),
        "counted": words.counted(),
        "locality": words.local(),
        "verdict": words.verdict(),
        "claims": f"the [claims one by one]({place}/verdicts.md), " if there("verdicts.md") else "",
        "scripts": f'<link rel="stylesheet" href="{PLACE}/live.css">\n{links}',
    }
    return filled((HERE / "article.md").read_text(), values)


def write(folder: Path) -> str | None:
    """Write the page's files below `folder`/_static/live and its Markdown to `folder`/index.md.

    Returns None, or, if onnxruntime-web is not available, why the page shows stored pictures only. Raises
    ValueError, before anything is written, for a page that would load more than LARGEST_LOAD.
    """
    told, pictures = known()
    texts = {name: (HERE / name).read_text() for name in (*SCRIPTS, "live.css")}
    told["files"], missing, loads = None, None, ""
    try:
        engine = runtime.load()
    except runtime.RuntimeMissing as error:
        missing = str(error)
        told["why"] = "this copy was built without onnxruntime-web"
    else:
        parts = {"script": engine.script, "binary": engine.binary, **graphs()}
        scripts = {f"{name}.js": packed(name, content) for name, content in parts.items()}
        told["files"] = {name: {"name": name, "place": f"{PLACE}/{name}.js"} for name in parts}
        texts |= scripts | {"LICENSE.onnxruntime-web.txt": engine.license}
        size = sum(len(script.encode()) for script in scripts.values())
        if size > LARGEST_LOAD:
            raise ValueError(
                f"the page would load {size / 1e6:.1f} MB, at most {LARGEST_LOAD / 1e6:.0f} are allowed"
            )
        loads = (
            f"The first sample loads {size / 1e6:.0f} MB from beside this page, once: the nets, the counter, "
            f"and {runtime.PACKAGE} {runtime.VERSION} "
            f'(<a href="{PLACE}/LICENSE.onnxruntime-web.txt">license</a>). A local net draws cell by cell, '
            "which takes longest; it says how long."
        )
    texts["stored.js"] = f"window.LCS = {{ known: {json.dumps(told)} }};\n"
    text, place = article(told, loads), folder / PLACE
    for name, content in texts.items():
        store.write_text(place / name, content)
    for name, png in pictures.items():
        (place / f"{name}.png").write_bytes(png)
    store.write_text(folder / "index.md", text)
    return missing


def preview() -> None:
    """Write only the front page's sources to a temporary folder and print its path, to work on scripts."""
    argparse.ArgumentParser(prog="python -m lcs_utils.live.page", description=preview.__doc__).parse_args()
    folder = Path(tempfile.mkdtemp(prefix="live_page"))
    print(write(folder) or "with nets", folder)


if __name__ == "__main__":
    preview()
