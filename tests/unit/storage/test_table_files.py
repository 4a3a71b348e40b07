"""Files are deleted only in the table's locations, for all path formats, and never if they are live."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from rowmerge.errors import LiveFileProtected, StorageError
from rowmerge.storage.deletion import PathOrigin, deletable_files, delete_files, try_delete_files
from rowmerge.storage.store import Storage
from tests.support.bucket import Bucket, serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Create a table's folder with the files `data/a` and `data/b c`, and a symbolic link to a folder of other files."""
    folder = tmp_path / "warehouse" / "t"
    for path in (folder / "data/a", folder / "data/b c", tmp_path / "others/victim", folder.parent / "victim"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("precious")
    (folder / "link").symlink_to(tmp_path / "others")
    (tmp_path / "alias").symlink_to(folder)
    return folder


def files(root: Path) -> set[str]:
    return {path.name for path in root.rglob("*") if path.is_file() and not path.is_symlink()}


@pytest.mark.parametrize(
    "path",
    [
        "file://{folder}/../victim",
        "file:{folder}/../victim",
        "{folder}/../victim",
        "file://localhost{folder}/data/../../victim",
        "file://{folder}/%2e%2e/victim",
        "file://{folder}/data/%252e%252e/%252e%252E/victim",
        "file://{folder}/..%2fvictim",
        "file://{folder}/link/victim",
        "file://{folder}/data/../link/victim",
        "file://{others}/victim",
        "file://another.host{folder}/data/a",
        "file://{folder}x/data/a",
        "file://{folder}",
        "file://{folder}/.",
        "file://{folder}/data/a\0",
        "file://{folder}/data/a%00",
        "file://{folder}/data/\ud800",
        "s3://{folder}/data/a",
        "",
        "victim",
    ],
)
def test_paths_outside_the_table_are_not_deleted(folder: Path, tmp_path: Path, path: str) -> None:
    spelled = path.format(folder=folder, others=tmp_path / "others")
    delete_files(Storage(str(folder)), [[spelled]], PathOrigin.METADATA)
    assert files(tmp_path) == {"a", "b c", "victim"} and (tmp_path / "others/victim").exists() and (folder.parent / "victim").exists()
    assert deletable_files(Storage(str(folder)), [spelled]) == []


@pytest.mark.parametrize(
    "path",
    [
        "file://{folder}/data/a",
        "file:{folder}/data/a",
        "{folder}/data/a",
        "file://localhost{folder}/data/a",
        "file://{folder}//data/./a",
        "file://{folder}/link/../warehouse/t/data/a",
        "file://{alias}/data/a",
    ],
)
def test_paths_inside_the_table_are_deleted_in_all_formats(folder: Path, tmp_path: Path, path: str) -> None:
    spelled = path.format(folder=folder, alias=tmp_path / "alias")
    delete_files(Storage(str(folder)), [[spelled, spelled]], PathOrigin.METADATA)
    assert files(tmp_path) == {"b c", "victim"}


def test_files_are_deleted_through_a_symbolic_link_to_the_table(folder: Path, tmp_path: Path) -> None:
    delete_files(
        Storage(str(tmp_path / "alias")), [[f"file://{tmp_path}/alias/data/a"], [f"file://{folder}/data/b c"]], PathOrigin.METADATA
    )
    assert files(tmp_path) == {"victim"}


def test_deleting_a_symbolic_link_keeps_its_target(folder: Path, tmp_path: Path) -> None:
    delete_files(Storage(str(folder)), [[f"file://{folder}/link"]], PathOrigin.LISTING)
    assert not (folder / "link").exists() and (tmp_path / "others/victim").exists()


def test_only_files_in_metadata_are_deleted_in_other_locations(folder: Path, tmp_path: Path) -> None:
    other_folder = tmp_path / "elsewhere"
    other_folder.mkdir()
    (other_folder / "named").touch()
    path = f"file://{other_folder}/named"
    delete_files(Storage(str(folder)), [[path]], PathOrigin.LISTING, locations=[str(other_folder)])
    assert (other_folder / "named").exists()
    delete_files(Storage(str(folder)), [[path], [f"{path}/../../others/victim"]], PathOrigin.METADATA, locations=[f"{other_folder}/"])
    assert files(tmp_path) == {"a", "b c", "victim"}


@pytest.mark.parametrize(
    "live",
    [
        "file://{folder}/data/b c",
        "file:{folder}/data/b c",
        "{folder}/data/b%20c",
        "file://{folder}/link/../warehouse/t/data/b c",
        "file://{alias}/data/b c",
        "file://{alias}/data/b%2520c",
        "file://{folder}/data/live",
    ],
)
@pytest.mark.parametrize("origin", list(PathOrigin))
def test_a_live_file_stops_a_deletion_before_its_first_file(folder: Path, tmp_path: Path, live: str, origin: PathOrigin) -> None:
    (folder / "data/live").symlink_to(folder / "data/b c")
    paths = [[f"file://{folder}/data/a"], [f"file://{folder}/data/b c"]]
    with pytest.raises(LiveFileProtected) as error:
        delete_files(Storage(str(folder)), paths, origin, live_paths=[live.format(folder=folder, alias=tmp_path / "alias")])
    assert error.value.path == f"file://{folder}/data/b c" and error.value.path in str(error.value)
    assert files(folder) == {"a", "b c"}


def test_the_location_of_a_table_is_not_decoded(tmp_path: Path) -> None:
    for name in ("ware house", "ware%20house"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").touch()
    delete_files(
        Storage(f"{tmp_path}/ware%20house"), [[f"file://{tmp_path}/ware%20house/a", f"file://{tmp_path}/ware house/a"]], PathOrigin.METADATA
    )
    assert (tmp_path / "ware house/a").exists() and not (tmp_path / "ware%20house/a").exists()


@pytest.mark.parametrize("spelled", ["{0}", "file:{0}", "file://{0}", "file:///{0}", "file://localhost{0}", "FILE://{0}/", "{0}//"])
def test_all_spellings_of_a_local_location_are_normalized(tmp_path: Path, spelled: str) -> None:
    storage = Storage(spelled.format(tmp_path))
    assert storage.location == f"file://{tmp_path}"
    storage.put("a", b"1")
    assert (tmp_path / "a").exists()


@pytest.mark.parametrize("root", ["/", "file:///", "file:/", "file://localhost/"])
def test_the_root_of_a_disk_differs_from_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    target_file, working_directory = tmp_path / "named", tmp_path / "here"
    for path in (target_file, working_directory / target_file.relative_to("/")):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    monkeypatch.chdir(working_directory)
    delete_files(Storage(str(tmp_path / "t")), [[f"file://{target_file}"]], PathOrigin.METADATA, locations=[root])
    assert not target_file.exists() and (working_directory / target_file.relative_to("/")).exists()


@pytest.mark.parametrize("origin", [PathOrigin.LISTING, PathOrigin.THIS_PROCESS])
def test_names_of_listed_and_written_files_are_not_decoded(tmp_path: Path, origin: PathOrigin) -> None:
    names = ["x=..%2F..%2Fetc", "%2e%2e", "a%2520b"]
    for name in names:
        (tmp_path / name).touch()
    delete_files(Storage(str(tmp_path)), [[f"file://{tmp_path}/{name}" for name in names]], origin, live_paths=[f"file://{tmp_path}/c"])
    assert files(tmp_path) == set()


def test_objects_are_deleted_in_batches_of_a_thousand_per_group() -> None:
    names = [f"part {n}=ü&+%.parquet" for n in range(2500)]
    with serving(Bucket()) as bucket:
        bucket.objects.update({f"w/t/{name}": b"" for name in [*names, "last"]} | {"w/victim": b"", "w/t2/a": b""})
        paths = [f"{scheme}://lake/w/t/{name}" for name, scheme in zip(names, ("s3", "s3a", "s3n") * 1000, strict=False)]
        outside = [
            "s3://lake/w/t/../victim",
            "s3://lake/w/t/%2e%2e/victim",
            "s3://lake/w/t2/a",
            "s3://lake//w/t/last",
            "s3://other/w/t/last",
        ]
        table = Storage(f"{bucket.location}/w/t", bucket.options)
        delete_files(table, [[*paths, *outside], ["s3a://lake/w/t/last"]], PathOrigin.METADATA, live_paths=["s3://lake/w/t/another"])
    assert bucket.requests == [1000, 1000, 500, 1]
    assert bucket.objects.keys() == {"w/victim", "w/t2/a"}


@pytest.mark.parametrize("live", ["s3a://lake/w/t/a b", "s3n://lake/w/t/x/../a b", "s3://lake/w/t/a%20b", "S3://lake/w//t/a b"])
def test_a_live_object_is_not_deleted(live: str) -> None:
    with serving(Bucket(objects={"w/t/a b": b"", "w/t/c": b""})) as bucket, pytest.raises(LiveFileProtected):
        delete_files(
            Storage(f"{bucket.location}/w/t", bucket.options),
            [["s3://lake/w/t/c", "s3://lake/w/t/a b"]],
            PathOrigin.METADATA,
            live_paths=[live],
        )
    assert len(bucket.objects) == 2 and not bucket.requests


@pytest.mark.parametrize("origin", list(PathOrigin))
def test_a_live_object_with_another_azure_scheme_is_not_deleted(origin: PathOrigin) -> None:
    place = "c@account.dfs.core.windows.net/t"
    with pytest.raises(LiveFileProtected):
        delete_files(Storage(f"abfss://{place}"), [[f"abfss://{place}/data/a"]], origin, live_paths=[f"abfs://{place}/data/a"])


def test_a_failed_cleanup_is_logged_once_per_location(caplog: pytest.LogCaptureFixture) -> None:
    with serving(Bucket(locked=frozenset({"once/a"}), objects={"once/a": b"", "once/b": b""})) as bucket:
        table = Storage(f"{bucket.location}/once", bucket.options)
        with caplog.at_level(logging.WARNING):
            for _ in range(3):
                try_delete_files(table, [["s3://lake/once/a"]], PathOrigin.METADATA)
            try_delete_files(table, [["s3://lake/once/b"]], PathOrigin.METADATA)
        with pytest.raises(StorageError, match="once/a"):
            delete_files(table, [["s3://lake/once/a"]], PathOrigin.METADATA)
    (record,) = caplog.records
    assert "s3://lake/once" in record.getMessage()
    assert bucket.objects.keys() == {"once/a"}


def test_a_cleanup_keeps_live_files(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "a").touch()
    with caplog.at_level(logging.WARNING):
        try_delete_files(
            Storage(str(tmp_path)), [[f"file://{tmp_path}/a"]], PathOrigin.METADATA, live_paths=[f"file://{quote(str(tmp_path / 'a'))}"]
        )
    assert (tmp_path / "a").exists() and "so nothing was deleted" in caplog.text
