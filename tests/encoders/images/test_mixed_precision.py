"""bfloat16: it computes what single precision does, and a processor where it ends the process is found out before."""

import os
import subprocess
import sys

import pytest
import torch

from diffor.encoders.images.convnets import SmallConvNet
from diffor.encoders.images.mixed_precision import bfloat16_fault
from diffor.encoders.images.networks import ImageEncoder

LEARN = """
import torch
from diffor.encoders.images.convnets import SmallConvNet
from diffor.encoders.images.networks import ImageEncoder
torch.manual_seed(0)
network, images = SmallConvNet(4), torch.randint(0, 256, (8, 3, 16, 16), dtype=torch.uint8)
exact, mixed = ImageEncoder(network), ImageEncoder(network, mixed_precision=True)
exact(images).square().sum().backward()
wanted = torch.cat([parameter.grad.flatten() for parameter in network.parameters()])
network.zero_grad()
features = mixed(images)
features.square().sum().backward()
found = torch.cat([parameter.grad.flatten() for parameter in network.parameters()])
print(features.dtype, torch.nn.functional.cosine_similarity(wanted, found, dim=0).item(), torch.equal(wanted, found))
"""


def test_gradients_are_those_of_single_precision_but_for_rounding():
    # Instructions that virtual machines often lack are left out.
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE_BF16"}
    done = subprocess.run([sys.executable, "-c", LEARN], capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr
    kind, likeness, is_equal = done.stdout.split()
    assert (kind, is_equal) == ("torch.float32", "False")
    assert float(likeness) > 0.98


def test_a_processor_that_cannot_is_refused_rather_than_tried():
    encoder = ImageEncoder(SmallConvNet(4), mixed_precision=True)
    images = torch.zeros(2, 3, 16, 16, dtype=torch.uint8)
    if bfloat16_fault() is None:
        encoder(images).sum().backward()
        assert encoder(images).dtype == torch.float32
    else:
        with pytest.raises(ValueError, match=r"mixed_precision needs a processor .*, but a trial .*leave"):
            encoder(images)


def test_it_is_part_of_what_an_encoder_says_of_itself():
    assert "mixed_precision=True" in repr(ImageEncoder(SmallConvNet(4), mixed_precision=True))
    assert "mixed_precision" not in repr(ImageEncoder(SmallConvNet(4)))
