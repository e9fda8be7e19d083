import os

import pytest

from adaptkry.common import files


def test_text_and_bytes_replace_the_old_content(tmp_path):
    path = tmp_path / "page.txt"
    files.write(path, "hé")
    files.write(path, b"ha")
    assert path.read_bytes() == b"ha"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_only_the_old_file(tmp_path):
    path = tmp_path / "page.txt"
    files.write(path, "old")
    with pytest.raises(TypeError), files.replacing(path) as file:
        file.writelines([b"half of", None])  # type: ignore[list-item]
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_names_the_requested_file(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        files.write(tmp_path / "nowhere" / "page.txt", "new")
    assert caught.value.filename == str(tmp_path / "nowhere" / "page.txt")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "page.txt")
    files.write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "page.txt").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    files.write(pipe, "news")
    assert os.read(reader, 10) == b"news"
    assert pipe.is_fifo()
    os.close(reader)


@pytest.mark.parametrize("marker", files.FOLDER_MARKERS)
def test_an_output_folder_of_another_kind_is_refused_and_one_of_the_same_kind_is_not(tmp_path, marker):
    (tmp_path / marker).touch()
    others = [other for other in files.FOLDER_MARKERS if other != marker]
    with pytest.raises(ValueError, match=f"holds {files.FOLDER_MARKERS[marker]}, which would be overwritten"):
        files.check_output_folder(tmp_path, *others)
    with pytest.raises(ValueError, match="which would be overwritten"):
        files.check_markers(tmp_path)
    assert files.check_output_folder(tmp_path, marker) == tmp_path


def test_an_output_folder_is_created_and_a_file_in_its_place_is_refused(tmp_path):
    assert files.check_output_folder(tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").touch()
    with pytest.raises(
        OSError, match=r"the output folder must be writable; got .*file \(File exists\)\. Choose another"
    ):
        files.check_output_folder(tmp_path / "file")


def test_a_locked_folder_is_refused_until_the_lock_is_released(tmp_path):
    with (
        files.exclusive_lock(tmp_path),
        pytest.raises(ValueError, match=r"another command is writing to .* Wait for it to finish"),
        files.exclusive_lock(tmp_path),
    ):
        pass
    with files.exclusive_lock(tmp_path):
        pass


def test_an_error_inside_a_lock_is_not_reported_as_a_locked_folder(tmp_path):
    with pytest.raises(BlockingIOError), files.exclusive_lock(tmp_path):
        raise BlockingIOError
