"""Keep notebooks saved in JupyterLab as `notebooks build` writes them, so that Run All changes nothing:
`run.py lab` has the server call `before_saving`.
"""

import re
from pathlib import PurePosixPath
from typing import Any

from lcs_utils import paths
from lcs_utils.notebook_outputs import settle

FOLDER = paths.NOTEBOOKS.name
KEPT = ("tags", "lines_to_next_cell")  # cell metadata: ours, and jupytext's for blank lines
DISPLAY_NAME = "Python 3"  # JupyterLab writes the kernel's: "Python 3 (ipykernel)"


def is_bar(output: dict) -> bool:
    """Whether an output is a progress bar, which batch runs do not draw: on stderr, or a widget's text."""
    if output["output_type"] == "stream":
        return output["name"] == "stderr" and "\r" in "".join(output["text"])
    data = output.get("data", {})
    return set(data) == {"text/plain"} and bool(re.match(r"(.*: )?\s*\d+%\|", "".join(data["text/plain"])))


def tidy(notebook: Any) -> None:
    """Give a notebook, in place, the metadata, cell numbers and outputs that `notebooks.build` would."""
    known = {"kernelspec", "lcs_utils"} & set(notebook.metadata)
    notebook.metadata = {name: notebook.metadata[name] for name in known} | {
        "jupytext": {"formats": "ipynb,py:percent"},
        "language_info": {"name": "python"},
    }
    notebook.metadata.get("kernelspec", {})["display_name"] = DISPLAY_NAME
    for cell in notebook.cells:
        cell.metadata = {key: cell.metadata[key] for key in KEPT if cell.metadata.get(key, []) != []}
        if cell.cell_type != "code":
            continue
        for output in cell.outputs:
            settle(output, cell.execution_count)
        cell.outputs = [output for output in cell.outputs if not is_bar(output)]


def before_saving(model: dict[str, Any], path: str, **_: Any) -> None:
    """The server's `pre_save_hook`: tidy what is saved in notebooks/, leave everything else unchanged.

    `model` is what JupyterLab sends (a notebook) or jupytext makes of it (its paired text).
    """
    if FOLDER not in PurePosixPath(path).parts[-2:-1]:
        return
    if model["type"] == "notebook":
        import nbformat

        notebook = nbformat.from_dict(model["content"])
        tidy(notebook)
        model["content"] = notebook
    elif path.endswith(".py"):
        model["content"] = re.sub(
            r"(?m)^(#     display_name: ).*$", rf"\g<1>{DISPLAY_NAME}", model["content"], count=1
        )
