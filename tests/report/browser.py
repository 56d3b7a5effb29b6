"""A headless Chromium, controlled with the Chrome DevTools Protocol over a pipe (--remote-debugging-pipe)."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROGRAM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
# The browser reads from descriptor 3 and writes to descriptor 4.
_STARTER = """
import fcntl, os, sys
ours = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 100) for number in sys.argv[1:3]]
os.dup2(ours[0], 3)
os.dup2(ours[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


@dataclass(slots=True)
class Browser:
    """One page; ``errors`` are those of its console and its refused requests."""

    to: int
    back: int
    session: str = ""
    number: int = 0
    buffer: bytes = b""
    errors: list[str] = field(default_factory=list)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        self.number += 1
        message: dict[str, Any] = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                return dict(answer["result"])

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            chunk = os.read(self.back, 1 << 20)
            assert chunk, "the browser has gone"
            self.buffer += chunk
        raw, _, self.buffer = self.buffer.partition(b"\0")
        message = dict(json.loads(raw))
        self._listen(message)
        return message

    def _listen(self, message: dict[str, Any]) -> None:
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]["text"]))
        if message.get("method") == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(str(params["entry"]["text"]))
        if message.get("method") == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))

    def evaluate(self, expression: str) -> Any:  # noqa: ANN401 - JSON
        """The value of a JavaScript expression in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def open(self, path: Path) -> None:
        """Open a page and wait until it is complete; until then the former page may still answer."""
        address = path.as_uri()
        self.call("Page.navigate", url=address)
        while self.evaluate("[location.href, document.readyState].join()") != f"{address},complete":
            pass

    def emulate(self, **features: str) -> None:
        """Emulate paper or screen, light or dark."""
        media = features.pop("media", "screen")
        self.call(
            "Emulation.setEmulatedMedia",
            media=media,
            features=[{"name": name.replace("_", "-"), "value": value} for name, value in features.items()],
        )

    def press(self, key: str, code: int) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **text)

    def screenshot(self, path: Path) -> None:
        answer = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print_to_pdf(self) -> bytes:
        """The page as PDF."""
        return base64.b64decode(self.call("Page.printToPDF")["data"])


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A browser without a network, with a fresh profile."""
    assert PROGRAM is not None
    reads, writes = os.pipe(), os.pipe()
    command = [
        PROGRAM, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={folder}", "--remote-debugging-pipe",
        "--window-size=900,1200", "about:blank",
    ]  # fmt: skip
    starter = [sys.executable, "-c", _STARTER, str(reads[0]), str(writes[1]), *command]
    process = subprocess.Popen(
        starter, pass_fds=(reads[0], writes[1]), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.close(reads[0])
    os.close(writes[1])
    page = Browser(reads[1], writes[0])
    try:
        target = page.call("Target.createTarget", url="about:blank")["targetId"]
        page.session = page.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        yield page
    finally:
        process.kill()
        process.wait(10)
        os.close(page.to)
        os.close(page.back)
