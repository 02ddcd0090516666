"""Serves the page of a run on the loopback interface.

Each address contains a random token, and only the page, the events and the report have addresses. Requests
with a host name other than `localhost` or a loopback address are rejected, so that no other site can reach
the server under its own name.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import secrets
import select
import socket
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any

from silvan._core import SilvanError
from silvan.live import page
from silvan.live.recording import RUNNING, Recording

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Time in seconds that the server waits after the run for a first viewer, or for a viewer to return.
PATIENCE_S = 60.0
RETURN_S = 3.0
#: Default time limit of :meth:`Server.linger` in seconds.
LIMIT_S = 600.0
#: Maximum interval in seconds between checks for closed connections, maximum number of samples per event, and
#: maximum number of viewers.
PULSE_S = 0.5
BATCH = 50
MOST_STREAMS = 16
#: Maximum number of open connections. The server closes a further connection immediately, because every user
#: of this machine can connect, and each connection needs a thread and a file descriptor.
MOST_CONNECTIONS = 32
#: Maximum time in seconds from the connection to the end of the request.
REQUEST_S = 10.0
HOSTS = ("127.0.0.1", "localhost", "[::1]")


class Server:
    """A server for one run; use it as a context manager.

    >>> with Server("testbed") as server:  # doctest: +SKIP
    ...     print(server.url)
    ...     result = silvan.run("testbed", viewer=server.recording)
    ...     server.recording.finish(result)
    ...     server.linger()
    """

    def __init__(self, title: str) -> None:
        self.title = title
        self.recording = Recording()
        self._token = secrets.token_urlsafe(18)
        self._viewers = Viewers()
        self._http = _Http(("127.0.0.1", 0), _Handler)
        self._http.app = self
        self._report: bytes | None = None
        #: If set, all streams end.
        self.is_closed = False
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.1,), daemon=True)
        self._is_serving = False

    @property
    def url(self) -> str:
        """The URL of the page."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/{self._token}/"

    def __enter__(self) -> Server:
        self._thread.start()
        self._is_serving = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.recording.state == RUNNING:
            self.recording.fail(str(error) if isinstance(error, SilvanError) else "The run was stopped.")
        # Wait until viewers have received the last samples and the end of the run.
        if self._is_serving:
            self._viewers.wait_until_received(2.0)
        self.close()

    def close(self) -> None:
        """Close the server and all its connections, which frees their file descriptors."""
        self.is_closed = True
        if self._is_serving:
            self._is_serving = False
            self._http.shutdown()
            self._http.server_close()
            self._http.drop_all()

    def linger(self, limit_s: float = LIMIT_S) -> None:
        """Wait until the last viewer has disconnected, at most `limit_s` seconds.

        Without any viewer, wait up to :data:`PATIENCE_S` seconds for one.
        """
        if not self._is_serving:
            return
        end = time.monotonic() + limit_s
        self._viewers.wait_for_none(end, first_s=PATIENCE_S, return_s=RETURN_S)

    def answer(self, path: str) -> tuple[HTTPStatus, str, bytes] | None:
        """Return status, type and content for a path; None for the event stream."""
        token, _, rest = path.removeprefix("/").partition("/")
        if not path.startswith("/") or not hmac.compare_digest(token.encode(), self._token.encode()):
            return _refusal(HTTPStatus.NOT_FOUND)
        if rest == "":
            return HTTPStatus.OK, "text/html", page.html(self.title, page.EVENTS).encode()
        if rest == "events":
            return None
        if rest == "report" and self.recording.result is not None:
            return HTTPStatus.OK, "text/html", self._report_page()
        return _refusal(HTTPStatus.NOT_FOUND)

    def _report_page(self) -> bytes:
        with self._lock:
            if self._report is None and self.recording.result is not None:
                from silvan import report

                self._report = report.html([self.recording.result]).encode()
            return self._report or b""

    @property
    def viewers(self) -> Viewers:
        """The viewers that are connected."""
        return self._viewers


class Viewers:
    """Counts the connected viewers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._now = 0
        self._ever = 0
        self._received = 0

    def come(self) -> bool:
        """Add a viewer; return whether there was room."""
        with self._changed:
            if self._now >= MOST_STREAMS:
                return False
            self._now += 1
            self._ever += 1
            self._changed.notify_all()
            return True

    def go(self, *, has_end: bool) -> None:
        """Remove a viewer; `has_end` states whether it received the end of the run."""
        with self._changed:
            self._now -= 1
            self._received -= has_end
            self._changed.notify_all()

    def end_received(self) -> None:
        """Record that a viewer received the end of the run."""
        with self._changed:
            self._received += 1
            self._changed.notify_all()

    def wait_until_received(self, timeout_s: float) -> None:
        """Wait until all viewers have received the end of the run, or until the timeout."""
        with self._changed:
            self._changed.wait_for(lambda: self._received >= self._now, timeout_s)

    def wait_for_none(self, end: float, *, first_s: float, return_s: float) -> None:
        """Wait until no viewer is connected, or until `end`.

        Wait up to `first_s` seconds for a first viewer, and up to `return_s` seconds for a viewer to return.
        """
        with self._changed:
            if self._ever == 0:
                self._changed.wait_for(lambda: self._ever > 0, min(first_s, end - time.monotonic()))
            while (left := end - time.monotonic()) > 0:
                if self._now > 0:
                    self._changed.wait(left)
                elif not self._changed.wait_for(lambda: self._now > 0, min(return_s, left)):
                    return


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 2 * MOST_CONNECTIONS
    app: Server

    def __init__(self, *arguments: Any) -> None:
        self._guard = threading.Lock()
        #: The open connections, with the time at which the request must be complete; None once it is.
        self._connections: dict[socket.socket, float | None] = {}
        self._has_failed = False
        super().__init__(*arguments)

    def verify_request(self, request: Any, client_address: object) -> bool:
        """Accept a connection if fewer than :data:`MOST_CONNECTIONS` are open."""
        with self._guard:
            if len(self._connections) >= MOST_CONNECTIONS:
                return False
            self._connections[request] = time.monotonic() + REQUEST_S
            return True

    def service_actions(self) -> None:
        """End connections whose request is late. The server calls this several times a second."""
        now = time.monotonic()
        with self._guard:
            late = [one for one, end in self._connections.items() if end is not None and end < now]
        for connection in late:
            _end(connection)

    def note_request(self, request: socket.socket) -> None:
        """Record that the request of a connection is complete."""
        with self._guard:
            if request in self._connections:
                self._connections[request] = None

    def shutdown_request(self, request: Any) -> None:
        """Remove a connection from the open connections, and close it."""
        with self._guard:
            self._connections.pop(request, None)
        super().shutdown_request(request)

    def drop_all(self) -> None:
        """End all connections, and wait up to 2 seconds until their threads have closed them."""
        with self._guard:
            connections = list(self._connections)
        for connection in connections:
            _end(connection)
        end = time.monotonic() + 2.0
        while self._connections and time.monotonic() < end:
            time.sleep(0.01)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log the first error that is not an `OSError`. A viewer that disconnects causes an `OSError`."""
        if not self._has_failed and not isinstance(sys.exc_info()[1], OSError):
            self._has_failed = True
            logging.getLogger("silvan.live").exception("the page of the run could not answer a request")


def _end(connection: socket.socket) -> None:
    """End a connection in both directions, so that the thread that serves it stops waiting."""
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: _Http
    server_version = "Silvan"
    sys_version = ""
    # The longest time in seconds that a connection may be idle, or take to accept a part of a response.
    timeout = 20

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Refuse a request that is malformed or not supported."""
        status, kind, content = _refusal(HTTPStatus(code))
        self.close_connection = True
        # After a malformed request, the version is HTTP/0.9, and responses would have no header.
        self.request_version = self.protocol_version
        self._head(status, kind, len(content))
        if self.command != "HEAD":
            self.wfile.write(content)

    def do_GET(self) -> None:
        self.server.note_request(self.connection)
        host = self.headers.get("Host", "")
        if (host if host.endswith("]") else host.rpartition(":")[0] or host) not in HOSTS:
            found: tuple[HTTPStatus, str, bytes] | None = _refusal(HTTPStatus.FORBIDDEN)
        else:
            found = self.server.app.answer(self.path)
        if found is None:
            self._stream()
            return
        status, kind, content = found
        self._head(status, kind, len(content))
        self.wfile.write(content)

    def _head(self, status: HTTPStatus, kind: str, length: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in (
            ("Cache-Control", "no-store"),
            # The pages contain stricter policies with the hashes of their scripts.
            ("Content-Security-Policy", "frame-ancestors 'none'"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("Connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()

    def _stream(self) -> None:
        """Send the recording from its beginning, and then each new part."""
        app = self.server.app
        if not app.viewers.come():
            status, kind, content = _refusal(HTTPStatus.SERVICE_UNAVAILABLE)
            self._head(status, kind, len(content))
            self.wfile.write(content)
            return
        has_end = False
        try:
            self._head(HTTPStatus.OK, "text/event-stream")
            sent, has_network = 0, False
            while not app.is_closed and not self._is_gone():
                network, samples, end = app.recording.news(sent)
                if network is not None and not has_network:
                    has_network = True
                    self._send("network", network)
                for at in range(0, len(samples), BATCH):
                    self._send("samples", _list(samples[at : at + BATCH]))
                sent += len(samples)
                if end is not None and not has_end:
                    self._send("end", end)
                    has_end = True
                    app.viewers.end_received()
                elif end is None:
                    self._send("pulse", json.dumps({"wall_s": app.recording.wall_s()}))
                if has_end:
                    select.select([self.connection], [], [], PULSE_S)
                else:
                    app.recording.wait(sent, PULSE_S)
                    # Limit the number of events per second.
                    time.sleep(0.05)
        except OSError:
            # Ignore the error, because the viewer has disconnected.
            pass
        finally:
            app.viewers.go(has_end=has_end)

    def _is_gone(self) -> bool:
        """Return whether the browser has closed the connection; it sends nothing after its request."""
        if not select.select([self.connection], [], [], 0)[0]:
            return False
        content: bytes = self.connection.recv(1024, socket.MSG_PEEK)
        return content == b""

    def _send(self, event: str, text: str) -> None:
        self.wfile.write(f"event: {event}\ndata: {text}\n\n".encode())


def _list(texts: Sequence[str]) -> str:
    return f"[{','.join(texts)}]"


def _refusal(status: HTTPStatus) -> tuple[HTTPStatus, str, bytes]:
    return status, "text/plain", f"{status.value} {status.phrase}\n".encode()


__all__ = ["LIMIT_S", "Server"]
