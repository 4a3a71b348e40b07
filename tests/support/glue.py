"""A Glue catalog that moto emulates in this process, if moto and boto3 are installed (`pip install "moto[glue]" boto3`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

import pytest

needs_moto = pytest.mark.skipif(
    find_spec("moto") is None or find_spec("boto3") is None, reason="moto and boto3, which play AWS Glue, are not installed"
)


@contextmanager
def serving_glue() -> Iterator[dict[str, str]]:
    """Return the configuration of pyiceberg's Glue catalog."""
    from moto import mock_aws  # an optional dependency

    with mock_aws():
        yield {"type": "glue", "glue.region": "us-east-1", "glue.access-key-id": "testing", "glue.secret-access-key": "testing"}
