"""The sum of the gradients over processes, where some lack one."""

import json
from pathlib import Path

from zoo.core.launch import run_on_ranks

JOBS = str(Path(__file__).parent / "gradient_jobs.py")


def test_a_gradient_that_some_processes_lack_is_summed_for_all(tmp_path):
    run_on_ranks(f"{JOBS}:some_missing", {"folder": str(tmp_path)}, world=3)
    for rank in range(3):
        assert json.loads((tmp_path / f"{rank}.json").read_text()) == {
            "loss": 33.0,
            "b": [[6.0, 6.0], [6.0, 6.0]],
            "s": [[1.0, 2.0], [3.0, 4.0]],
            "n": None,
            "loss of no parameters": 1.5,
            "wide": [1 / 3] * 3,
            "narrow": None,
            "loss of two types": 4.5,
        }
