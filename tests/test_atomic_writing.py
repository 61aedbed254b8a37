"""A file is written whole or not at all: nothing that ends the writer leaves a half, or anything
beside it."""

import os
import threading

import pytest

from ppkit.atomic_writing import whole, write_whole


def test_text_and_bytes_take_the_name_and_leave_nothing_beside_it(tmp_path):
    path = tmp_path / "a.json"
    for content, stored in (("ä\n", "ä\n".encode()), (b"\x00", b"\x00"), ("", b"")):
        write_whole(path, content, durable=True)
        assert path.read_bytes() == stored and os.listdir(tmp_path) == ["a.json"]


def test_a_folder_or_a_link_takes_the_name_whole_and_what_fails_half_way_is_gone(tmp_path):
    folder, link = tmp_path / "pages", tmp_path / "latest"
    with pytest.raises(OSError, match="full"), whole(folder) as part:
        part.mkdir()
        (part / "a.html").write_text("half")
        raise OSError("full")
    assert os.listdir(tmp_path) == []
    with whole(folder) as part:
        part.mkdir()
        (part / "a.html").write_text("a")
    for target in ("elsewhere", "pages"):
        with whole(link) as part:
            part.symlink_to(target)
    with pytest.raises(KeyboardInterrupt), whole(link) as part:
        part.symlink_to("pages")
        raise KeyboardInterrupt
    assert os.readlink(link) == "pages" and (link / "a.html").read_text() == "a"
    assert sorted(os.listdir(tmp_path)) == ["latest", "pages"]


def test_who_may_read_a_new_file_is_the_caller_s_choice(tmp_path):
    write_whole(tmp_path / "secret", b"", mode=0o600)
    assert (tmp_path / "secret").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_what_fails_half_way_leaves_the_old_file_alone(error, tmp_path):
    path = tmp_path / "a.json"
    path.write_text("old")
    with pytest.raises(error), whole(path) as part:
        part.write_text("half")
        raise error
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.json"]


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_a_killed_process_of_this_number_left_is_not_in_the_way(kind, tmp_path):
    """In a container each run may have the same number."""
    left = tmp_path / f"a.{os.getpid()}.part"
    if kind == "file":
        left.write_text("half")
    elif kind == "link":
        left.symlink_to(tmp_path / "nowhere")
    else:
        (left / "half").mkdir(parents=True)
    with whole(tmp_path / "a") as part:
        part.mkdir()
        (part / "new").touch()
    assert os.listdir(tmp_path) == ["a"] and os.listdir(tmp_path / "a") == ["new"]


def test_a_full_disk_leaves_the_old_file_alone(tmp_path, full):
    path = tmp_path / "a.json"
    path.write_text("old")
    full("a.json")
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "new")
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.json"]


def test_a_reader_sees_the_old_file_or_the_new_one(tmp_path):
    path, seen, over = tmp_path / "a", set(), threading.Event()
    write_whole(path, "0" * 100_000)

    def read():
        while not over.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for digit in "123456789":
        write_whole(path, digit * 100_000)
    over.set()
    reader.join()
    assert seen <= {digit * 100_000 for digit in "0123456789"}
