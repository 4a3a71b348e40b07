"""The files that pyiceberg's catalogs read and write in this process: the metadata of tables.

The name of a metadata file contains a UUID, so the file never changes. A catalog loads a table several times in one statement, mostly with
the same metadata, and with the metadata that this process has written. So the contents of the newest files are cached.
"""

from __future__ import annotations

import re
from io import BytesIO
from typing import Any, cast

from pyiceberg.io import PY_IO_IMPL, FileIO, InputFile, InputStream, OutputFile, OutputStream, load_file_io

from rowmerge.iceberg.catalogs.file_io import current_properties
from rowmerge.storage.cache import Cache

_UNIQUE_NAME = re.compile(r"-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(\.gz)?\.metadata\.json$")
_MAX_CACHED_BYTES = 32 * 1024 * 1024

_contents: Cache[bytes] = Cache(_MAX_CACHED_BYTES)
"""The contents of metadata files by location."""


class MetadataFileIO(FileIO):
    """A FileIO of pyiceberg with cached metadata files. Every file is read and written by the FileIO that pyiceberg would choose."""

    def _delegate(self, location: str) -> FileIO:
        properties = current_properties(self.properties, location)
        return load_file_io({name: value for name, value in properties.items() if name != PY_IO_IMPL}, location)

    def new_input(self, location: str) -> InputFile:
        """Return a file for reading. Only the first read of a metadata file sends requests."""
        return _MetadataInput(location, self) if _UNIQUE_NAME.search(location) else self._delegate(location).new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Return a file for writing."""
        output = self._delegate(location).new_output(location)
        return _MetadataOutput(output, self) if _UNIQUE_NAME.search(location) else output

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        path = location if isinstance(location, str) else location.location
        self._delegate(path).delete(path)


class _MetadataInput(InputFile):
    """A metadata file for reading."""

    def __init__(self, location: str, file_io: MetadataFileIO) -> None:
        super().__init__(location)
        self._file_io = file_io

    def __len__(self) -> int:
        return len(self._content())

    def exists(self) -> bool:
        return self._file_io._delegate(self.location).new_input(self.location).exists()

    def open(self, seekable: bool = True) -> InputStream:
        return cast("InputStream", BytesIO(self._content()))

    def _content(self) -> bytes:
        content = _contents.get(self.location)
        if content is None:
            with self._file_io._delegate(self.location).new_input(self.location).open() as stream:
                content = bytes(stream.read())
            _contents.put(self.location, content, len(content))
        return content


class _MetadataOutput(OutputFile):
    """A metadata file for writing."""

    def __init__(self, output: OutputFile, file_io: MetadataFileIO) -> None:
        super().__init__(output.location)
        self._output, self._file_io = output, file_io

    def __len__(self) -> int:
        return len(self._output)

    def exists(self) -> bool:
        return self._output.exists()

    def to_input_file(self) -> InputFile:
        return self._file_io.new_input(self.location)

    def create(self, overwrite: bool = False) -> OutputStream:
        # The name is unique, so no request tests whether the file exists.
        return cast("OutputStream", _MetadataStream(self._output))


class _MetadataStream(BytesIO):
    """The content of a new metadata file in memory. It is written, and cached, when the stream is closed without an error."""

    def __init__(self, output: OutputFile) -> None:
        super().__init__()
        self._output = output

    def __exit__(self, error_class: Any, error: Any, traceback: Any) -> None:
        if error is not None:
            super().close()
        self.close()

    def close(self) -> None:
        if not self.closed:
            content = self.getvalue()
            super().close()
            with self._output.create(overwrite=True) as stream:
                stream.write(content)
            _contents.put(self._output.location, content, len(content))
