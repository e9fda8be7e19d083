import json
import subprocess
import sys

import pytest

from adaptkry.common.files import FOLDER_MARKERS
from adaptkry.common.journal import CHECK_THEMSELVES, COMMAND_OUTPUTS, JOURNAL, Journal, signed_part

REQUEST = {"trials": 40, "seed": 0, "taus": (0.5, 1.0)}


def new_journal(folder, key="k1", **changes):
    return Journal(folder, key, **{"command": "tune", "request": REQUEST, **changes})


@pytest.fixture
def started(tmp_path):
    """A folder with two finished parts."""
    with new_journal(tmp_path / "out") as journal:
        journal.add("a", {"score": 0.5})
        journal.add("b", {"score": 0.25})
    return tmp_path / "out"


def lines(folder):
    return (folder / JOURNAL).read_text().splitlines()


def test_a_new_journal_has_nothing_done_and_records_the_request(tmp_path):
    with new_journal(tmp_path / "deep" / "out") as journal:
        assert (journal.is_new, journal.done) == (True, {})
        assert journal.missing(["a", "b"]) == ["a", "b"]
        assert json.loads(lines(journal.folder)[0]) == {
            "journal": 2, "command": "tune", "key": "k1", "request": {"trials": 40, "seed": 0, "taus": [0.5, 1.0]},
        }  # fmt: skip


def test_added_parts_are_done_immediately_and_after_reopening(started):
    with new_journal(started) as found:
        assert not found.is_new
        assert found.done == {"a": {"score": 0.5}, "b": {"score": 0.25}}
        assert found.missing(["c", "b", "a", "d"]) == ["c", "d"]
        found.add("c")
        assert found.missing(["c", "d"]) == ["d"]
    with new_journal(started) as again:
        assert list(again.done) == ["a", "b", "c"]
        assert again.done["c"] == {}


def test_a_part_is_in_the_file_before_add_returns(tmp_path):
    with new_journal(tmp_path) as journal:
        journal.add("a", {"score": 1})
        part = json.loads(lines(tmp_path)[1])
        assert (part["name"], part["record"]) == ("a", {"score": 1})


def test_a_part_that_is_added_twice_has_the_second_record(started):
    with new_journal(started) as found:
        found.add("a", {"score": 1.0})
    with new_journal(started) as again:
        assert again.done["a"] == {"score": 1.0}


def test_a_second_journal_is_refused_at_once_and_writes_nothing(started):
    with new_journal(started) as first:
        before = (started / JOURNAL).read_bytes()
        for resume in (True, False):
            with pytest.raises(ValueError, match=r"another command is writing to .*out. Wait for it to finish, or use"):
                new_journal(started, "other", resume=resume).__enter__()
        assert (started / JOURNAL).read_bytes() == before
        first.add("c")
    with new_journal(started) as again:  # the lock is free after the first one ends
        assert "c" in again.done


def test_another_process_is_refused(started):
    text = (
        "from adaptkry.common.journal import Journal\n"
        f"try:\n    Journal({str(started)!r}, 'k1', command='tune', resume=False).__enter__()\n"
        "except ValueError as error:\n    print(error)\n"
    )
    with new_journal(started):
        shown = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("another command is writing to")
    assert len(lines(started)) == 3


def test_the_lock_is_taken_before_anything_is_written(tmp_path, monkeypatch):
    order = []

    def lock(folder):
        order.append(("lock", sorted(path.name for path in folder.iterdir())))
        raise ValueError("locked")

    monkeypatch.setattr("adaptkry.common.journal.exclusive_lock", lock)
    with pytest.raises(ValueError, match="locked"):
        new_journal(tmp_path).__enter__()
    assert order == [("lock", [])]
    assert list(tmp_path.iterdir()) == []


def test_the_lock_is_released_when_a_journal_is_refused(started):
    with pytest.raises(ValueError, match="other settings"):
        new_journal(started, "k2").__enter__()
    with new_journal(started) as found:
        assert len(found.done) == 2


def test_the_lock_is_released_when_the_block_raises(started):
    with pytest.raises(ZeroDivisionError), new_journal(started):
        raise ZeroDivisionError
    with new_journal(started) as found:
        assert len(found.done) == 2


def test_the_folder_of_another_command_is_refused_even_to_start_over(started):
    for resume in (True, False):
        with pytest.raises(ValueError, match=r"out holds a search, not a comparison. Use another output folder.$"):
            new_journal(started, command="compare", resume=resume).__enter__()
    with pytest.raises(ValueError, match="holds a search, not a run"):
        new_journal(started, command="fit", file=None).__enter__()
    assert len(lines(started)) == 3


@pytest.mark.parametrize("marker", FOLDER_MARKERS)
def test_a_folder_with_the_marker_of_another_command_is_refused(tmp_path, marker):
    (tmp_path / marker).write_text("{}")
    for command, (what, own) in COMMAND_OUTPUTS.items():
        journal = Journal(tmp_path, "k", command=command, file=None)
        if own == marker and command in CHECK_THEMSELVES:
            with journal:
                pass
        elif own == marker:
            with pytest.raises(ValueError, match=f"or of an earlier `adaptkry {command}`; .* holds {marker}"):
                journal.__enter__()
        else:
            with pytest.raises(
                ValueError, match=f"holds {FOLDER_MARKERS[marker]}, not {what}. Use another output folder"
            ):
                journal.__enter__()


def test_a_command_may_resume_beside_its_own_markers(started):
    (started / "run.json").write_text("{}")  # a search ends with a run
    with new_journal(started) as found:
        assert len(found.done) == 2


def test_another_key_is_refused_and_what_differs_is_named(started):
    with pytest.raises(ValueError, match="seed") as caught:
        new_journal(started, "k2", request={**REQUEST, "seed": 7}).__enter__()
    assert str(caught.value) == (
        f"{started} was started with other settings: seed was 0, now 7. Use another output folder, or the old settings."
    )


def test_several_differences_are_all_named(started):
    with pytest.raises(ValueError, match=r"settings: trials was 40, now not set; taus was \[0.5, 1.0\], now \[0.5\];"):
        new_journal(started, "k2", request={"seed": 0, "taus": (0.5,), "new": 1}).__enter__()


def test_another_key_with_the_same_request_names_the_data(started):
    with pytest.raises(ValueError, match=r"the data \(its digest\) was k1, now ffffffffffff\.\.\.\."):
        new_journal(started, "f" * 64).__enter__()


def test_only_the_key_is_compared_and_not_the_request(started):
    with new_journal(started, request={"seed": 1}) as found:
        assert len(found.done) == 2


@pytest.mark.parametrize(
    "half", [b'{"name": "c", "rec', b'{"name": "c", "record": {}}', b'{"name": "c"}\n', b"\0\0\n", b"x" * 500]
)
def test_an_incomplete_last_line_is_ignored_with_a_message_and_removed_by_the_next_add(started, half, caplog):
    path = started / JOURNAL
    whole = path.read_bytes()
    path.write_bytes(whole + half)
    with new_journal(started) as found:
        assert list(found.done) == ["a", "b"]
        assert "the last line of" in caplog.text
        assert path.read_bytes() == whole + half
        found.add("d")
    assert path.read_bytes() == whole + (json.dumps(signed_part("d", {})) + "\n").encode()
    with new_journal(started) as again:
        assert list(again.done) == ["a", "b", "d"]


def test_a_failed_write_does_not_damage_the_next_one(started):
    with new_journal(started) as found:
        with (started / JOURNAL).open("ab") as file:
            file.write(b'{"name": "c", "re')  # as a full disk leaves it
        found.add("d")
    with new_journal(started) as again:
        assert list(again.done) == ["a", "b", "d"]


def test_a_damaged_line_in_the_middle_is_refused_with_its_number(started):
    path = started / JOURNAL
    head, first, *rest = path.read_text().splitlines(keepends=True)
    path.write_text("".join([head, first[: len(first) // 2] + "\n", *rest]))
    with pytest.raises(ValueError, match=r"line 2 of .*journal.jsonl is damaged. Restore the file, or use another"):
        new_journal(started).__enter__()


def test_an_edited_line_is_refused(started):
    path = started / JOURNAL
    path.write_text(path.read_text().replace("0.5}", "0.75}"))
    with pytest.raises(ValueError, match=r"line 2 of .* is damaged"):
        new_journal(started).__enter__()


@pytest.mark.parametrize("name", ["rows.jsonl", "curves.csv", "report.html", "run.json", "notes"])
@pytest.mark.parametrize("command", ["fit", "tune", "auto", "compare"])
def test_a_folder_with_files_of_somebody_else_is_refused_and_not_changed(tmp_path, command, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(ValueError, match=r"holds|Use another output folder"):
        new_journal(tmp_path, command=command).__enter__()
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {name: "mine"}


def test_hidden_files_may_be_in_a_new_folder_and_leftovers_of_a_killed_process_are_removed(tmp_path):
    (tmp_path / ".gitkeep").touch()
    (tmp_path / f".checkpoint.safetensors.{2**22 + 1}.part").touch()  # no process has this number
    with new_journal(tmp_path):
        assert {path.name for path in tmp_path.iterdir()} == {".gitkeep", JOURNAL}


def test_an_empty_output_folder_is_refused():
    with pytest.raises(ValueError, match="the output folder must not be empty"):
        new_journal("")


@pytest.mark.parametrize("head", ["", "{", "[]", "7", '{"journal": 1}', '{"trial": 0, "score": 1}', "\udcff"])
def test_a_damaged_header_is_refused_even_to_start_over(started, head):
    path = started / JOURNAL
    rest = path.read_text().splitlines()[1:]
    path.write_bytes("\n".join([head, *rest]).encode(errors="surrogateescape"))
    for resume in (True, False):
        with pytest.raises(ValueError, match="must begin with the header of a journal; its first line is damaged"):
            new_journal(started, resume=resume).__enter__()


def test_the_journal_of_a_later_format_is_refused(started):
    path = started / JOURNAL
    path.write_text(path.read_text().replace('"journal": 2', '"journal": 3'))
    with pytest.raises(ValueError, match="from another version"):
        new_journal(started).__enter__()


def test_starting_over_discards_finished_parts_also_under_another_key(started):
    with new_journal(started, "k2", resume=False) as found:
        assert (found.is_new, found.done) == (True, {})
        found.add("z")
    with new_journal(started, "k2") as again:
        assert list(again.done) == ["z"]


def test_finished_parts_are_not_discarded_with_overwrite_false(started):
    with pytest.raises(
        ValueError, match=r"already holds a search \(2 finished\). Add --resume, or use another output folder"
    ):
        new_journal(started, resume=False, overwrite=False).__enter__()
    with new_journal(started, overwrite=False) as found:
        assert len(found.done) == 2


def test_without_a_file_the_caller_passes_finished_parts(tmp_path):
    with new_journal(tmp_path, file=None, done={"a": {"score": 1}}) as journal:
        assert (journal.is_new, journal.missing("ab")) == (False, ["b"])
        journal.add("b")
        assert journal.missing("ab") == []
        with pytest.raises(ValueError, match="another command is writing"):
            new_journal(tmp_path, file=None).__enter__()
    assert list(tmp_path.iterdir()) == []
    with new_journal(tmp_path, file=None) as again:
        assert again.is_new


def test_a_key_may_be_given_after_the_lock(tmp_path):
    with Journal(tmp_path, command="propagate", file=None) as journal:
        journal.open("k", {"degree": 2}, recorded={"degree": 2}, done={"block-0-4": {}})
        assert journal.missing(["block-0-4", "block-4-8"]) == ["block-4-8"]
        assert not journal.is_new
    with (
        pytest.raises(ValueError, match="other settings: degree was 2, now 3"),
        Journal(tmp_path, command="propagate", file=None) as journal,
    ):
        journal.open("k2", {"degree": 3}, recorded={"degree": 2})


def test_a_command_that_fails_before_anything_is_done_leaves_no_folder(tmp_path):
    with pytest.raises(ZeroDivisionError), new_journal(tmp_path / "out"):
        raise ZeroDivisionError
    assert not (tmp_path / "out").exists()
    with pytest.raises(ZeroDivisionError), new_journal(tmp_path):
        raise ZeroDivisionError
    assert tmp_path.exists()  # it was there before


def test_a_command_that_fails_keeps_finished_parts_and_files(tmp_path):
    def work(folder, file=None):
        with new_journal(folder) as journal:
            if file:
                (folder / file).write_bytes(b"1")
            else:
                journal.add("a")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        work(tmp_path / "out")
    with pytest.raises(ZeroDivisionError):
        work(tmp_path / "other", "half-written.npy")
    with new_journal(tmp_path / "out") as found:
        assert list(found.done) == ["a"]
    assert len(list((tmp_path / "other").iterdir())) == 2


def test_an_output_folder_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "out").write_text("mine")
    with pytest.raises(OSError, match="the output folder must be writable"):
        new_journal(tmp_path / "out").__enter__()
