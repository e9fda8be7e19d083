import os

import pytest

from adaptkry.common import files as storage


def test_text_and_bytes_replace_what_was_there(tmp_path):
    path = tmp_path / "page.txt"
    storage.write(path, "hé")
    storage.write(path, b"ha")
    assert path.read_bytes() == b"ha"
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_beside_it(tmp_path):
    path = tmp_path / "page.txt"
    storage.write(path, "old")
    with pytest.raises(TypeError), storage.replacing(path) as file:
        file.writelines([b"half of", None])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_place_that_cannot_be_written_to_is_named_as_it_was_asked_for(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        storage.write(tmp_path / "nowhere" / "page.txt", "new")
    assert caught.value.filename == str(tmp_path / "nowhere" / "page.txt")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "page.txt")
    storage.write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.txt").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    storage.write(pipe, "news")
    assert os.read(reader, 10) == b"news"
    assert pipe.is_fifo()
    os.close(reader)
