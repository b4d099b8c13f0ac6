"""What `run.py lab` has the server do before it saves a notebook."""

from nbformat import v4

from lcs_utils import lab

BAR = "samples:  40%|####      | 4/10 [00:02<00:03]"


def saved(*outputs, path="notebooks/05_exp.ipynb"):
    cell = v4.new_code_cell("1", outputs=list(outputs), execution_count=7)
    cell.metadata = {"editable": True, "tags": ["parameters"], "lines_to_next_cell": 0}
    notebook = v4.new_notebook(cells=[cell])
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": "3.11.2"},
        "lcs_utils": {"code_sha256": "ab"},
        "widgets": {"state": {}},
    }
    model = {"type": "notebook", "content": notebook}
    lab.before_saving(model=model, path=path, contents_manager=None)
    return model["content"]


def test_bars_go_and_words_stay():
    kept = [v4.new_output("stream", name=name, text="said") for name in ("stdout", "stderr")]
    bars = [
        v4.new_output("stream", name="stderr", text=f"\r{BAR}"),
        v4.new_output("display_data", {"text/plain": BAR, "application/vnd.jupyter.widget-view+json": {}}),
    ]
    assert saved(*kept, *bars).cells[0].outputs == kept


def test_metadata_are_those_of_a_built_notebook():
    notebook = saved()
    assert notebook.metadata == {
        "jupytext": {"formats": "ipynb,py:percent"},
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
        "lcs_utils": {"code_sha256": "ab"},
    }
    assert notebook.cells[0].metadata == {"tags": ["parameters"], "lines_to_next_cell": 0}


def test_what_is_not_in_notebooks_is_left_alone():
    notebook = saved(v4.new_output("stream", name="stderr", text=f"\r{BAR}"), path="mine/05_exp.ipynb")
    assert "widgets" in notebook.metadata and len(notebook.cells[0].outputs) == 1
    text = {"type": "file", "content": "#     display_name: Python 3 (ipykernel)\n"}
    lab.before_saving(model=text, path="notebooks/05_exp.py")
    assert text["content"] == "#     display_name: Python 3\n"
