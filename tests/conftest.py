"""One thread per test process: with several processes on few cores, more threads only wait for each other."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

torch.set_num_threads(1)
