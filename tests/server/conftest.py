"""One server for each kind of model, shared by the files of this folder."""

import pytest
from serving import QUICK, make_flats, serve


@pytest.fixture(scope="session")
def flat_model(tmp_path_factory):
    """A folder with a model of prices, and the model."""
    from diffor import DiffoRRegressor

    folder = tmp_path_factory.mktemp("served") / "flats"
    model = DiffoRRegressor("fast", bounds=(0, 500), width=32, **QUICK).fit(*make_flats())
    model.save(folder)
    return folder, model


@pytest.fixture(scope="session")
def served(flat_model):
    """A process that serves the model of prices."""
    with serve(flat_model[0], "--max-rows", "300") as running:
        yield running
