from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.flow.tools import FileAccessError, file_tools
from anabranch.flow.tools._sandbox import Sandbox
from anabranch.flow.tools._search import cut_into_passages, search

SECRET = "the secret is plover"

Read = Callable[..., str]
Find = Callable[[str], str]


@pytest.fixture(params=["by descriptor", "by check"])
def way_of_opening(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with both ways of opening a file: the second is for systems without `dir_fd`."""
    if request.param == "by check":
        monkeypatch.setattr("anabranch.flow.tools._sandbox._WALKS_BY_DESCRIPTOR", False)
    return str(request.param)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with some text, and a secret beside it."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text(SECRET)
    inside = tmp_path / "inside"
    (inside / "guide").mkdir(parents=True)
    (inside / "readme.md").write_text("# Boats\n\nA boat floats on the river.\nIt is red.\n")
    (inside / "guide" / "locks.md").write_text("# Locks\n\nA lock lifts boats.\n\nThe keeper opens the gates.\n")
    return inside


@pytest.fixture
def read(folder: Path) -> Read:
    return file_tools(folder)[1]


@pytest.fixture
def find(folder: Path) -> Find:
    return file_tools(folder)[0]


def test_it_reads_a_file_with_line_numbers(read: Read) -> None:
    assert read("guide/locks.md") == (
        "guide/locks.md, lines 1-5 of 5\n1: # Locks\n2: \n3: A lock lifts boats.\n4: \n5: The keeper opens the gates."
    )


@pytest.mark.parametrize("path", ["./readme.md", "readme.md", "./././readme.md"])
def test_a_path_may_be_written_in_several_ways(read: Read, path: str) -> None:
    assert "It is red." in read(path)


def test_it_reads_some_lines_only(read: Read) -> None:
    assert read("readme.md", 3, 3) == "readme.md, lines 3-3 of 4\n3: A boat floats on the river."
    assert read("readme.md", start_line=4, end_line=99).splitlines()[1:] == ["4: It is red."]


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        (0, None, "count from 1"),
        (3, 2, "count from 1"),
        (-1, -1, "count from 1"),
        (5, None, "beyond the end"),
    ],
)
def test_lines_that_do_not_exist_are_an_error(read: Read, start: int, end: int | None, message: str) -> None:
    with pytest.raises(FileAccessError, match=message):
        read("readme.md", start, end)


def test_an_empty_file_has_one_empty_line(folder: Path, read: Read) -> None:
    (folder / "empty.txt").touch()
    assert read("empty.txt") == "empty.txt, lines 1-1 of 1\n1: "


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("../outside/secret.txt", "outside"),
        ("guide/../../outside/secret.txt", "outside"),
        ("guide/../readme.md", "outside"),
        ("..", "outside"),
        ("", "empty"),
        (".", "empty"),
        ("/etc/passwd", "outside"),
        ("//etc/passwd", "outside"),
        ("guide", "is a folder"),
        ("guide/", "is a folder"),
        ("readme.md/x", "no file"),
        ("nothing.md", "no file"),
        ("~/x", "no file"),
        ("..\\outside\\secret.txt", "hidden|outside"),
        ("file:///etc/passwd", "no file"),
        ("%2e%2e/outside/secret.txt", "no file"),
        ("x/" * 3000 + "x", "at most 1000"),
        ("a\0b", "no proper name"),
        ("a\nb", "no proper name"),
        ("a\udcffb", "no proper name"),
        ("x" * 999, "cannot be opened|no file"),
        ("x/" * 400 + "x", "no file"),
    ],
    ids=lambda value: repr(value)[:30],
)
@pytest.mark.usefixtures("way_of_opening")
def test_other_paths_are_refused(read: Read, path: str, message: str) -> None:
    with pytest.raises(FileAccessError, match=message):
        read(path)


@pytest.mark.usefixtures("way_of_opening")
def test_absolute_paths_are_refused_even_into_the_folder(folder: Path, read: Read) -> None:
    with pytest.raises(FileAccessError, match="relative"):
        read(str(folder / "readme.md"))


@pytest.mark.usefixtures("way_of_opening")
def test_links_are_not_followed(folder: Path, read: Read, find: Find) -> None:
    (folder / "file_link").symlink_to(folder.parent / "outside" / "secret.txt")
    (folder / "folder_link").symlink_to(folder.parent / "outside")
    (folder / "relative_link").symlink_to("../outside/secret.txt")
    (folder / "inner_link").symlink_to("readme.md")
    (folder / "loop").symlink_to("loop")
    (folder / "dangling").symlink_to("nowhere")
    paths = [
        "file_link",
        "folder_link",
        "folder_link/secret.txt",
        "relative_link",
        "inner_link",
        "loop",
        "dangling",
    ]
    for path in paths:
        with pytest.raises(FileAccessError, match="links are not followed"):
            read(path)
    assert "No line matches" in find("plover")
    assert find("river").startswith("readme.md:3:")


@pytest.mark.usefixtures("way_of_opening")
def test_devices_and_pipes_are_refused_without_waiting(folder: Path, read: Read, find: Find) -> None:
    os.mkfifo(folder / "fifo")
    with pytest.raises(FileAccessError, match="device or a pipe"):
        read("fifo")
    assert "searched 2 text files" in find("plover")
    with pytest.raises(FileAccessError, match="device or a pipe"):
        file_tools("/dev")[1]("null")


def test_the_folder_itself_may_be_reached_over_a_link(folder: Path) -> None:
    (folder.parent / "alias").symlink_to(folder)
    assert "It is red." in file_tools(folder.parent / "alias")[1]("readme.md")


@pytest.mark.parametrize("where", ["readme.md", "nothing"])
def test_the_folder_must_exist(folder: Path, where: str) -> None:
    with pytest.raises(FileAccessError, match="is not a folder"):
        file_tools(folder / where)


def test_a_folder_that_is_gone_is_an_error_and_finds_nothing(tmp_path: Path) -> None:
    (tmp_path / "short").mkdir()
    find, read = file_tools(tmp_path / "short")
    (tmp_path / "short").rmdir()
    assert "No line matches" in find("x")
    with pytest.raises(FileAccessError, match="no file"):
        read("x")


def test_a_link_put_in_place_between_looking_and_opening_is_not_followed(
    folder: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "guide" / "victim.txt").write_text("harmless")
    real_stat = os.stat

    def swap_after_looking(path: Any, **options: Any) -> os.stat_result:
        result = real_stat(path, **options)
        if path == "victim.txt":
            (folder / "guide" / "victim.txt").unlink()
            (folder / "guide" / "victim.txt").symlink_to(folder.parent / "outside" / "secret.txt")
        return result

    monkeypatch.setattr(os, "stat", swap_after_looking)
    with pytest.raises(FileAccessError, match="links are not followed"):
        read("guide/victim.txt")


def test_a_folder_swapped_for_a_link_between_looking_and_opening_is_not_followed(
    folder: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "guide" / "secret.txt").write_text("harmless")
    real_stat = os.stat

    def swap_after_looking(path: Any, **options: Any) -> os.stat_result:
        result = real_stat(path, **options)
        if path == "guide":
            (folder / "guide").rename(folder / "moved")
            (folder / "guide").symlink_to(folder.parent / "outside")
        return result

    monkeypatch.setattr(os, "stat", swap_after_looking)
    with pytest.raises(FileAccessError):
        read("guide/secret.txt")


def test_a_folder_swapped_for_a_link_after_it_was_opened_does_not_matter(
    folder: Path, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "guide" / "secret.txt").write_text("harmless")
    real_stat = os.stat

    def swap_after_looking(path: Any, **options: Any) -> os.stat_result:
        result = real_stat(path, **options)
        if path == "secret.txt":
            (folder / "guide").rename(folder / "moved")
            (folder / "guide").symlink_to(folder.parent / "outside")
        return result

    monkeypatch.setattr(os, "stat", swap_after_looking)
    assert "harmless" in read("guide/secret.txt")


def test_hidden_files_are_left_out_unless_asked_for(folder: Path) -> None:
    (folder / ".env").write_text("TOKEN=plover")
    (folder / ".git").mkdir()
    (folder / ".git" / "config").write_text("plover")
    (folder / "node_modules").mkdir()
    (folder / "node_modules" / "x.js").write_text("plover")
    find, read = file_tools(folder)
    assert "No line matches" in find("plover")
    for path in [".env", ".git/config", "./.git/config", "node_modules/x.js"]:
        with pytest.raises(FileAccessError, match="hidden"):
            read(path)
    find, read = file_tools(folder, hidden=True)
    assert find("plover").count("plover") == 3
    assert "TOKEN" in read(".env")


def test_binary_files_are_left_out(folder: Path, read: Read, find: Find) -> None:
    (folder / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0plover")
    (folder / "noise.bin").write_bytes(bytes(range(128, 256)) * 10)
    assert "(searched 2 text files; 2 binary left out)" in find("plover")
    for path in ["image.png", "noise.bin"]:
        with pytest.raises(FileAccessError, match="binary"):
            read(path)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
def test_text_in_other_encodings_is_read(folder: Path, read: Read, find: Find, encoding: str) -> None:
    last = "\ufffd" if encoding == "latin-1" else "\u00e9"
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    (folder / "text.txt").write_bytes(mark + "first plover\r\nsecond line, caf\u00e9".encode(encoding))
    assert read("text.txt").splitlines()[1:3] == [
        "1: first plover",
        f"2: second line, caf{last}",
    ]
    assert find("plover").startswith("text.txt:1: first plover")


def test_control_characters_do_not_reach_a_terminal(folder: Path, read: Read, find: Find) -> None:
    (folder / "text.txt").write_text("plover \x1b[2J\x07 done\n")
    assert "\x1b" not in read("text.txt") + find("plover")


def test_files_whose_names_do_not_fit_a_line_are_left_out(folder: Path, find: Find) -> None:
    (folder / "two\nlines.md").write_text("plover")
    os.close(os.open(os.fsencode(folder) + b"/\xff.md", os.O_CREAT | os.O_WRONLY))
    assert "searched 2 text files" in find("plover")


def test_long_files_are_read_in_parts(folder: Path, read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 1001)))
    lines = read("long.txt").splitlines()
    assert lines[0] == "long.txt, lines 1-300 of 1000"
    assert lines[-1] == "(700 more lines; go on with start_line=301)"
    assert read("long.txt", 301, 310).splitlines()[-1] == "310: line 310"
    assert read("long.txt", 10, 400).splitlines()[-1] == "(91 more lines; go on with start_line=310)"
    monkeypatch.setattr("anabranch.flow.tools._files.MAX_FILE_BYTES", 100)
    assert "only the first 100 of" in read("long.txt").splitlines()[0]
    with pytest.raises(FileAccessError, match="readable lines"):
        read("long.txt", 500)


def test_long_lines_are_cut(folder: Path, read: Read, find: Find) -> None:
    (folder / "wide.txt").write_text("plover " * 1000)
    assert read("wide.txt").endswith("… (7000 characters)")
    assert len(find("plover").splitlines()[0]) < 300


def test_a_missing_file_is_answered_with_a_likely_one(read: Read) -> None:
    with pytest.raises(FileAccessError, match=r"did you mean 'guide/locks\.md'"):
        read("locks.md")
    with pytest.raises(FileAccessError, match=r"did you mean 'readme\.md'"):
        read("readme.mdx")
    with pytest.raises(FileAccessError, match="search_files finds"):
        read("zzz")


def test_it_finds_the_passage_that_answers(find: Find) -> None:
    hits = find("How does a lock lift a boat?").splitlines()
    assert hits[0] == "guide/locks.md:3: A lock lifts boats."
    assert hits[-1] == "(searched 2 text files)"


def test_word_forms_meet(find: Find) -> None:
    assert find("floating").startswith("readme.md:3:")
    assert find("gate opened").startswith("guide/locks.md:5:")


def test_an_empty_query_is_an_error(find: Find) -> None:
    with pytest.raises(ValueError, match="empty"):
        find("  ")


def test_searching_stops_at_its_limits_and_says_so(folder: Path, find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anabranch.flow.tools._files.MAX_FILES", 1)
    assert "there are more files than can be searched" in find("boat")
    monkeypatch.setattr("anabranch.flow.tools._files.MAX_FILES", 10)
    monkeypatch.setattr("anabranch.flow.tools._files.MAX_FILE_BYTES", 10)
    assert "of 2 only the first part" in find("boat")


def test_unreadable_files_are_counted(folder: Path, find: Find, monkeypatch: pytest.MonkeyPatch) -> None:
    real_read = Sandbox.read

    def refuse(self: Sandbox, path: str, limit: int) -> Any:
        if path == "readme.md":
            raise FileAccessError("no permission")
        return real_read(self, path, limit)

    monkeypatch.setattr(Sandbox, "read", refuse)
    assert "(searched 1 text file; 1 not readable)" in find("boat")


def test_no_descriptor_is_left_open(folder: Path, read: Read, find: Find) -> None:
    (folder / "link").symlink_to("readme.md")
    before = len(os.listdir("/proc/self/fd"))
    for path in ["readme.md", "guide", "link", "guide/locks.md", "guide/none", "none/none"]:
        with contextlib.suppress(FileAccessError):
            read(path)
        find("boat")
    assert len(os.listdir("/proc/self/fd")) == before


part = st.sampled_from(["guide", "..", ".", "out", "secret.txt", "in", "readme.md", "", "~", "link", "a", "/"])


@pytest.mark.parametrize("by_descriptor", [True, False])
@settings(deadline=None)
@given(
    links=st.lists(
        st.tuples(
            st.sampled_from(["link", "a", "guide/link", "guide/a", "guide/b", "in"]),
            st.sampled_from(["..", "../outside", "/", "guide", "link", "a", "../..", ".", "../outside/secret.txt"]),
        ),
        max_size=4,
    ),
    parts=st.lists(part, max_size=6),
)
def test_whatever_links_there_are_no_path_reads_the_secret(
    tmp_path_factory: pytest.TempPathFactory,
    by_descriptor: bool,
    links: list[tuple[str, str]],
    parts: list[str],
) -> None:
    base = tmp_path_factory.mktemp("base")
    (base / "outside").mkdir()
    (base / "outside" / "secret.txt").write_text(SECRET)
    (base / "in" / "guide").mkdir(parents=True)
    (base / "in" / "readme.md").write_text("hello")
    for name, target in links:
        if not (base / "in" / name).is_symlink():
            (base / "in" / name).symlink_to(target)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anabranch.flow.tools._sandbox._WALKS_BY_DESCRIPTOR", by_descriptor)
        find, read = file_tools(base / "in")
        assert "No line matches" in find("plover")
        for path in [
            "/".join(parts),
            "/".join([*parts, "secret.txt"]),
            "/".join([*parts, "outside/secret.txt"]),
        ]:
            try:
                assert SECRET not in read(path)
            except FileAccessError:
                continue


words = st.sampled_from(["boat", "river", "lock", "gate", "keeper", "stone", "the", "a"])
texts = st.lists(st.lists(words, max_size=8).map(" ".join), max_size=8).map("\n".join)


@given(
    st.dictionaries(st.sampled_from(["a.md", "b.md", "c/d.md"]), texts),
    st.lists(words, min_size=1, max_size=4),
)
def test_hits_quote_lines_as_they_stand_and_hold_a_word_of_the_query(
    folder_texts: dict[str, str], query: list[str]
) -> None:
    hits = search(" ".join(query), folder_texts.items())
    for hit in hits:
        line = folder_texts[hit.path].split("\n")[hit.line - 1]
        assert hit.text == line.strip()
        assert set(line.split()) & set(query)
    asked = {word for word in query if word not in {"the", "a"}} or set(query)
    assert bool(hits) == any(asked & set(text.split()) for text in folder_texts.values())
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


@given(st.dictionaries(st.sampled_from(["a.md", "b.md", "c/d.md"]), texts), st.lists(words, min_size=1))
def test_the_order_of_the_files_does_not_change_the_hits(texts: dict[str, str], query: list[str]) -> None:
    forth = search(" ".join(query), texts.items())
    back = search(" ".join(query), reversed(texts.items()))
    assert forth == back


@given(st.lists(st.sampled_from(["# Head", "", "  ", "text", "more text", "## Sub"]), max_size=40))
def test_passages_hold_every_line_with_text_once_and_in_order(lines: list[str]) -> None:
    seen: list[tuple[int, str]] = []
    for first, block in cut_into_passages("\n".join(lines)):
        assert block[0].strip()
        seen += [(first + offset, line) for offset, line in enumerate(block) if line.strip()]
    assert seen == [(number, line) for number, line in enumerate(lines, 1) if line.strip()]


def test_a_model_is_told_the_parameters() -> None:
    find, read = file_tools(".")
    assert find.info.name == "search_files"
    assert read.info.name == "read_file"
    assert set(read.info.parameters["properties"]) == {"path", "start_line", "end_line"}
    assert read.info.parameters["required"] == ["path"]
