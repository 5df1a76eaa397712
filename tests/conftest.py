"""Fixtures of several files, which import what they need themselves: most tests have nothing to do with images.

One thread per test process: with several processes on few cores, more threads only wait for each other.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def faces(tmp_path_factory):
    """The folder of images to learn from, their paths and the targets."""
    from image_examples import write_squares

    folder = tmp_path_factory.mktemp("faces")
    return folder, *write_squares(folder)


@pytest.fixture(scope="session")
def face_weights(tmp_path_factory):
    """A file of weights for the small network."""
    from image_examples import write_weights

    return write_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="session")
def face_model(faces):
    """A regressor that has learned from files."""
    from image_examples import TINY

    from diffor import DiffoRRegressor

    _, paths, y = faces
    return DiffoRRegressor("fast", bounds=(0, 100), **TINY).fit(paths, y)


@pytest.fixture(scope="session")
def flat_model(tmp_path_factory):
    """A folder with a model of prices, and the model."""
    from serving import QUICK, make_flats

    from diffor import DiffoRRegressor

    folder = tmp_path_factory.mktemp("served") / "flats"
    model = DiffoRRegressor("fast", bounds=(0, 500), **QUICK).fit(*make_flats())
    model.save(folder)
    return folder, model


@pytest.fixture(scope="session")
def served(flat_model):
    """A process that serves the model of prices."""
    from serving import serve

    with serve(flat_model[0], "--max-rows", "300") as running:
        yield running


@pytest.fixture(scope="session")
def served_chain(tmp_path_factory):
    """A process that serves a model with the paper's chain."""
    from serving import PAPER, make_flats, serve

    from diffor import DiffoRRegressor

    folder = tmp_path_factory.mktemp("served") / "chain"
    DiffoRRegressor("paper", bounds=(0, 500), n_samples=64, **PAPER).fit(*make_flats()).save(folder)
    with serve(folder) as running:
        yield running
