"""Objects are deleted in bulk, and errors name the object."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.errors import StorageError
from rowmerge.storage.store import Storage
from tests.support.bucket import Bucket, serving

NAMES = [f"part {n}=ü&+%.parquet" for n in range(2500)]


def fill_bucket(bucket: Bucket) -> Storage:
    bucket.objects.update({f"t/{name}": b"" for name in [*NAMES, "stays"]})
    return Storage(f"{bucket.location}/t", bucket.options)


def test_one_request_deletes_a_thousand_objects() -> None:
    with serving(Bucket()) as bucket:
        fill_bucket(bucket).delete([*NAMES, "was never there"])
    assert bucket.objects.keys() == {"t/stays"}
    assert bucket.requests == [1000, 1000, 501]


def test_an_undeletable_object_is_reported_by_path() -> None:
    with serving(Bucket(locked=frozenset({f"t/{NAMES[1]}"}))) as bucket, pytest.raises(StorageError) as error:
        fill_bucket(bucket).delete(NAMES[:3])
    assert f"s3://lake/t/{NAMES[1]}: " in str(error.value)
    assert {"t/stays", f"t/{NAMES[1]}"} <= bucket.objects.keys()


def test_deleting_missing_files_on_disk_succeeds(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        (tmp_path / name).touch()
    Storage(str(tmp_path)).delete(["a", "gone", "b"])
    assert [path.name for path in tmp_path.iterdir()] == ["c"]
