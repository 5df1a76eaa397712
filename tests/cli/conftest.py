"""What tests of commands share: a folder with data and models, and how wrong use is refused."""

import pytest
from command_examples import FAST, make_rows


@pytest.fixture(scope="session")
def home(tmp_path_factory):
    """A folder with data and models of three kinds of targets, which tests read and do not change."""
    from diffor.cli.main import main

    folder = tmp_path_factory.mktemp("home")
    make_rows().to_csv(folder / "rows.csv", index=False)
    make_rows().to_parquet(folder / "rows.parquet")
    for target, extra in (("price", []), ("quality", ["--grades", "low,mid,high"]), ("stars", ["--classify"])):
        others = [name for name in ("id", "price", "quality", "stars", "weight") if name != target]
        words = ["fit", str(folder / "rows.csv"), "--target", target, "--drop", *others, *extra, *FAST]
        assert main([*words, "--out", str(folder / target)]) == 0
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder, in which the commands run."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def refused(capsys):
    """A function that gives the one line with which a command ends, and says nothing else."""
    from diffor.cli.main import main

    def refuse(*words):
        capsys.readouterr()
        assert main([str(word) for word in words]) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("diffor: error: ")
        assert shown.err.count("\n") == 1
        assert shown.out == ""
        return shown.err

    return refuse
