"""One figure of the web edition as a page: its picture, numbers, command, data, and what it rests on."""

import re

from lcs_utils import paths


def text(value) -> str:
    """One table entry: numbers with four significant digits, lists with commas, escaped for Markdown."""
    if isinstance(value, list):
        return (
            ", ".join(f"({text(item)})" if isinstance(item, list) else text(item) for item in value) or "none"
        )
    return (
        f"{value:.4g}"
        if isinstance(value, float)
        else re.sub(r"([|*_<>$`])", r"\\\1", " ".join(str(value).split()))
    )


def table(header: list[str], rows) -> list[str]:
    """A Markdown table as lines, with an empty line before and after."""
    return ["", *("| " + " | ".join(row) + " |" for row in (header, ["---"] * len(header), *rows)), ""]


def numbers(values, name: str = "") -> list[str]:
    """A figure's values as Markdown tables: lists of equal length as columns, dicts of single numbers as
    rows.
    """
    if not isinstance(values, dict):
        values = {name or "values": values}

    def single(row):
        return isinstance(row, dict) and not any(isinstance(cell, (list, dict)) for cell in row.values())

    if values and all(map(single, values.values())):
        keys = {key: None for row in values.values() for key in row}
        keys = sorted(keys, key=int) if all(key.isdigit() for key in keys) else list(keys)
        rows = ([text(row), *(text(cells.get(key, "")) for key in keys)] for row, cells in values.items())
        return [f"**{text(name)}**" if name else "", *table(["", *map(text, keys)], rows)]
    lists = {k: v for k, v in values.items() if isinstance(v, list) and v}
    flat = {k: v for k, v in lists.items() if not any(isinstance(item, (list, dict)) for item in v)}
    lengths = [len(v) for v in flat.values()]
    columns = {
        k: v for k, v in flat.items() if len(v) > 1 and lengths.count(len(v)) > 1 and len(v) == max(lengths)
    }
    others = {k: v for k, v in values.items() if k not in columns and not isinstance(v, dict)}
    lines = [f"**{text(name)}**"] if name else []
    if columns:
        lines += table([text(k) for k in columns], zip(*([text(i) for i in v] for v in columns.values())))
    if others:
        lines += table(["", "value"], ([text(k), text(v)] for k, v in others.items()))
    for key, value in values.items():
        if isinstance(value, dict):
            lines += ["", *numbers(value, f"{name} / {key}" if name else key)]
    return lines


def figure_page(record: dict, title: str) -> str:
    """Markdown of one figure: picture, numbers, command, files it rests on with hashes, package versions."""
    figure, made = record["figure"], record["provenance"]
    files = [[file_link(file), f"`{digest}`"] for file, digest in made["checkpoints"].items()]
    notebook = made["notebook"]
    source = f"notebook [{notebook}](../../notebooks/{notebook}.ipynb)" if notebook else "an interactive run"
    lines = [
        f"# {title or figure}",
        "",
        f"`{figure}`, preset `{record['preset']}`, from {source};",
        "its [numbers](#numbers), [command](#command) and [data](#checkpoints-and-data).",
        "",
        f"![{text(record.get('alt', title))}]({figure}.png)",
        "",
        "## Numbers",
        *numbers(record["values"]),
        f"All digits: [{figure}.json](path:{figure}.json)",
        "",
        "## Command",
        "",
        "```sh",
        made["command"],
        "```",
        "",
        f"Seed {made['seed']}, threads: {made['threads']}. Code: `{made['code_sha256']}`;",
        f"notebook: `{made['notebook_sha256']}`.",
        "",
        "## Checkpoints and data",
        *(
            [
                "",
                "Weights that it draws from, and all rows and samples that its notebook had read by then.",
                "",
            ]
            + table(["file", "SHA-256"], files)
            if files
            else ["", "None: all is computed from the code above.", ""]
        ),
        "Every file under data/ with its command: [the index of the data](../../data/README.md).",
        "",
        "## Versions",
        *table(list(made["versions"]), [list(made["versions"].values())]),
    ]
    return "\n".join(lines) + "\n"


def file_link(file: str) -> str:
    """A file that a figure rests on: a link to a copy for tables, the name for others."""
    return f"[{file}](path:../../{file})" if copied(file) else f"`{file}`"


def copied(file: str) -> bool:
    """Whether the web edition includes a copy of this file of data/: tables yes, weights and pictures no."""
    return file.endswith((".csv", ".csv.bz2")) and (paths.ROOT / file).exists()
