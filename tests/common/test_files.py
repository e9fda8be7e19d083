import errno
import json
import os
import subprocess

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


@pytest.mark.parametrize("empty", ["", "  "])
def test_an_empty_path_is_refused(empty):
    with pytest.raises(ValueError, match=r"the output folder must not be empty; got .* Is a variable unset"):
        files.checked_path(empty, "the output folder")
    with pytest.raises(TypeError, match="the path must be a path; got 3"):
        files.checked_path(3)  # type: ignore[arg-type]


@pytest.mark.parametrize("link", ["itself", "symlink_to", "hardlink_to"])
def test_an_output_file_is_no_input_and_no_file_of_somebody_else(tmp_path, link):
    given, out = tmp_path / "nodes.csv", tmp_path / "out.csv"
    given.write_text("ours")
    if link == "itself":
        out = given
    else:
        getattr(out, link)(given)
    with pytest.raises(ValueError, match=r"the output must not be an input; got .*\.csv for both"):
        files.check_output_file(out, [tmp_path / "missing", given], lambda _: True)
    assert files.check_output_file(out, [], lambda head: head == b"ours") == out
    with pytest.raises(ValueError, match="exists, and is no earlier output of this kind"):
        files.check_output_file(out, [], lambda head: head == b"other")


def test_an_output_file_may_be_new_empty_or_a_device(tmp_path):
    (tmp_path / "empty").touch()
    for path in (tmp_path / "new", tmp_path / "empty", "/dev/null"):
        files.check_output_file(path, [], lambda _: False)


def test_leftovers_of_ended_processes_are_removed_and_others_are_kept(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    names = [f".page.txt.{ended.pid}.part", f".page.txt.{os.getppid()}.part", ".page.txt.mine.part", "page.1.part"]
    for name in [*names, f".other.{ended.pid}.part"]:
        (tmp_path / name).touch()
    files.write(tmp_path / "page.txt", "new")
    assert {path.name for path in tmp_path.iterdir()} == {*names[1:], f".other.{ended.pid}.part", "page.txt"}
    files.remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*names[1:], "page.txt"}


def test_a_full_disk_is_named_with_the_file_and_a_remedy(tmp_path):
    with pytest.raises(OSError, match=r"the disk is full. Free some space") as caught, files.replacing(tmp_path / "p"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.filename == str(tmp_path / "p")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[1]", "7", "\udcff", "[" * 100_000, '{"a":' * 100_000])
def test_a_file_that_is_no_json_object_is_refused_with_its_name(tmp_path, content):
    (tmp_path / "run.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(ValueError, match=r"run\.json must be .*JSON.* Train again\.$"):
        files.read_json(tmp_path / "run.json", "Train again.")


def test_a_signed_document_that_was_changed_is_refused(tmp_path):
    path, document = tmp_path / "run.json", {"a": [1, 2.5, float("nan")], "b": None}
    files.write(path, json.dumps(files.signed(document)))
    assert files.read_signed(path, "")["b"] is None
    path.write_text(path.read_text().replace("2.5", "2.25"))
    with pytest.raises(ValueError, match=r"it was changed or damaged since. Train again"):
        files.read_signed(path, "Train again.")


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
