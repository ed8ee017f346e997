"""Use a page in headless Chromium as a person does: run scripts, choose files, press keys, take pictures."""

import base64
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from tests.support.browser import QUIET, chromium

TIME_LIMIT = 60.0
"""Most seconds until something is so."""


class Tab:
    """A page of Chromium, driven through a pipe by its DevTools protocol."""

    def __init__(self, reader: int, writer: int) -> None:
        self._reader, self._writer = os.fdopen(reader, "rb"), os.fdopen(writer, "wb")
        self._rest, self._count, self.session = b"", 0, None
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Send a command and return its result."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self.session is not None and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self.session
        self._writer.write(json.dumps(message).encode() + b"\0")
        self._writer.flush()
        while True:
            answer = self._message()
            if answer.get("id") == self._count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def close(self) -> None:
        """Close the pipe."""
        self._writer.close()
        self._reader.close()

    def _message(self) -> Any:
        while b"\0" not in self._rest:
            piece = self._reader.read1(2**16)
            assert piece, "Chromium has ended"
            self._rest += piece
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def run(self, script: str) -> Any:
        """Return the value of an expression in the page."""
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, script: str) -> Any:
        """Return the first value of an expression that is true."""
        until = time.monotonic() + TIME_LIMIT
        while not (value := self.run(script)):
            assert time.monotonic() < until, (script, self.run("document.body.innerText"))
            time.sleep(0.1)
        return value

    def open(self, address: str) -> None:
        """Open an address and wait until its scripts have run."""
        self.call("Page.navigate", url=address)
        self.wait(f"location.href.startsWith({json.dumps(address)}) && document.readyState === 'complete'")

    def look(self, width: int, *, dark: bool, height: int = 900) -> None:
        """Set the width of the window, and whether the person prefers dark colours."""
        narrow = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=narrow)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def picture(self, path: Path) -> None:
        """Write a picture of the whole page."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))

    def press(self, key: str) -> None:
        """Press a key."""
        codes = {"Tab": 9, "ArrowRight": 39, "ArrowLeft": 37, "Enter": 13}
        text = {"text": "\r"} if key == "Enter" else {}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=codes[key], **text)

    def complaints(self) -> list[Any]:
        """Return what the console has said of errors and of its policy."""
        return [
            event["params"]
            for event in self.events
            if event["method"] == "Runtime.exceptionThrown"
            or (event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error")
        ]


@contextmanager
def tab(folder: Path) -> Iterator[Tab]:
    """Open Chromium with its files and downloads in `folder`; skip without Chromium."""
    program = chromium()
    (read_commands, commands), (answers, write_answers) = os.pipe(), os.pipe()
    shell = f'exec "$@" 3<&{read_commands} 4>&{write_answers}'
    options = [*QUIET, "--remote-debugging-pipe", f"--user-data-dir={folder / 'profile'}", "about:blank"]
    with subprocess.Popen(
        ["bash", "-c", shell, "bash", program, *options],
        pass_fds=(read_commands, write_answers),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(read_commands)
        os.close(write_answers)
        try:
            page = Tab(answers, commands)
            with closing(page):
                page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
                yield page
        finally:
            process.terminate()
