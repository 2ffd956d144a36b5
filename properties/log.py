"""A log with one JSON line for each thing done, from which work that was interrupted goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class Log:
    """The lines of a file, of which there are none while it is not there; a new one is in the file at once.

    SystemExit names a line that is not JSON, such as one that was being written when its process was killed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[dict[str, Any]] = []
        written = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        for number, line in enumerate(written, 1):
            try:
                self.lines.append(json.loads(line))
            except json.JSONDecodeError as error:
                raise SystemExit(f"{path}, line {number}: not a line of JSON; remove it and run again") from error

    def add(self, line: dict[str, Any]) -> None:
        """Write a line, and create the folder where it is missing."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as written:
            written.write(json.dumps(line) + "\n")
        self.lines.append(line)
