"""Fixtures of several files, which import what they need themselves: most tests have nothing to do with images.

One thread per test process: with several processes on few cores, more threads only wait for each other.
"""

import os
import signal

os.environ.setdefault("OMP_NUM_THREADS", "1")
# A shell that starts the tests in the background has them, and all programs that they start, ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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
