"""A headless Chromium, spoken to over a pipe: no driver and no network between it and the tests."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
PATIENCE = 30.0
"""Seconds after which a browser that does not answer is given up."""
KEYS: Mapping[str, tuple[int, str]] = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Space": (32, " "),
    "ArrowRight": (39, ""),
    "ArrowDown": (40, ""),
}
"""The code of each key that is pressed by name, and what it types."""


def installed() -> str | None:
    """Where a Chromium is, or None."""
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class BrowserError(Exception):
    """The browser refused, did not answer, or its page raised."""


class Page:
    """One page of a browser, and what it asked of the network and complained of."""

    def __init__(self, send: Callable[[str, Mapping[str, Any], str | None], Any], session: str) -> None:
        self._send = send
        self.session = session
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.loaded = False

    def call(self, method: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol, and its result."""
        return self._send(method, parameters, self.session)

    def hear(self, event: Mapping[str, Any]) -> None:
        """Note what the page tells of itself."""
        method, told = event["method"], event.get("params", {})
        if method == "Page.loadEventFired":
            self.loaded = True
        elif method == "Network.requestWillBeSent":
            self.requests.append(told["request"]["url"])
        elif method == "Log.entryAdded":
            self.complaints.append(told["entry"]["text"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(told["exceptionDetails"]))

    def open(self, address: str) -> None:
        """Go to an address and wait until it has loaded."""
        self.loaded = False
        self.call("Page.navigate", url=address)
        ended = time.monotonic() + PATIENCE
        while not self.loaded:
            if time.monotonic() > ended:
                raise BrowserError(f"{address} did not load within {PATIENCE:g} s")
            self.call("Runtime.evaluate", expression="0")

    def value(self, expression: str) -> Any:
        """What JavaScript in the page gives, as plain data."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in told:
            raise BrowserError(f"{expression}: {told['exceptionDetails']}")
        return told["result"].get("value")

    def until(self, expression: str) -> None:
        """Wait until JavaScript in the page gives something true."""
        ended = time.monotonic() + PATIENCE
        while not self.value(expression):
            if time.monotonic() > ended:
                raise BrowserError(f"{expression} did not come true within {PATIENCE:g} s")
            time.sleep(0.02)

    def press(self, key: str, times: int = 1) -> None:
        """Press and release a key by its name."""
        code, text = KEYS[key]
        named = {"key": text or key, "code": key, "windowsVirtualKeyCode": code}
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **named)
            self.call("Input.dispatchKeyEvent", type="keyUp", **named)

    def write(self, text: str) -> None:
        """Type a text where the focus is."""
        self.call("Input.insertText", text=text)

    def sized(self, width: int, height: int = 900) -> None:
        """Give the window a size in CSS pixels."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def media(self, kind: str = "", scheme: str = "light") -> None:
        """Show the page as ``print`` or on a screen, in a light or a dark colour scheme."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=kind, features=features)


class Browser:
    """A running browser."""

    def __init__(self, program: str, profile: Path) -> None:
        own_read, its_write = os.pipe()
        its_read, own_write = os.pipe()
        # The browser speaks on descriptors 3 and 4, wherever the pipes were opened.
        command = f'exec "$@" 3<&{its_read} 4>&{its_write}'
        arguments = [program, *QUIET, f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", command, "browser", *arguments],
            pass_fds=(its_read, its_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(its_read)
        os.close(its_write)
        self._in, self._out = own_write, own_read
        self._buffer = b""
        self._number = 0
        self._pages: dict[str, Page] = {}

    def page(self) -> Page:
        """A new, empty page."""
        target = self._send("Target.createTarget", {"url": "about:blank"}, None)["targetId"]
        session = self._send("Target.attachToTarget", {"targetId": target, "flatten": True}, None)["sessionId"]
        page = self._pages[session] = Page(self._send, session)
        for domain in ("Page", "Runtime", "Network", "Log"):
            page.call(f"{domain}.enable")
        return page

    def close(self) -> None:
        """End the browser and everything that it has started."""
        os.close(self._in)
        try:
            self._process.wait(timeout=2)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        os.close(self._out)

    def _send(self, method: str, parameters: Mapping[str, Any], session: str | None) -> Any:
        self._number += 1
        number = self._number
        message = {"id": number, "method": method, "params": parameters}
        if session is not None:
            message["sessionId"] = session
        os.write(self._in, json.dumps(message).encode() + b"\0")
        while True:
            told = self._receive(method)
            if told.get("id") == number:
                if "error" in told:
                    raise BrowserError(f"{method}: {told['error'].get('message')}")
                return told["result"]
            page = self._pages.get(told.get("sessionId", ""))
            if page is not None and "method" in told:
                page.hear(told)

    def _receive(self, waiting_for: str) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], PATIENCE)
            piece = os.read(self._out, 1 << 20) if ready else b""
            if not piece:
                raise BrowserError(f"{waiting_for}: the browser ended or did not answer within {PATIENCE:g} s")
            self._buffer += piece
        message, _, self._buffer = self._buffer.partition(b"\0")
        told: dict[str, Any] = json.loads(message)
        return told


@contextmanager
def browsing() -> Iterator[Browser]:
    """A browser with a profile of its own, both gone afterwards. BrowserError where none is installed."""
    program = installed()
    if program is None:
        raise BrowserError("no Chromium is installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, Path(profile))
        try:
            yield browser
        finally:
            browser.close()
