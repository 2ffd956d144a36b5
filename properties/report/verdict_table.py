"""The table of verdicts in Markdown, for a workflow's summary and for the README."""

from __future__ import annotations

import re
from collections.abc import Sequence

from properties.report.merge import Merged
from properties.report.page import by_chapter, columns_of, summary
from properties.specification import Chapter


def cell(text: str) -> str:
    """Text within a table: Markdown's own signs lose their meaning, and a line stays a line."""
    escaped = re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", text)
    return " ".join(escaped.split())


def as_markdown(merged: Merged, chapters: Sequence[Chapter]) -> str:
    """One sentence of counts, and claims by chapter and verdict; columns that are empty are left out."""
    columns = [column for column in columns_of(merged) if column.total]
    lines = [summary(merged).en, "", f"| chapter | {' | '.join(f'{each.icon} {each.word.en}' for each in columns)} |"]
    lines.append("|---|" + "---:|" * len(columns))
    for chapter in by_chapter(merged, chapters):
        counts = [str(len(chapter.of(column)) or "") for column in columns]
        lines.append(f"| {chapter.section} {chapter.title.en} | {' | '.join(counts)} |")
    lines.append(f"| all | {' | '.join(str(each.total) for each in columns)} |")
    return "\n".join(lines) + "\n"
