"""The README's program runs, its commands exist, its tree is the tree; data/README.md lists what is there."""

import importlib.util
import re

import pytest
import torch

from lcs_utils import checkpoints, paths

README = (paths.ROOT / "README.md").read_text()


def test_the_ten_line_program_runs(tmp_path, monkeypatch):
    program = re.search(r"```python\n(.*?)```", README, flags=re.S).group(1)
    assert len(program.strip().splitlines()) <= 10
    threads = torch.get_num_threads()
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "README.md", "exec"), {})
    assert (tmp_path / "samples.png").stat().st_size > 1000 and torch.get_num_threads() == threads


@pytest.mark.parametrize("module", sorted(set(re.findall(r"python -m ([\w.]+)", README))))
def test_commands_name_modules_that_exist(module):
    assert importlib.util.find_spec(module) is not None


def test_links_and_tree_resolve():
    for link in re.findall(r"\]\(([\w/.]+)\)", README):
        assert (paths.ROOT / link).exists(), link
    tree = re.search(r"## The tree\n\n```\n(.*?)```", README, flags=re.S).group(1)
    listed = set(re.findall(r"^  ([\w.]+?)/? ", tree, flags=re.M))
    there = {p.name for p in (paths.ROOT / "lcs_utils").iterdir() if p.name[0] not in "._"} - {"__init__.py", "__pycache__"}
    assert listed == there


def test_data_readme_is_fresh():
    assert (paths.DATA / "README.md").read_text() == checkpoints.data_index(), "run python -m lcs_utils.checkpoints"
    assert "`?`" not in checkpoints.data_index(), "a file of data/ has no command"
