"""``diffor embed``: features of folders and tables of images, fitted as a table."""

import re

import numpy as np
import pandas as pd
import pytest
import torch
from PIL import Image

import diffor
from diffor.cli.main import main
from diffor.encoders.images.convnets import SmallConvNet


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with images whose brightness is the target, a table of them, and weights; the process runs in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "faces").mkdir()
    random = np.random.default_rng(0)
    y = random.uniform(0, 100, 40).round(3)
    for number, value in enumerate(y):
        pixels = np.clip(random.normal(2.5 * value, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "faces" / f"{number:02d}.png")
    table = pd.DataFrame({"age": y, "path": [f"faces/{number:02d}.png" for number in range(40)]})
    table.to_csv(tmp_path / "ages.csv", index=False)
    torch.manual_seed(0)
    torch.save(SmallConvNet().state_dict(), tmp_path / "small.pt")
    return tmp_path


def embed(*words):
    return main(["embed", *words, "--encoder", "small", "--weights", "small.pt", "--side", "16", "--workers", "0"])


def test_a_folder_becomes_a_table_of_features(home, capsys):
    assert embed("faces", "--out", "features.parquet") == 0
    assert capsys.readouterr().out.splitlines() == [
        "images           40 (40 now, 0 before)",
        "features         256",
        "written to       features.parquet",
    ]
    table = pd.read_parquet("features.parquet")
    assert table["path"].tolist() == [f"{number:02d}.png" for number in range(40)]
    assert table.shape == (40, 257)
    assert embed("faces", "--out", "features.parquet") == 0
    assert "40 (0 now, 40 before)" in capsys.readouterr().out
    assert embed("faces", "--out", "features.parquet", "--quiet") == 0
    assert capsys.readouterr().out == ""


def test_a_table_of_paths_is_fitted_as_a_table(home, capsys):
    assert embed("ages.csv", "--out", "features.parquet", "--quiet") == 0
    found = pd.read_parquet("features.parquet")
    assert found.columns.tolist()[:3] == ["path", "age", "feature_0000"]
    fit = ["fit", "--target", "age", "--preset", "fast", "--max-steps", "5", "--no-prior"]
    assert main([*fit, "features.parquet", "--out", "m"]) == 0
    summary = capsys.readouterr().out
    assert "256 numeric" in summary
    assert "categorical" not in summary
    model = diffor.load("m")
    assert "path" not in [column.name for column in model.inputs_.columns]
    assert main(["predict", "m", "features.parquet", "--out", "answers.csv", "--keep", "path"]) == 0
    assert pd.read_csv("answers.csv")["path"].tolist() == found["path"].tolist()
    assert main(["evaluate", "m", "features.parquet"]) == 0
    pd.DataFrame({"path": ["a", "b"] * 20, "age": range(40)}).to_csv("paths.csv", index=False)
    assert main([*fit, "paths.csv", "--out", "beside_no_features"]) == 0
    assert [column.name for column in diffor.load("beside_no_features").inputs_.columns] == ["path"]


def test_relative_paths_start_at_the_table_or_at_the_root(home, monkeypatch):
    (home / "elsewhere").mkdir()
    monkeypatch.chdir(home / "elsewhere")
    common = ["--encoder", "small", "--weights", "../small.pt", "--side", "16", "--workers", "0", "--quiet"]
    assert main(["embed", "../ages.csv", "--out", "first.parquet", *common]) == 0
    pd.read_csv("../ages.csv").to_csv("copy.csv", index=False)
    assert main(["embed", "copy.csv", "--root", "..", "--out", "second.parquet", *common]) == 0
    pd.testing.assert_frame_equal(pd.read_parquet("first.parquet"), pd.read_parquet("second.parquet"))


def test_broken_images_stop_or_are_left_out(home, capsys):
    (home / "faces" / "07.png").write_bytes(b"no image")
    assert embed("faces", "--out", "features.parquet") == 2
    assert "07.png must be a whole image, but " in (error := capsys.readouterr().err)
    assert "or skip such images with --skip-broken" in error
    assert embed("faces", "--out", "features.parquet", "--skip-broken", "--force") == 0
    out = capsys.readouterr().out
    assert "images           39 (39 now, 0 before)" in out
    assert "left out         07.png: " in out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["nothing", "--out", "f.parquet"], "nothing must be an existing file, but there is none"),
        (["faces", "--out", "f.csv"], "features are written as Parquet, but got --out f.csv; let it end in .parquet"),
        (["faces", "--out", "f.parquet", "--root", "."], "--root is for a table of paths, but faces is a folder"),
        (["faces", "--out", "f.parquet", "--crop", "2"], "must lie between 0 and 1"),
        (["faces", "--out", "f.parquet", "--workers", "-1"], "must be a whole number from 0 on, but got '-1'"),
        (["empty.csv", "--out", "f.parquet"], "must name an image in every row, but row 2 after the header"),
        (["nameless.csv", "--out", "f.parquet"], "nameless.csv must have the column 'path', but its columns are age"),
        (["twice.csv", "--out", "f.parquet"], "each image must be named once, but faces/01.png stands twice"),
    ],
)
def test_wrong_use_is_one_line(home, capsys, words, message):
    (home / "empty.csv").write_text("path,age\nfaces/01.png,1\n,2\n")
    (home / "nameless.csv").write_text("age\n1\n")
    (home / "twice.csv").write_text("path\nfaces/01.png\nfaces/01.png\n")
    assert embed(*words) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--encoder", "resnet18"], "--encoder resnet18 needs weights that were learned, but --weights is not given"),
        (["--encoder", "resnet", "--weights", "small.pt"], "--encoder must be one of small, .* but got 'resnet'"),
        (["--encoder", "small", "--weights", "none.pt"], "--weights must be a file, but none.pt is none"),
        (["--encoder", "resnet18", "--weights", "small.pt"], "small.pt must hold the weights of this ResNet, but got"),
    ],
)
def test_wrong_networks_are_named(home, refused, words, message):
    assert re.search(message, refused("embed", "faces", "--out", "f.parquet", *words))


def test_other_features_are_replaced_only_if_asked(home, capsys):
    embed("faces", "--out", "features.parquet", "--quiet")
    assert embed("faces", "--out", "features.parquet", "--pooling", "mean+max") == 2
    assert "choose another file, or pass --force" in capsys.readouterr().err
    assert embed("faces", "--out", "features.parquet", "--pooling", "mean+max", "--force", "--threads", "1") == 0
    assert pd.read_parquet("features.parquet").shape == (40, 513)


def test_the_command_line_refuses_a_model_of_images(home, capsys):
    settings = {"side": 16, "n_workers": 0}
    model = diffor.DiffoRRegressor("fast", encoder="small", image_settings=settings, max_steps=1, verbose=0)
    model.fit("faces", np.arange(40.0)).save("m")
    assert main(["predict", "m", "ages.csv", "--out", "answers.csv"]) == 2
    assert "m must read tables, but it reads images" in capsys.readouterr().err
