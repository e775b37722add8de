"""Files are found in the promised order, checked, and fetched whole or not at all."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from zoo import resources
from zoo.errors import DownloadError, InputError

CONTENT = b"smiles,y\nCCO,1.5\n" * 20_000
SUM = hashlib.sha256(CONTENT).hexdigest()


@dataclass
class File:
    name: str = "data.csv"
    url: str | None = None
    sha256: str = SUM
    bytes: int = len(CONTENT)


@dataclass
class Server:
    """Serves ``replies[path] = (status, body, declared length)`` and counts requests."""

    url: str
    replies: dict[str, tuple[int, bytes, int]]
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            state.asked.append(self.path)
            status, body, length = state.replies[self.path]
            self.send_response(status)
            self.send_header("Content-Length", str(length))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state = Server(f"http://127.0.0.1:{http.server_port}", {"/good": (200, CONTENT, len(CONTENT))})
    thread = threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield state
    http.shutdown()
    http.server_close()
    thread.join()


@pytest.fixture(autouse=True)
def surroundings(tmp_path, monkeypatch):
    for name in ("ZOO_MIRROR", "ZOO_INCLUDE", "ZOO_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    (tmp_path / "set").mkdir()
    (tmp_path / "mirror").mkdir()


def stored(tmp_path: Path) -> list[str]:
    """Every file in the cache, locks left out."""
    return sorted(p.name for p in (tmp_path / "cache").rglob("*") if p.is_file() and p.suffix != ".lock")


def test_order_is_bundled_then_mirror_then_cache_then_url(tmp_path, server):
    file = File(url=f"{server.url}/good")
    fetched = resources.locate(file, tmp_path / "set", tmp_path / "mirror")
    assert fetched.read_bytes() == CONTENT
    assert resources.locate(file, tmp_path / "set", tmp_path / "mirror") == fetched
    assert server.asked == ["/good"], "the second time the cache answers"
    (tmp_path / "mirror" / "data.csv").write_bytes(CONTENT)
    assert resources.locate(file, tmp_path / "set", tmp_path / "mirror") == tmp_path / "mirror" / "data.csv"
    (tmp_path / "set" / "data.csv").write_bytes(CONTENT)
    assert resources.locate(file, tmp_path / "set", tmp_path / "mirror") == tmp_path / "set" / "data.csv"
    assert server.asked == ["/good"]


def test_mirror_is_taken_from_the_environment(tmp_path, monkeypatch):
    (tmp_path / "mirror" / "data.csv").write_bytes(CONTENT)
    monkeypatch.setenv("ZOO_MIRROR", str(tmp_path / "mirror"))
    assert resources.locate(File(), tmp_path / "set") == tmp_path / "mirror" / "data.csv"


@pytest.mark.parametrize("place", ["set", "mirror"])
def test_wrong_checksum_names_both_sums(tmp_path, place):
    (tmp_path / place / "data.csv").write_bytes(b"something else")
    with pytest.raises(InputError) as error:
        resources.locate(File(), tmp_path / "set", tmp_path / "mirror")
    assert SUM in str(error.value)
    assert hashlib.sha256(b"something else").hexdigest() in str(error.value)


def test_nowhere_names_every_place_and_the_remedy(tmp_path):
    with pytest.raises(DownloadError) as error:
        resources.locate(File(), tmp_path / "set", tmp_path / "mirror")
    for place in (tmp_path / "set" / "data.csv", tmp_path / "mirror" / "data.csv", "cache: ", "url: none", "--mirror"):
        assert str(place) in str(error.value)


@pytest.mark.parametrize(
    ("status", "body", "length", "says"),
    [
        (200, CONTENT[:1000], len(CONTENT), f"truncated: got 1000 of {len(CONTENT)} bytes"),
        (200, CONTENT[:1000], 1000, f"truncated: got 1000 of {len(CONTENT)} bytes"),
        (200, CONTENT + b"x", len(CONTENT) + 1, "longer than the declared"),
        (200, b"x" * len(CONTENT), len(CONTENT), hashlib.sha256(b"x" * len(CONTENT)).hexdigest()),
        (404, b"", 0, "404 Not Found"),
    ],
)
def test_failed_download_says_why_and_leaves_nothing(tmp_path, server, status, body, length, says):
    server.replies["/bad"] = (status, body, length)
    with pytest.raises(DownloadError, match=r"data\.csv was not found") as error:
        resources.locate(File(url=f"{server.url}/bad"), tmp_path / "set")
    assert says in str(error.value)
    assert stored(tmp_path) == []


def test_nobody_listens(tmp_path, server):
    with pytest.raises(DownloadError, match="refused"):
        resources.locate(File(url="http://127.0.0.1:9/data.csv"), tmp_path / "set")


def test_only_http_is_fetched(tmp_path):
    (tmp_path / "local.csv").write_bytes(CONTENT)
    with pytest.raises(DownloadError, match="only http and https"):
        resources.locate(File(url=f"file://{tmp_path}/local.csv"), tmp_path / "set")


def test_offline_forbids_the_net_but_not_the_cache(tmp_path, server, monkeypatch):
    file = File(url=f"{server.url}/good")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    with pytest.raises(DownloadError, match="forbidden by ZOO_OFFLINE"):
        resources.locate(file, tmp_path / "set")
    assert server.asked == []
    monkeypatch.setenv("ZOO_OFFLINE", "0")
    resources.locate(file, tmp_path / "set")
    monkeypatch.setenv("ZOO_OFFLINE", "1")
    assert resources.locate(file, tmp_path / "set").read_bytes() == CONTENT


def test_damaged_cache_is_fetched_again(tmp_path, server):
    file = File(url=f"{server.url}/good")
    cached = resources.locate(file, tmp_path / "set")
    cached.write_bytes(b"y" * len(CONTENT))
    assert resources.locate(file, tmp_path / "set").read_bytes() == CONTENT
    assert server.asked == ["/good", "/good"]


def test_what_a_killed_process_left_is_overwritten(tmp_path, server):
    file = File(url=f"{server.url}/good")
    cached = resources.locate(file, tmp_path / "set")
    cached.unlink()
    cached.with_name(".data.csv.part").write_bytes(CONTENT + b"half of another")
    assert resources.locate(file, tmp_path / "set").read_bytes() == CONTENT
    assert stored(tmp_path) == ["data.csv"]


@pytest.mark.skipif(sys.platform == "win32", reason="no lock there: the second may have to try again")
def test_two_processes_fetch_once(tmp_path, server):
    code = (
        "import sys\nfrom pathlib import Path\nfrom zoo import resources\n"
        "from types import SimpleNamespace as F\n"
        f"file = F(name='data.csv', url={server.url + '/good'!r}, sha256={SUM!r}, bytes={len(CONTENT)})\n"
        "sys.stdin.readline()\n"
        f"print(resources.locate(file, Path({str(tmp_path / 'set')!r})))\n"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    for process in started:
        process.stdin.write("go\n")
        process.stdin.flush()
    outputs = [process.communicate(timeout=60)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0]
    assert outputs[0] == outputs[1]
    assert Path(outputs[0]).read_bytes() == CONTENT
    assert server.asked == ["/good"]
    assert stored(tmp_path) == ["data.csv"]


def test_cache_that_cannot_be_written(tmp_path, server, monkeypatch):
    (tmp_path / "plain").write_text("a file, not a folder")
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "plain"))
    with pytest.raises(DownloadError, match=r"Not a directory|File exists"):
        resources.locate(File(url=f"{server.url}/good"), tmp_path / "set")


@pytest.mark.parametrize("name", ["../data.csv", "a/b.csv", "/etc/hosts", ".."])
def test_a_file_name_holds_no_folder(tmp_path, name):
    with pytest.raises(InputError, match="without a folder"):
        resources.locate(File(name=name), tmp_path / "set")


def test_includes_come_after_the_bundled_folder_and_once(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name / "tasks").mkdir(parents=True)
    monkeypatch.setenv("ZOO_INCLUDE", str(tmp_path / "a"))
    assert resources.roots([tmp_path / "b", tmp_path / "a"]) == [
        resources.bundled_root().resolve(),
        (tmp_path / "a").resolve(),
        (tmp_path / "b").resolve(),
    ]


def test_include_must_be_a_folder_of_that_layout(tmp_path):
    with pytest.raises(InputError, match="there is no such folder"):
        resources.roots([tmp_path / "absent"])
    with pytest.raises(InputError, match="holds none of the folders datasets, tasks, cards"):
        resources.roots([tmp_path / "set"])


def test_mirror_must_be_a_folder(tmp_path):
    with pytest.raises(InputError, match="is not a folder"):
        resources.mirror_dir(tmp_path / "absent")


def test_a_package_without_a_checkout_uses_what_it_carries(tmp_path, monkeypatch):
    package = tmp_path / "site" / "zoo"
    (package / "_bundled" / "tasks").mkdir(parents=True)
    (tmp_path / "site" / "datasets").mkdir()
    monkeypatch.setattr(resources, "__file__", str(package / "resources.py"))
    assert resources.bundled_root() == package / "_bundled"


def test_a_package_that_carries_nothing_is_not_served_by_somebody_elses_datasets(tmp_path, monkeypatch):
    package = tmp_path / "site" / "zoo"
    package.mkdir(parents=True)
    (tmp_path / "site" / "datasets").mkdir()
    monkeypatch.setattr(resources, "__file__", str(package / "resources.py"))
    with pytest.raises(resources.ZooError, match="Install scizoo again"):
        resources.bundled_root()
