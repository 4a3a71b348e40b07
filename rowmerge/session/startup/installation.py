"""Where Java is, and where rowmerge caches files for the user."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

CACHE = "ROWMERGE_CACHE"
"""The environment variable that sets the folder of class archives and servers. The default is `rowmerge` in the user's cache folder."""


def cache_folder() -> Path:
    """Return the folder of class archives and servers: ROWMERGE_CACHE or, if it is not set, `rowmerge` in the user's cache folder.

    XDG_CACHE_HOME sets the user's cache folder (XDG Base Directory).
    """
    if folder := os.environ.get(CACHE):
        return Path(folder).absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rowmerge"


def java_executable() -> Path | None:
    """Return the path of the Java executable in JAVA_HOME or PATH, with links resolved, or None if there is none."""
    home = os.environ.get("JAVA_HOME")
    path = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    return Path(path).resolve() if path else None
