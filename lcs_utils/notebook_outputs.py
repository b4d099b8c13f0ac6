"""Outputs of executed notebooks without what changes between equal runs, their code's hash, failed claims."""

import ast
import base64
import hashlib
from collections.abc import Iterable

from lcs_utils.compact_png import compact
from lcs_utils.notebook_values import NotebookError

INJECTED = "# Parameters"  # the first line of the cell that papermill adds
TOLD = "does not hold: "  # printed by a failing claim where asserts do not raise


def code_sha256(notebook) -> str:
    """SHA-256 of the code cells without the injected one: equal hashes mean that the outputs belong to this
    code.
    """
    return sources_sha256(cell.source for cell in notebook.cells if cell.cell_type == "code")


def sources_sha256(sources: Iterable[str]) -> str:
    """`code_sha256`, from the sources of the code cells."""
    kept = [source.strip() for source in sources if not source.strip().startswith(INJECTED)]
    return hashlib.sha256("\0".join(kept).encode()).hexdigest()


class Told(ast.NodeTransformer):
    """Makes an assert print what does not hold, or could not be decided, and lets the notebook go on."""

    def visit_Assert(self, node):
        say = f"print({TOLD!r} + {ast.unparse(node.test)!r} + (f' ({{_error!r}})' if str(_error) else ''))"
        caught = ast.ExceptHandler(ast.Name("Exception", ast.Load()), "_error", ast.parse(say).body)
        guarded = ast.Try(body=[node], handlers=[caught], orelse=[], finalbody=[])
        return ast.fix_missing_locations(ast.copy_location(guarded, node))


def told(executed) -> list[str]:
    """The claims that an executed notebook reports as not holding, in order."""
    texts = (o.text for cell in executed.cells for o in cell.get("outputs", ()) if o.output_type == "stream")
    return [line.removeprefix(TOLD) for text in texts for line in text.splitlines() if line.startswith(TOLD)]


def settle(output, count: int) -> None:
    """Strip from an output of code cell `count`, in place, what changes between equal runs or from a batch
    run to JupyterLab: widget views (their PNG stays), the HTML around a picture, metadata except alternative
    texts. PNGs are made small (`compact_png`).
    """
    if "data" in output:
        output["metadata"] = {
            mime: {"alt": known["alt"]}
            for mime, known in output["metadata"].items()
            if isinstance(known, dict) and "alt" in known and mime in output["data"]
        }
        for mime in [mime for mime in output["data"] if mime.startswith("application/vnd.jupyter.widget")]:
            del output["data"][mime]
        if "image/png" in output["data"]:
            output["data"].pop("text/html", None)  # `alt_text`: the same picture, as Lab shows it
            small = compact(base64.b64decode(output["data"]["image/png"]))
            output["data"]["image/png"] = base64.b64encode(small).decode()
    if "execution_count" in output:
        output["execution_count"] = count


def clean(executed, source):
    """`source` with the outputs of `executed`, without anything that changes between equal runs.

    Stripped are times, papermill's marks, widget state and what `settle` strips. Stream pieces are joined,
    since where they break depends on timing. Raises NotebookError when a cell writes to stderr.
    """

    cells = [cell for cell in executed.cells if "injected-parameters" not in cell.metadata.get("tags", ())]
    count = 0
    for target, cell in zip(source.cells, cells, strict=True):
        if target.cell_type != "code":
            continue
        count += 1
        target.execution_count = count
        target.outputs = []
        for output in cell.outputs:
            if output.output_type == "stream" and output.name == "stderr":
                raise NotebookError(
                    f"code cell {count} writes to stderr, which nbval refuses: {output.text[:300]}"
                )
            before = target.outputs[-1] if target.outputs else {"output_type": "none"}
            if output.output_type == before["output_type"] == "stream":
                before.text += output.text
                continue
            settle(output, count)
            target.outputs.append(output)
    source.metadata["lcs_utils"] = {"code_sha256": code_sha256(source)}
    return source
