import os

import pytest

from diffor.files.atomic import DataError, replacing, write_atomically


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, "not bytes")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "page").mkdir()
    with pytest.raises(DataError, match="page cannot be written: Is a directory"):
        write_atomically(tmp_path / "page", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["page"]


@pytest.mark.skipif(os.name != "posix", reason="permissions and links are those of POSIX")
def test_new_files_have_the_usual_permissions_and_links_stay(tmp_path):
    new = tmp_path / "new.csv"
    mask = os.umask(0o027)
    try:
        with replacing(new) as temporary:
            temporary.write_text("x\n")
    finally:
        os.umask(mask)
    assert new.stat().st_mode & 0o777 == 0o640
    new.chmod(0o604)
    link = tmp_path / "link.csv"
    link.symlink_to(new)
    with replacing(link) as temporary:
        temporary.write_text("y\n")
    assert link.is_symlink()
    assert new.read_text() == "y\n"
    assert new.stat().st_mode & 0o777 == 0o604
