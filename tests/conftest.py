"""Fixtures of several files. One thread per test process: on few cores more threads only wait for each other."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import image_examples
import pytest
import torch

from diffor import DiffoRRegressor

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def faces(tmp_path_factory):
    """The folder of images to learn from, their paths and the targets."""
    folder = tmp_path_factory.mktemp("faces")
    return folder, *image_examples.write_squares(folder)


@pytest.fixture(scope="session")
def face_weights(tmp_path_factory):
    """A file of weights for the small network."""
    return image_examples.write_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="session")
def face_model(faces):
    """A regressor that has learned from files."""
    _, paths, y = faces
    return DiffoRRegressor("fast", bounds=(0, 100), **image_examples.TINY).fit(paths, y)
