"""An application asked in process, by a client or by a browser."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx

from h2gcn.serving import bind

__all__ = ["InProcess", "listening"]


class InProcess:
    """A client of an ASGI application, which runs in a thread of its own.

    Parameters
    ----------
    app
        The application.
    address
        What requests seem to go to.
    """

    def __init__(self, app: Any, address: str = "http://127.0.0.1:8000") -> None:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(transport=transport, base_url=address)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def get(self, path: str, **options: Any) -> httpx.Response:
        """Ask, and wait for the answer."""
        return self._wait(self._client.get(path, **options))

    def post(self, path: str, **options: Any) -> httpx.Response:
        """Send a body, and wait for the answer."""
        return self._wait(self._client.post(path, **options))

    def _wait(self, asking: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(asking, self._loop).result()

    def close(self) -> None:
        """End the thread."""
        self._wait(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def listening(app: Any) -> Iterator[str]:
    """Have an application listen on a free port; yield its address."""
    import uvicorn

    server = uvicorn.Server(uvicorn.Config(app, log_config=None, lifespan="off"))
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join()
