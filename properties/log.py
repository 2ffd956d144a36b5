"""A log with one JSON line for each thing done, from which work that was interrupted goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Log:
    """The lines of a file, of which there are none while it is not there; a new one is in the file at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        if path.exists():
            self.lines += map(json.loads, path.read_text(encoding="utf-8").splitlines())

    def add(self, line: dict[str, Any]) -> None:
        """Write a line, and create the folder where it is missing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as written:
            written.write(json.dumps(line) + "\n")
        self.lines.append(line)
