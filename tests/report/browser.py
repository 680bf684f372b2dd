"""Debian's Chromium without a window, spoken to in its DevTools protocol over two pipes: no driver, no package."""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 60.0  # seconds for any one answer, on a busy machine
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--remote-debugging-pipe",
)  # fmt: skip


def installed() -> str | None:
    """The browser's command, if there is one."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Browser:
    """One tab; keeps what the page logs, throws and asks for."""

    def __init__(self, command: str) -> None:
        # The browser reads commands from its descriptor 3 and writes answers to 4, each ended by a zero byte.
        its_in, self._out = os.pipe()
        self._in, its_out = os.pipe()
        self._home = tempfile.mkdtemp(prefix="browser-")
        arguments = [command, *FLAGS, f"--user-data-dir={self._home}", "about:blank"]
        # High numbers first, so that neither move overwrites the other's descriptor.
        moves = f'exec 3<&{its_in} 4>&{its_out}; exec "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", moves, "browser", *arguments], pass_fds=(its_in, its_out),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(its_in)
        os.close(its_out)
        self._received, self._number = b"", 0
        self.complaints: list[str] = []  # console errors and warnings, exceptions
        self.requests: list[str] = []  # addresses
        tab = next(t for t in self.ask("Target.getTargets")["targetInfos"] if t["type"] == "page")
        attached = self.ask("Target.attachToTarget", targetId=tab["targetId"], flatten=True)
        self._session: str | None = attached["sessionId"]
        for part in ("Page", "Runtime", "Log", "Network"):
            self.ask(f"{part}.enable")

    _session: str | None = None

    def ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]

    def _next(self) -> dict[str, Any]:
        import select

        until = time.monotonic() + PATIENCE
        while b"\0" not in self._received:
            ready, _, _ = select.select([self._in], [], [], max(0.0, until - time.monotonic()))
            read = os.read(self._in, 1 << 20) if ready else b""
            if not read:
                raise RuntimeError(f"the browser said nothing for {PATIENCE:g} s, or ended")
            self._received += read
        text, self._received = self._received.split(b"\0", 1)
        message = json.loads(text)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, event: str | None, said: dict[str, Any]) -> None:
        if event == "Runtime.exceptionThrown":
            self.complaints.append(str(said["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(said["args"]))
        elif event == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complaints.append(said["entry"]["text"])
        elif event == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])

    def open(self, page: Path, width: int, height: int = 900) -> None:
        """Show a page at this width, as a phone would below 600 pixels."""
        phone = width < 600
        self.ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone,
        )  # fmt: skip
        self.ask("Page.navigate", url=page.resolve().as_uri())
        until = time.monotonic() + PATIENCE
        address = json.dumps(page.resolve().as_uri())
        while not self.run(f"document.readyState === 'complete' && location.href === {address}"):
            assert time.monotonic() < until, "the page did not load"
            time.sleep(0.05)

    def run(self, script: str) -> Any:
        """The value of an expression in the page."""
        answer = self.ask("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def screenshot(self, path: Path, whole: bool = True) -> None:
        """What is seen, or the whole page, as PNG."""
        taken = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(taken["data"]))

    def print_to(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.ask("Page.printToPDF", preferCSSPageSize=True)["data"]))

    def close(self) -> None:
        try:
            self._session = None
            self.ask("Browser.close")
        except (RuntimeError, OSError):
            self._process.kill()
        self._process.wait(PATIENCE)
        os.close(self._in)
        os.close(self._out)
        shutil.rmtree(self._home, ignore_errors=True)
