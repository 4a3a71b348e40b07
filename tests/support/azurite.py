"""Azurite: Microsoft's emulator of Azure Blob Storage, in another process."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pyarrow.fs

AZURITE = os.environ.get("ROWMERGE_AZURITE") or shutil.which("azurite-blob") or ""
"""The program `azurite-blob` of the npm package azurite."""
ACCOUNT, CONTAINER = "devstoreaccount1", "lake"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The key of Azurite's account, which its documentation publishes."""
LOCATION = f"abfss://{CONTAINER}@{ACCOUNT}.dfs.core.windows.net"


@contextmanager
def azurite(folder: Path) -> Iterator[dict[str, str]]:
    """Run Azurite with an empty container, and yield the storage options for it.

    Args:
        folder: The folder of Azurite's files.

    Raises:
        AssertionError: Azurite does not answer.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [AZURITE, "--silent", "--skipApiVersionCheck", "--inMemoryPersistence", "--blobPort", str(port)]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _wait_for(f"http://127.0.0.1:{port}/{ACCOUNT}")
        options = {"azure_storage_account_name": ACCOUNT, "azure_storage_account_key": KEY}
        options["azure_endpoint"] = f"http://127.0.0.1:{port}/{ACCOUNT}"
        stores = {f"{kind}_storage_authority": f"127.0.0.1:{port}" for kind in ("blob", "dfs")}
        schemes = {f"{kind}_storage_scheme": "http" for kind in ("blob", "dfs")}
        pyarrow.fs.AzureFileSystem(account_name=ACCOUNT, account_key=KEY, **stores, **schemes).create_dir(CONTAINER)
        yield {**options, "azure_allow_http": "true"}
    finally:
        process.kill()
        process.wait()


def _wait_for(address: str) -> None:
    """Wait until a server answers, even with an error status. Raises AssertionError after 30 seconds."""
    for _ in range(300):
        try:
            urlopen(address, timeout=5).close()
            return
        except HTTPError:
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"No server answers at {address}.")
