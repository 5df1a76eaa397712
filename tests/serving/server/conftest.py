"""One server for each kind of model, shared by the files of this folder."""

import pytest
from serving import PAPER, QUICK, make_flats, serve


@pytest.fixture(scope="session")
def flat_model(tmp_path_factory):
    """A folder with a model of prices, and the model."""
    from diffor import DiffoRRegressor

    folder = tmp_path_factory.mktemp("served") / "flats"
    model = DiffoRRegressor("fast", bounds=(0, 500), **QUICK).fit(*make_flats())
    model.save(folder)
    return folder, model


@pytest.fixture(scope="session")
def served(flat_model):
    """A process that serves the model of prices."""
    with serve(flat_model[0], "--max-rows", "300") as running:
        yield running


@pytest.fixture(scope="session")
def served_chain(tmp_path_factory):
    """A process that serves a model with the paper's chain."""
    from diffor import DiffoRRegressor

    folder = tmp_path_factory.mktemp("served") / "chain"
    DiffoRRegressor("paper", bounds=(0, 500), n_samples=64, **PAPER).fit(*make_flats()).save(folder)
    with serve(folder) as running:
        yield running
