"""A lake in an object store: a real server that speaks S3, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from example_runs import seismic

import provml.lake
from lake.helpers import answer_of, assert_same
from lake.spark_cluster import free_port
from provml.cli import main
from provml.errors import FileFormatError, LakeChanged, LakeNotFound
from provml.lake.folder import LakeFolder
from provml.store import Store

LAKE = "s3://lab/lake"
START_SECONDS = 60.0


@pytest.fixture(scope="module")
def server() -> Iterator[None]:
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    patch = pytest.MonkeyPatch()
    try:
        for name, value in settings.items():
            patch.setenv(name, value)
        _create_bucket(port)
        yield
    finally:
        patch.undo()
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"endpiont_url": "x"},
            r"no option 'endpiont_url'\. Did you mean endpoint_url\? .*anon, endpoint_url, key, secret",
        ),
        ({"region": "eu"}, r"no option 'region'\. Options of S3FileSystem are .*client_kwargs"),
        ({"client_kwargs": {"region": "eu"}}, r"no option 'region' for client_kwargs\. Remove it"),
        ({1: "x"}, r"options are names with values\. Pass a dict"),
        ("key=x", r"options are names with values\. Pass a dict"),
    ],
)
def test_a_wrong_storage_option_is_named(server: None, tmp_path: Path, options: Any, message: str) -> None:
    seismic.life_cycle().write(tmp_path)
    for call in (
        lambda: provml.lake.build(tmp_path, "s3://lab/options", storage_options=options),
        lambda: provml.lake.update(tmp_path, "s3://lab/options", storage_options=options),
        lambda: provml.lake.open("s3://lab/options", storage_options=options),
    ):
        with pytest.raises(FileFormatError, match=message):
            call()


def _create_bucket(port: int) -> None:
    from urllib.error import URLError
    from urllib.request import Request, urlopen

    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(Request(f"http://127.0.0.1:{port}/lab", method="PUT")):
                return
        except (URLError, ConnectionError):
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    seismic.life_cycle().write(folder)
    return folder


# s3fs leaves a session of aiohttp open when its loop ends
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("server")
def test_a_lake_in_an_object_store(home: Path) -> None:
    with pytest.raises(LakeNotFound, match="no such folder"):
        provml.lake.open(LAKE)
    with pytest.raises(LakeNotFound, match="there is no bucket typo"):
        provml.lake.build(home, "s3://typo/lake")
    result = CliRunner().invoke(main, ["lake", "build", str(home), "-o", LAKE])
    assert result.exit_code == 0, result.output
    assert "1 open and left out" in result.output
    report = provml.lake.update(home, LAKE, include_open=True)
    assert (report.added, report.runs) == (["l-5"], 16)
    with Store(home) as store, provml.lake.open(LAKE) as lake:
        for values in ({"from": 1, "to": 700}, {"from": 100, "to": 200}):
            assert_same(answer_of(store, "l5", values), answer_of(lake, "l5", values))
            assert_same(answer_of(store, "l7", values), answer_of(lake, "l7", values))
    folder = LakeFolder(LAKE)
    names = folder.fs.find(folder.path)
    assert names
    assert all(name.endswith((".parquet", ".json")) for name in names)
    assert [name for name in names if "/manifest/" in name] == ["lab/lake/manifest/00000002.json"]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("server")
def test_only_one_writer_can_create_the_next_manifest(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location = "s3://lab/two-writers"
    provml.lake.build(home, location)
    folder = LakeFolder(location)
    manifest = folder.require()
    folder.commit(manifest, manifest)
    with pytest.raises(LakeChanged):
        folder.commit(manifest, manifest)
    monkeypatch.setattr(folder.fs, "exists", lambda path: False)  # both looked at the same moment
    with pytest.raises(LakeChanged):
        folder.commit(manifest, manifest)


def test_a_missing_file_system_says_how_to_install_it() -> None:
    code = "import sys; sys.modules['s3fs'] = None; import provml.lake; provml.lake.open('s3://bucket/lake')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ, check=False)
    assert "Run `pip install 'provml[s3]'`" in result.stderr
