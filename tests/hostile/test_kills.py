"""Kills of every command at random moments: old or new outputs, and a second start brings what one run would have."""

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from kills_commands import COMMANDS, begun, hidden, run_well
from kills_processes import run_command

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes as Linux lists them")
KILLS = 2
"""Kills of each command in a short run."""


@pytest.mark.parametrize("name", COMMANDS)
def test_a_killed_command_leaves_the_old_or_the_new_and_can_be_started_again(
    name, hostile_home, whole_run, tmp_path, hostile_scale
):
    command, (expected, seconds) = COMMANDS[name], whole_run(name)
    moments = np.random.default_rng([len(name), *name.encode()]).uniform(0, 1.1, KILLS * hostile_scale)
    n_killed = 0
    for number, moment in enumerate(moments):
        folder = begun(hostile_home, tmp_path / str(number), name)
        before = command.results(folder)
        n_killed += run_command(command.words, folder, kill_after=moment * seconds) is None
        for output, content in command.results(folder).items():
            where = f"{output} after a kill at {moment:.3f} of {seconds:.2f} s"
            assert content in (before.get(output, expected[output]), expected[output]), where
        run_well(command.words, folder)
        assert command.results(folder) == expected, f"started again after a kill at {moment:.3f} of {seconds:.2f} s"
        assert hidden(folder) == []
        assert "Traceback" not in (folder / "said").read_text()
        shutil.rmtree(folder)
    print(f"{name}: {n_killed} kills, {len(moments) - n_killed} ended before", file=sys.stderr)
