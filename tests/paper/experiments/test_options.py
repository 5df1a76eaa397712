"""What the command line changes of the experiments' run files."""

import pytest

from diffor.errors import UserError
from diffor.paper.experiments.grids import GRIDS
from diffor.paper.experiments.options import Options


def methods_of(plans):
    return {(place, method.name): dict(method.settings) for place, plan in enumerate(plans) for method in plan.methods}


def test_nothing_said_changes_nothing_but_the_place_of_weights(tmp_path):
    (tmp_path / "resnet50.pth").write_bytes(b"")
    plans = GRIDS["tables"].plans()
    before, after = methods_of(plans), methods_of(Options().apply(plans, str(tmp_path)))
    for place, settings in before.items():
        if "encoder_weights" in settings:
            settings["encoder_weights"] = str(tmp_path / "resnet50.pth")
        assert after[place] == settings


def test_methods_epochs_and_encoder(tmp_path):
    plans = Options(["diffor-paper", "method:or-cnn"], epochs=1, encoder="small").apply(GRIDS["tables"].plans())
    found = methods_of(plans)
    assert {name for _, name in found} == {"constant", "diffor-paper", "method:or-cnn"}
    assert found[0, "diffor-paper"] == {
        "encoder": "small", "image_settings": {"augment": False}, "epochs": 1, "early_stopping": False,
        "evaluate_every": 1_000_000,
    }  # fmt: skip
    assert found[2, "diffor-paper"]["epochs"] == 1
    assert "encoder" not in found[2, "diffor-paper"]
    (tmp_path / "mine.pth").write_bytes(b"")
    mine = Options(weights=str(tmp_path / "mine.pth"), encoder="resnet18").apply(GRIDS["ablation"].plans())
    settings = methods_of(mine)[0, "a-full"]
    assert (settings["encoder"], settings["encoder_weights"]) == ("resnet18", str(tmp_path / "mine.pth"))


@pytest.mark.parametrize(
    ("options", "grid", "message"),
    [
        (Options(), "ablation", "resnet50 starts from weights in the file resnet50.pth, but there is none "
                                r"\(resnet50.pth or .*resnet50.pth\); name yours with --weights, or begin"),
        (Options(["method:orcnn"]), "tables", "--methods must be among .*, but got 'method:orcnn' .did you mean 'meth"),
        (Options(epochs=3), "times", "--epochs is for run files whose methods have epochs, but got 3, and none here"),
        (Options(encoder="small"), "times", "--encoder is for run files whose methods have encoder, but got 'small'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(options, grid, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UserError, match=message):
        options.apply(GRIDS[grid].plans(), str(tmp_path))
