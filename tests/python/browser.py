"""A headless browser for tests: Chromium, controlled through its DevTools protocol."""

import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome")
#: Timeout of any operation. It is long because the machine may be busy with other work.
PATIENCE_S = 60


class Page:
    """A page of the browser, with the errors that it reports and the addresses that it requests."""

    def __init__(self, socket: Any) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self.complaints: list[str] = []
        self.requests: list[str] = []
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        # A screenshot of the whole page removes the scroll bar for a moment, which changes the width of all
        # elements.
        self.call("Emulation.setScrollbarsHidden", hidden=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = self._hear()
            if message.get("id") == number:
                assert "error" not in message, f"{method}: {message['error']}"
                return message["result"]

    def _hear(self) -> dict[str, Any]:
        message = json.loads(self._socket.recv(timeout=PATIENCE_S))
        told, kind = message.get("params", {}), message.get("method")
        if kind == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))
        elif kind == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(json.dumps(told["args"]))
        elif kind == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])
        elif kind == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        return message

    def open(
        self,
        file: Path | str,
        width: int = 1200,
        height: int = 900,
        *,
        theme: str = "light",
        fragment: str = "",
    ) -> None:
        """Open a page, a file or an address, and wait until its scripts have finished."""
        self.size(width, height)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        # Remove the mark of the current page, so that it cannot be mistaken for the mark of the next one.
        self.run("document.documentElement?.removeAttribute('data-ready')")
        address = file if isinstance(file, str) else file.as_uri()
        self.call("Page.navigate", url=address + (f"#{fragment}" if fragment else ""))
        self.wait("document.documentElement?.dataset.ready === 'yes'")
        self.settle()

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 500,
        )  # fmt: skip

    def run(self, script: str) -> Any:
        """Run a script and return the value of its last expression."""
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + PATIENCE_S
        while not self.run(condition):
            assert time.monotonic() < end, f"never: {condition}; {self.complaints}"
            time.sleep(0.05)

    def settle(self) -> None:
        """Wait until the requested changes are drawn."""
        twice = "requestAnimationFrame(() => requestAnimationFrame(() => done(true)))"
        self.run(f"new Promise((done) => {twice})")

    def picture(self, selector: str = "html") -> bytes:
        """Return an image of an element as PNG."""
        box = self.run(
            f"(() => {{ const box = document.querySelector({json.dumps(selector)}).getBoundingClientRect();"
            "return [box.x + scrollX, box.y + scrollY, box.width, box.height]; })()"
        )
        clip = dict(zip(("x", "y", "width", "height"), box, strict=True)) | {"scale": 1}
        shot = self.call("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def click(self, x: float, y: float) -> None:
        """Click at a position in the window."""
        where = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.call("Input.dispatchMouseEvent", type="mousePressed", **where)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", **where)
        self.settle()

    def drag(self, start: tuple[float, float], end: tuple[float, float]) -> None:
        """Press at one position, and release at another."""
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=start[0], y=start[1], button="left")
        for part in (0.3, 0.7, 1.0):
            x, y = (one + part * (other - one) for one, other in zip(start, end, strict=True))
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, button="left", buttons=1)
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=end[0], y=end[1], button="left")
        self.settle()

    def press(self, key: str) -> None:
        """Press a key."""
        text = {"text": key} if len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)
        self.settle()


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Page]:
    """Start a browser whose files are in `folder`; yield a page of it."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip("no browser: these tests need Chromium (Debian, Ubuntu: apt install chromium)")
    options = [
        "--headless=new", "--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader",
        "--remote-debugging-port=0", "--no-first-run", "--disable-background-networking",
        # Tests access sandboxed frames, so keep these in the same process.
        "--disable-features=IsolateSandboxedIframes",
        "--disable-dev-shm-usage", f"--user-data-dir={folder}", "about:blank",
    ]  # fmt: skip
    with subprocess.Popen(
        [program, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            port = _port(folder / "DevToolsActivePort", process)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list", timeout=PATIENCE_S) as answer:
                pages = [one for one in json.load(answer) if one["type"] == "page"]
            with connect(pages[0]["webSocketDebuggerUrl"], max_size=None, proxy=None) as socket:
                yield Page(socket)
        finally:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


def _port(file: Path, process: "subprocess.Popen[bytes]") -> int:
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        if file.is_file() and (lines := file.read_text().splitlines()):
            return int(lines[0])
        if process.poll() is not None:
            break
        time.sleep(0.05)
    pytest.fail("the browser did not start")
