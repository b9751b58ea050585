"""The raw files of the benchmarks: whole and known, or one line and nothing left."""

import hashlib
import io
import os
import threading
import warnings
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from h2gcn.datasets import DATASETS, SYN_CORA, known_checksums
from h2gcn.datasets.raw_files import check_files, download_files, opened, telling
from h2gcn.exceptions import H2GCNWarning, InputError
from support.serving import CERTIFICATE, Answer, serving
from support.tiny_benchmarks import AT_HAND

CONTENT = b"a benchmark\n" * 10_000
SHA = hashlib.sha256(CONTENT).hexdigest()
FILE = "texas/raw/nodes.txt"
TRUST = (
    "if it can be trusted, trust_data=True (or $H2GCN_TRUST_DATA=1) reads it all the "
    "same"
)


@pytest.fixture(autouse=True)
def _known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let one file be known, and let nobody wait between two tries."""
    monkeypatch.setattr("h2gcn.datasets.raw_files.known_checksums", lambda: {FILE: SHA})
    monkeypatch.setattr("pooch.core.time.sleep", lambda _: None)


def giving(content: bytes, *, claimed: int | None = None, status: int = 200) -> Answer:
    """Return an answer: some bytes, and how many it says they are."""

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(status)
        length = len(content) if claimed is None else claimed
        request.send_header("Content-Length", str(length))
        request.end_headers()
        request.wfile.write(content)

    return answer


def in_turn(*answers: Answer) -> Answer:
    """Return an answer that is another one each time; the last stays."""
    left = list(answers)
    return lambda request: (left.pop(0) if len(left) > 1 else left[0])(request)


def failing(root: Path, address: str) -> str:
    """Download the file, which must fail and leave nothing; return the message."""
    with pytest.raises(InputError) as caught:
        download_files(root, {FILE: address})
    assert list(root.iterdir()) == []
    message = str(caught.value)
    assert "\n" not in message
    return message


# ------------------------------------------------------------------------- downloads


def test_a_known_file_arrives_whole(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    with serving(giving(CONTENT)) as server:
        download_files(
            tmp_path,
            {FILE: f"{server.address}/nodes.txt"},
            progress=lambda *at: told.append(at),
        )
    assert server.asked == ["/nodes.txt"]
    assert (tmp_path / FILE).read_bytes() == CONTENT
    assert [path.name for path in (tmp_path / FILE).parent.iterdir()] == ["nodes.txt"]
    assert (tmp_path / FILE).stat().st_mode & 0o777 == 0o644
    assert told[0] == ("nodes.txt", 2**16, len(CONTENT))
    assert told[-1] == ("nodes.txt", len(CONTENT), len(CONTENT))
    check_files("texas", tmp_path, [FILE])


def test_nothing_is_printed_by_the_way(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with serving(in_turn(giving(b"", status=503), giving(CONTENT))) as server:
        download_files(tmp_path, {FILE: f"{server.address}/nodes.txt"})
    assert capfd.readouterr() == ("", "")


def test_a_certificate_that_nobody_signed_is_refused(tmp_path: Path) -> None:
    with serving(giving(CONTENT), encrypted=True) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == (
            f"{address}: the certificate of 127.0.0.1 cannot be verified"
        )
    assert server.asked == []


def test_a_certificate_that_is_trusted_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "trusted.pem").write_text(CERTIFICATE)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "trusted.pem"))
    with serving(giving(CONTENT), encrypted=True) as server:
        download_files(tmp_path, {FILE: f"{server.address}/nodes.txt"})
    assert (tmp_path / FILE).read_bytes() == CONTENT


def test_nobody_is_sent_on_to_a_plain_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pem = tmp_path / "trusted.pem"
    pem.write_text(CERTIFICATE)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(pem))
    (root := tmp_path / "root").mkdir()

    def send_on(request: BaseHTTPRequestHandler) -> None:
        request.send_response(302)
        request.send_header("Location", f"{plain.address}/nodes.txt")
        request.send_header("Content-Length", "0")
        request.end_headers()

    with serving(giving(CONTENT)) as plain, serving(send_on, encrypted=True) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(root, address) == (
            f"{address}: it sends on to an address without encryption"
        )
    assert plain.asked == []


def test_a_wrong_checksum_is_refused_with_both(tmp_path: Path) -> None:
    other = CONTENT.replace(b"bench", b"BENCH", 1)
    found = hashlib.sha256(other).hexdigest()
    with serving(giving(other)) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == (
            f"{address}: what came is not the known file: its SHA-256 is {found}, "
            f"that of the known one {SHA}; {TRUST}"
        )
        download_files(tmp_path, {FILE: address}, trust_data=True)
    assert (tmp_path / FILE).read_bytes() == other


def test_a_file_without_a_known_checksum_is_taken(tmp_path: Path) -> None:
    unknown = "texas/raw/other.txt"
    with serving(giving(b"else")) as server:
        address = f"{server.address}/nodes.txt"
        download_files(tmp_path, {unknown: address})
        download_files(tmp_path, {FILE: address}, rebuilt=[FILE])
    assert (tmp_path / unknown).read_bytes() == b"else"
    assert (tmp_path / FILE).read_bytes() == b"else"


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    with serving(giving(CONTENT[:50_000], claimed=len(CONTENT))) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == (
            f"{address}: the connection to 127.0.0.1 broke off, 3 times"
        )
    assert len(server.asked) == 3


def test_what_is_not_there_is_asked_for_once(tmp_path: Path) -> None:
    with serving(giving(b"", status=404)) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == (
            f"{address}: 127.0.0.1 answers with 404 Not Found"
        )
    assert server.asked == ["/nodes.txt"]


def test_a_server_that_fails_twice_is_asked_again(tmp_path: Path) -> None:
    busy = giving(b"", status=503)
    with serving(in_turn(busy, busy, giving(CONTENT))) as server:
        download_files(tmp_path, {FILE: f"{server.address}/nodes.txt"})
    assert (tmp_path / FILE).read_bytes() == CONTENT
    assert len(server.asked) == 3


def test_a_server_that_fails_for_good_is_asked_three_times(tmp_path: Path) -> None:
    with serving(giving(b"", status=503)) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == (
            f"{address}: 127.0.0.1 answers with 503 Service Unavailable, 3 times"
        )
    assert len(server.asked) == 3


def test_a_server_that_is_silent_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.datasets.raw_files.TIMEOUT", 0.05)
    over = threading.Event()
    with serving(lambda _: over.wait(60) and None) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == (
            f"{address}: 127.0.0.1 is silent for 0.05 s, 3 times"
        )
        over.set()


def test_no_network_is_one_line(tmp_path: Path) -> None:
    with serving(giving(CONTENT)) as server:
        address = f"{server.address}/nodes.txt"
    assert failing(tmp_path, address) == (
        f"{address}: there is no connection to 127.0.0.1"
    )


def test_an_answer_without_sense_is_one_line(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Length", "many")
        request.end_headers()

    with serving(answer) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == (
            f"{address}: the answer of 127.0.0.1 makes no sense"
        )


def test_a_file_without_end_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.datasets.raw_files.MOST_BYTES", 200_000)

    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while True:
            request.wfile.write(bytes(2**16))

    with serving(answer) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == (
            f"{address}: it does not end after 200,000 bytes"
        )


def test_a_page_is_not_taken_for_a_file(tmp_path: Path) -> None:
    def answer(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.send_header("Content-Type", "text/html; charset=utf-8")
        request.end_headers()
        request.wfile.write(b"<html>too many have asked for it")

    with serving(answer) as server:
        address = f"{server.address}/nodes.txt"
        assert failing(tmp_path, address) == f"{address}: 127.0.0.1 answers with a page"


# ---------------------------------------------------------------------------- archives


def zipped(members: dict[str, bytes]) -> bytes:
    """Return a zip archive."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return file.getvalue()


MEMBERS = {"a/raw/x.csv": CONTENT, "a/split/y.csv": b"2", "a/other.txt": b"3"}
WANTED = {"set/raw/x.csv": "a/raw/x.csv", "set/split/y.csv": "a/split/y.csv"}


def fetch_packed(root: Path, content: bytes, **given: Any) -> list[str]:
    """Download two members of an archive; return what the server was asked."""
    with serving(giving(content)) as server:
        at = f"{server.address}/a.zip"
        addresses = {file: f"{at}#{member}" for file, member in WANTED.items()}
        download_files(root, addresses, **given)
    return server.asked


def test_what_is_wanted_of_an_archive_is_unpacked(tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    asked = fetch_packed(
        tmp_path, zipped(MEMBERS), progress=lambda *at: told.append(at)
    )
    assert asked == ["/a.zip"]
    files = {str(f.relative_to(tmp_path)) for f in tmp_path.rglob("*") if f.is_file()}
    assert files == set(WANTED)
    assert (tmp_path / "set/raw/x.csv").read_bytes() == CONTENT
    assert (tmp_path / "set/split/y.csv").read_bytes() == b"2"
    assert (tmp_path / "set/raw/x.csv").stat().st_mode & 0o777 == 0o644
    assert ("unpacking x.csv", len(CONTENT), len(CONTENT)) in told
    assert told[-1] == ("unpacking y.csv", 1, 1)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"no archive", "the file is damaged (File is not a zip file)"),
        (zipped({"a/raw/x.csv": b"1"}), "there is no a/split/y.csv in it."),
        (
            zipped(MEMBERS)[:-40],
            "the file is damaged (File is not a zip file)",
        ),
        (
            zipped({**MEMBERS, "a/raw/x.csv": bytes(10**6)}),
            "no file of a benchmark has more than 500,000 bytes, got 1,000,000 of "
            "a/raw/x.csv",
        ),
    ],
)
def test_an_archive_that_is_not_the_right_one_is_one_line_and_gone(
    tmp_path: Path, content: bytes, said: str
) -> None:
    with pytest.raises(InputError) as caught:
        fetch_packed(tmp_path, content, most_bytes=500_000)
    assert str(caught.value) == f"{tmp_path / 'set/a.zip'}: {said}"
    assert not (tmp_path / "set/a.zip").exists()
    assert not (tmp_path / "set/split/y.csv").exists()


def test_a_member_with_a_flipped_bit_is_not_unpacked(tmp_path: Path) -> None:
    content = bytearray(zipped(MEMBERS))
    content[content.index(b"a/raw/x.csv") + 40] ^= 0xFF
    with pytest.raises(InputError, match=r"a\.zip: the file is damaged"):
        fetch_packed(tmp_path, bytes(content))
    assert list(tmp_path.iterdir()) == []


def test_a_large_benchmark_may_have_large_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("h2gcn.datasets.raw_files.MOST_BYTES", 1000)
    with serving(giving(CONTENT)) as server:
        address = {"set/x.csv": f"{server.address}/x.csv"}
        with pytest.raises(InputError, match="does not end after 1,000 bytes"):
            download_files(tmp_path, address)
        download_files(tmp_path, address, most_bytes=len(CONTENT))
    with pytest.raises(InputError, match="has more than 1,000 bytes"):
        check_files("set", tmp_path, ["set/x.csv"])
    with pytest.warns(H2GCNWarning, match="no SHA-256 of theirs is known"):
        check_files("set", tmp_path, ["set/x.csv"], most_bytes=len(CONTENT))


# ----------------------------------------------------------------------------- reading


def test_who_reads_a_large_file_tells_how_far_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    path = put(tmp_path, CONTENT)

    def read() -> None:
        with telling(lambda *at: told.append(at)), opened(path) as file:
            assert file.read(len(CONTENT)) == CONTENT

    read()
    assert told == [], "it is not large"
    monkeypatch.setattr("h2gcn.datasets.raw_files.SHOWN", len(CONTENT))
    read()
    assert told[-1] == ("reading nodes.txt", len(CONTENT), len(CONTENT))
    with telling(lambda *at: told.append(at)):
        check_files("texas", tmp_path, [FILE])
    assert told[-1] == ("checking nodes.txt", len(CONTENT), len(CONTENT))
    told.clear()
    with telling(lambda *at: told.append(at)), opened(path) as file:
        thread = threading.Thread(target=file.read, args=(len(CONTENT),))
        thread.start()
        thread.join()
        assert told == [], "it is told in one thread alone"
        file.raw.tell_progress()
    assert told[-1] == ("reading nodes.txt", len(CONTENT), len(CONTENT))


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "texas").write_text("a file where a folder should be")
    with serving(giving(CONTENT)) as server, pytest.raises(InputError) as caught:
        download_files(tmp_path, {FILE: f"{server.address}/nodes.txt"})
    assert str(caught.value) == (
        f"{tmp_path / FILE}: cannot be written (Not a directory)"
    )


# ------------------------------------------------------------------------- checksums


def put(root: Path, content: bytes) -> Path:
    """Write the known file with some content."""
    (root / FILE).parent.mkdir(parents=True, exist_ok=True)
    (root / FILE).write_bytes(content)
    return root / FILE


def test_a_file_that_is_not_the_known_one_is_refused(tmp_path: Path) -> None:
    path = put(tmp_path, b"else")
    found = hashlib.sha256(b"else").hexdigest()
    said = (
        f"texas: {path} is not the known file: its SHA-256 is {found}, that of the "
        f"known one {SHA}"
    )
    with pytest.raises(InputError) as caught:
        check_files("texas", tmp_path, [FILE])
    assert str(caught.value) == f"{said}; {TRUST}"
    with pytest.raises(InputError) as caught:
        check_files("texas", tmp_path, [FILE], served=True)
    again = "once it is removed, it is downloaded again"
    assert str(caught.value) == f"{said}; {again}; {TRUST}"
    with pytest.warns(H2GCNWarning) as told:
        check_files("texas", tmp_path, [FILE], trust_data=True)
    assert [str(one.message) for one in told] == [
        f"texas: 'nodes.txt' in {path.parent}: their SHA-256 is not that of the known "
        "files; they are read all the same"
    ]


def test_files_without_a_known_checksum_are_told(tmp_path: Path) -> None:
    folder = put(tmp_path, b"else").parent
    (folder / "other.txt").write_bytes(b"else")
    with pytest.warns(H2GCNWarning) as told:
        check_files("texas", tmp_path, [FILE, "texas/raw/other.txt"], rebuilt=[FILE])
    assert [str(one.message) for one in told] == [
        f"texas: 'other.txt' in {folder}: no SHA-256 of theirs is known; they are read "
        "all the same",
        f"texas: 'nodes.txt' in {folder}: their SHA-256 is not that of the copy that "
        "is known; they are read all the same",
    ]
    put(tmp_path, CONTENT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_files("texas", tmp_path, [FILE], rebuilt=[FILE])


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    (tmp_path / FILE).parent.mkdir(parents=True)
    os.mkfifo(tmp_path / FILE)  # who opens it waits for ever
    with pytest.raises(InputError) as caught:
        check_files("texas", tmp_path, [FILE], trust_data=True)
    assert str(caught.value) == f"{tmp_path / FILE}: this is not a file"


def test_a_file_too_large_for_a_benchmark_is_not_opened(tmp_path: Path) -> None:
    os.truncate(put(tmp_path, b""), 2**40)  # a hole, of which nothing is on the disk
    with pytest.raises(InputError) as caught:
        check_files("texas", tmp_path, [FILE], trust_data=True)
    assert str(caught.value) == (
        f"{tmp_path / FILE}: no file of a benchmark has more than 67,108,864 bytes, "
        "got 1,099,511,627,776"
    )


# ------------------------------------------------------------------------- catalogue


def test_all_that_is_known_is_of_a_benchmark() -> None:
    places = {f"{i.folder}/{file}" for i in DATASETS.values() for file in i.files}
    known = known_checksums()
    assert known.keys() - places == {f"{name}.npz" for name in SYN_CORA}
    unknown = {name for name in DATASETS if name not in AT_HAND}
    assert {"cora-full", "roman-empire", "penn94", "ogbn-products"} <= unknown
    assert len(AT_HAND) == 12
    assert {len(digest) for digest in known.values()} == {64}


def test_every_address_is_encrypted() -> None:
    for name, info in DATASETS.items():
        for address in info.files.values():
            assert (address or "").startswith("https://") == (name != "cornell-2020")


@pytest.mark.data
def test_the_files_are_the_known_ones(data_root: Path) -> None:
    for file, digest in known_checksums().items():
        assert hashlib.sha256((data_root / file).read_bytes()).hexdigest() == digest
