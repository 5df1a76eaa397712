import json
import os
import stat

import pytest
import torch
from safetensors.torch import save as tensors_to_bytes

from diffor.files.atomic import DataError
from diffor.training.checkpoint import (
    CONFIG,
    FORMAT,
    WEIGHTS,
    CheckpointError,
    checkpoint_lock,
    digest_of,
    load_folder,
    pack,
    save_folder,
    unpack,
    write_atomically,
)

TENSORS = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor([1, 2])}


@pytest.fixture
def folder(tmp_path):
    save_folder(tmp_path / "model", {"version": "0.1.0", "x": [1, None]}, TENSORS)
    return tmp_path / "model"


def test_a_folder_holds_json_and_safetensors_only_and_returns_what_was_saved(folder):
    assert sorted(file.name for file in folder.iterdir()) == [CONFIG, WEIGHTS]
    config, tensors = load_folder(folder)
    assert config["x"] == [1, None]
    assert config["format"] == FORMAT
    assert all(torch.equal(tensors[name], value) for name, value in TENSORS.items())


def test_files_have_the_usual_permissions(folder, tmp_path):
    (tmp_path / "usual").write_text("")
    (tmp_path / "usual_folder").mkdir()

    def mode(path):
        return stat.S_IMODE(os.stat(path).st_mode)

    assert all(mode(folder / name) == mode(tmp_path / "usual") for name in (CONFIG, WEIGHTS))
    assert mode(folder) == mode(tmp_path / "usual_folder")


def test_an_existing_folder_is_replaced_only_if_asked(folder):
    with pytest.raises(FileExistsError, match="exists already: choose another folder or pass overwrite=True"):
        save_folder(folder, {}, {})
    save_folder(folder, {"x": 2}, {}, overwrite=True)
    assert load_folder(folder)[0]["x"] == 2
    assert list(folder.parent.iterdir()) == [folder]


def test_a_folder_that_is_no_model_is_never_replaced(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("work of years")
    with pytest.raises(FileExistsError, match="is not a DiffoR model, so it is not replaced"):
        save_folder(tmp_path / "mine", {}, {}, overwrite=True)
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "work of years"


def test_a_config_that_cannot_be_written_leaves_nothing_behind(tmp_path):
    with pytest.raises(ValueError, match="JSON"):
        save_folder(tmp_path / "model", {"x": float("nan")}, TENSORS)
    assert list(tmp_path.iterdir()) == []


def half_of(name):
    return lambda folder: os.truncate(folder / name, (folder / name).stat().st_size // 2)


def newer_format(folder):
    config = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps(config | {"format": FORMAT + 1, "version": "9.0"}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (half_of(WEIGHTS), "truncated, changed or swapped"),
        (lambda folder: (folder / WEIGHTS).write_bytes(pack({"a": torch.zeros(2, 3)}, {})), "changed or swapped"),
        (lambda folder: (folder / WEIGHTS).unlink(), "cannot be read .*; the folder is incomplete"),
        (half_of(CONFIG), "is damaged .*; save the model again"),
        (lambda folder: (folder / CONFIG).write_text('{"model_type": "other"}'), "is not a DiffoR model's"),
        (newer_format, rf"has format {FORMAT + 1}, this DiffoR reads format {FORMAT}: .*diffor 9.0"),
    ],
)
def test_damage_is_named(folder, damage, message):
    damage(folder)
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder)


FACTS = ["[]", "[" * 100_000]
DAMAGED = [b"", b"\x00" * 100, *(tensors_to_bytes(TENSORS, metadata={"facts": facts}) for facts in FACTS)]


@pytest.mark.parametrize("content", DAMAGED)
def test_a_damaged_state_file_and_facts_that_are_none_are_named(tmp_path, content):
    (tmp_path / "state").write_bytes(content)
    with pytest.raises(CheckpointError, match=r"is damaged or not a DiffoR file .*; restore or delete it"):
        unpack(tmp_path / "state")


def test_a_checkpoint_folder_is_for_one_fit_at_a_time(tmp_path):
    message = "run must belong to one fit at a time, but another one is at it; wait for its end, or choose another"
    with checkpoint_lock(tmp_path / "run"), pytest.raises(DataError, match=message), checkpoint_lock(tmp_path / "run"):
        pytest.fail("two had it")


def test_further_files_come_with_the_model_in_one_step(tmp_path):
    save_folder(tmp_path / "model", {}, TENSORS, beside={"cli.json": b"{}"})
    assert (tmp_path / "model" / "cli.json").read_bytes() == b"{}"
    save_folder(tmp_path / "model", {}, TENSORS, overwrite=True)
    assert not (tmp_path / "model" / "cli.json").exists()


@pytest.mark.parametrize("name", ["nothing", "zero\0byte", "loop"])
def test_names_of_no_folder_are_refused(tmp_path, name):
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(CheckpointError, match="is not a folder: pass the folder that save"):
        load_folder(tmp_path / name)


def test_digests_are_of_names_kinds_shapes_and_facts_which_a_file_keeps(tmp_path):
    write_atomically(tmp_path / "state", pack(TENSORS, {"step": 1}))
    assert digest_of(*unpack(tmp_path / "state")) == digest_of(TENSORS, {"step": 1})
    known = digest_of(TENSORS, {"step": 1})
    assert known == digest_of(dict(reversed(TENSORS.items())), {"step": 1})
    others = [
        ({"a": TENSORS["a"], "c": TENSORS["b"]}, {"step": 1}),
        (TENSORS | {"a": TENSORS["a"].double()}, {"step": 1}),
        (TENSORS | {"a": TENSORS["a"].reshape(3, 2)}, {"step": 1}),
        (TENSORS | {"a": TENSORS["a"] + 1e-6}, {"step": 1}),
        (TENSORS, {"step": 2}),
    ]
    assert known not in [digest_of(*other) for other in others]
    assert digest_of({"x": torch.tensor(True), "y": torch.zeros(0, 3)}, {}) != digest_of({}, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 2, "weights_sha256": "a", "format": 2}', "is damaged .*the name 'format' stands twice"),
        ("[" * 100_000, "is damaged .*nested more than 32 deep"),
        ('{"format": 2, "weights_sha256": "a", "x": NaN}', "is damaged .*NaN is no JSON number"),
        ('{"format": 2, "weights_sha256": "a", "x": 1e999}', "is damaged .*Out of range float"),
        ('{"format": 2, "weights_sha256": "a"}', "its config_sha256 does not belong to what it holds"),
    ],
)
def test_a_configuration_is_strict_json_with_its_own_digest(folder, text, message):
    (folder / CONFIG).write_text(text)
    with pytest.raises(CheckpointError, match=message):
        load_folder(folder)
