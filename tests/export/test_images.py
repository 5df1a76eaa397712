"""Programs of models that read images: every network, alone, beside columns, and frozen."""

import json

import numpy as np
import onnx
import pandas as pd
import pytest
import torch
from image_examples import TINY
from program_checks import check_grades, check_values, open_program, run_program

from diffor import DiffoRClassifier, DiffoRRegressor
from diffor.cli.main import main
from diffor.encoders.images.inputs import ImageInputs
from diffor.encoders.images.networks import IMAGE_ENCODERS, make_image_encoder
from diffor.export import METADATA, ExportError, export_model, program_inputs
from diffor.export.graph import Graph
from diffor.export.images import encode_images, read_pixels

FEW = {**TINY, "max_steps": 3, "evaluate_every": 3}
OF_NETWORKS = {"small": {"n_channels": 4}}
OF_IMAGES = 1e-5
"""What many layers of single precision leave, of the target's range."""


@pytest.fixture(scope="module")
def table(faces):
    """Paths beside a number with gaps and a text."""
    _, paths, y = faces
    random = np.random.default_rng(0)
    height = np.where(random.random(len(y)) < 0.2, np.nan, y + random.normal(0, 5, len(y)))
    return pd.DataFrame({"path": paths, "height": height, "kind": random.choice(["a", "b"], len(y))})


def make(**settings):
    return DiffoRRegressor("fast", bounds=(0, 100), **(FEW | settings))


def disturb_norms(network):
    for norm in (module for module in network.modules() if isinstance(module, torch.nn.BatchNorm2d)):
        for part in (norm.weight, norm.running_var):
            torch.nn.init.uniform_(part, 0.5, 1.5)
        for part in (norm.bias, norm.running_mean):
            torch.nn.init.normal_(part, 0, 0.3)


@pytest.mark.parametrize(("side", "options"), [(45, {"width": 8, "pooling": "mean+max"}), (32, {})], ids=str)
@pytest.mark.parametrize("name", IMAGE_ENCODERS)
def test_features_of_every_network(name, options, side):  # EfficientNet pads odd sides more at their end
    torch.manual_seed(0)
    encoder = make_image_encoder(name, **options, **OF_NETWORKS.get(name, {})).eval()
    if name != "efficientnet-lite0":  # whose weights are ImageNet's; others have norms that do nothing yet
        disturb_norms(encoder)
    pixels = torch.randint(0, 256, (5, 3, side, side), dtype=torch.uint8)
    graph = Graph()
    features = encode_images(encoder, read_pixels(graph, ImageInputs(side=side)))
    graph.output("features", features, (None, encoder.out_features))
    (found,) = open_program(graph.to_bytes({})).run(None, {"pixels": pixels.numpy()})
    with torch.no_grad():
        expected = encoder(pixels).numpy()
    spread = expected.std(axis=0).max()
    assert spread > 0.01  # images count
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4 * spread)


def test_images_alone_need_nothing_but_pixels(faces, tmp_path):
    _, paths, y = faces
    model = make(encoder_settings={"n_channels": 4, "pooling": "mean+max"}).fit(paths, y)
    check_values(model, tmp_path, paths[:20], OF_IMAGES)
    inputs = {port.name: port.shape for port in open_program(tmp_path / "model.onnx").get_inputs()}
    assert inputs == {"pixels": ["rows", 3, 16, 16]}
    (facts,) = [entry for entry in onnx.load(tmp_path / "model.onnx").metadata_props if entry.key == METADATA]
    assert json.loads(facts.value)["images"]["side"] == 16


@pytest.mark.parametrize(
    ("columns", "is_frozen"), [(["height", "kind"], False), (["kind"], False), (["height", "kind"], True)]
)
def test_images_beside_columns(faces, face_weights, table, tmp_path, columns, is_frozen):
    rows, y = table[["path", *columns]], faces[2]
    settings = {"encoder_weights": face_weights, "freeze_backbone": True} if is_frozen else {}
    model = make(**settings).fit(rows, y)
    check_values(model, tmp_path, rows[:20], OF_IMAGES)


def test_a_frozen_network_with_priors_on_its_features(faces, face_weights, tmp_path):
    _, paths, y = faces
    model = make(encoder_weights=face_weights, freeze_backbone=True).fit(paths, y)
    assert model.priors_ is not None
    check_values(model, tmp_path, paths[:20], OF_IMAGES)
    assert set(program_inputs(model, paths[:3])) == {"pixels"}


def test_grades_of_images(faces, tmp_path):
    _, paths, y = faces
    check_grades(DiffoRClassifier("fast", **FEW).fit(paths, np.digitize(y, [30, 60])), tmp_path, paths[:20], OF_IMAGES)


def test_other_networks_are_refused_and_nothing_is_written(faces, tmp_path):
    class Mean(torch.nn.Module):
        out_features = 3

        def forward(self, images):
            return images.mean(dim=(2, 3))

    _, paths, y = faces
    model = make(encoder=Mean(), encoder_settings={}).fit(paths, y)
    rule = "networks of images must be among small, .* to be exported, but got Mean; fit one of these"
    with pytest.raises(ExportError, match=rule):
        export_model(model, tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


def test_the_command_says_what_the_program_reads(faces, face_model, tmp_path, capsys):
    face_model.save(tmp_path / "model")
    assert main(["export", str(tmp_path / "model"), "--out", str(tmp_path / "model.onnx")]) == 0
    assert "an image of 16 pixels a side, 0 numbers and 0 categories in for each row" in capsys.readouterr().out
    paths = faces[1][:5]
    answers = run_program(open_program(tmp_path / "model.onnx"), program_inputs(face_model, paths))
    np.testing.assert_allclose(answers["point"], face_model.predict(paths), atol=1e-3)
