"""What a model's folder remembers for the commands may come from a stranger: only text is taken from it."""

import os

import pytest

from diffor.cli.model_folder import NOTES, read_notes, remembered_sides, remembered_target
from diffor.errors import UserError


def test_notes_are_read_as_they_were_written(tmp_path):
    (tmp_path / NOTES).write_text(
        '{"target": "price", "weight": null, "dropped": ["id"], "side": {"duration": "length"}}'
    )
    assert remembered_target(tmp_path) == "price"
    assert remembered_sides(tmp_path) == {"duration": "length"}
    assert read_notes(tmp_path)["dropped"] == ["id"]


def test_no_notes_are_no_fault(tmp_path):
    assert remembered_sides(tmp_path) is None
    with pytest.raises(UserError, match="does not remember one; add --target COL"):
        remembered_target(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{}", '{"target": ["a"]}', '{"target": "a", "x": 1}', '{"target": "a", "side": {"duration": 5}}']
)
def test_notes_that_were_changed_are_refused(tmp_path, text):
    (tmp_path / NOTES).write_text(text)
    for ask in (remembered_target, remembered_sides):
        with pytest.raises(UserError, match="what diffor fit noted of the columns, but it is damaged; fit again, or"):
            ask(tmp_path)


def test_a_pipe_or_a_link_out_of_the_folder_is_not_waited_for(tmp_path):
    (tmp_path / "model").mkdir()
    os.mkfifo(tmp_path / "model" / NOTES)
    with pytest.raises(UserError, match="is damaged"):
        remembered_target(tmp_path / "model")
    (tmp_path / "model" / NOTES).unlink()
    (tmp_path / "secret").write_text('{"target": "a"}')
    (tmp_path / "model" / NOTES).symlink_to("../secret")
    with pytest.raises(UserError, match="is damaged"):
        remembered_target(tmp_path / "model")
