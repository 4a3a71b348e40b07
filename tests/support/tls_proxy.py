"""A proxy that ends TLS in front of a server, as nginx or stunnel do in front of a Spark Connect server."""

from __future__ import annotations

import asyncio
import ssl
import threading
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.support.connect_server import free_port


class TlsProxy:
    """A proxy for `localhost`, which forwards the decrypted bytes to a port. `certificate`: the file that clients must trust."""

    def __init__(self, folder: Path, server_port: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.port, self._server_port = free_port(), server_port
        self.certificate = folder / "certificate.pem"
        _write_certificate(self.certificate, folder / "key.pem")
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(self.certificate, folder / "key.pem")
        self._context.set_alpn_protocols(["h2"])  # gRPC rejects a connection without it
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> TlsProxy:
        self._thread.start()
        server = asyncio.start_server(self._forward, "localhost", self.port, ssl=self._context)
        asyncio.run_coroutine_threadsafe(server, self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Copy bytes in both directions until one side closes its connection."""
        try:
            server_reader, server_writer = await asyncio.open_connection("localhost", self._server_port)
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, server_writer), _copy(server_reader, writer), return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    finally:
        writer.close()


def _write_certificate(certificate_path: Path, key_path: Path) -> None:
    """Write a certificate for `localhost` that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")]), datetime.now(timezone.utc)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    certificate = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    certificate_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key_path.write_bytes(key.private_bytes(*private))
