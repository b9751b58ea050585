"""A server on this machine, plain or with a certificate that nobody has signed."""

import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["CERTIFICATE", "Answer", "Served", "serving"]

Answer = Callable[[BaseHTTPRequestHandler], None]
"""Answers a request, by the methods of its handler."""

CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBZzCCAQ2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABFZpqn7vv3liuvzs
Zm84xjs+KOl46bdoSe6SU1VqddClHWiHEhGdtGjsmFOc3zBDhbTo+ZzC3tnrLGq3
RRCv8FujTjBMMA8GA1UdEwEB/wQFMAMBAf8wGgYDVR0RBBMwEYcEfwAAAYIJbG9j
YWxob3N0MB0GA1UdDgQWBBT472ruU9qn4vAyXTQnrsXH6WNcxjAKBggqhkjOPQQD
AgNIADBFAiEAt/ydIyhtNBg4b2mQxz+GpZBPAqgQFRcMIO0tjg2l0BgCIHZiy//f
752m5OzMMtIm6U33Nkw/2Z5xAyXIuQCvq2Kc
-----END CERTIFICATE-----
"""
"""Of 127.0.0.1, signed by itself."""
_KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgUNQardFkxhHAYwIh
a0mti2dtHFjKzKJdEku1qVr3ebyhRANCAARWaap+7795Yrr87GZvOMY7PijpeOm3
aEnuklNVanXQpR1ohxIRnbRo7JhTnN8wQ4W06Pmcwt7Z6yxqt0UQr/Bb
-----END PRIVATE KEY-----
"""
"""Of the certificate above, which is used by these tests alone."""


class Served:
    """A server and what it was asked for.

    Parameters
    ----------
    address
        How the addresses of its files begin.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.asked: list[str] = []


@contextmanager
def serving(answer: Answer, *, encrypted: bool = False) -> Iterator[Served]:
    """Run a server for a while; every request gets the same answer."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.asked.append(self.path)
            answer(self)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]
    scheme = "https" if encrypted else "http"
    served = Served(f"{scheme}://127.0.0.1:{server.server_address[1]}")
    if encrypted:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            (file := Path(folder) / "both.pem").write_text(CERTIFICATE + _KEY)
            context.load_cert_chain(file)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
