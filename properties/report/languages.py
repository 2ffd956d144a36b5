"""A text in the page's two languages, and the words that a record uses in both."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from properties.report.visible import visible

if TYPE_CHECKING:
    from markupsafe import Markup

CHINESE = "zh-Hans"
"""The language tag of the page's Chinese."""


@dataclass(frozen=True)
class Phrase:
    """One text, said in English and in Chinese."""

    en: str
    zh: str

    def __bool__(self) -> bool:
        return bool(self.en)

    def __add__(self, other: Phrase | str) -> Phrase:
        end = same(other) if isinstance(other, str) else other
        return Phrase(self.en + end.en, self.zh + end.zh)

    def __html__(self) -> Markup:
        """Both texts as markup, of which the page shows one; a text that is the same in both stands there once."""
        from markupsafe import Markup, escape

        en, zh = (escape(visible(text)) for text in (self.en, self.zh))
        if en == zh:
            return en
        return Markup('<span class="en">{}</span><span lang="{}">{}</span>').format(en, CHINESE, zh)


@dataclass(frozen=True)
class Quoted:
    """A text that is English in both languages: a record's own words, which nobody has translated."""

    text: str

    def __bool__(self) -> bool:
        return bool(self.text)

    def __html__(self) -> Markup:
        """The text, marked as English."""
        from markupsafe import Markup

        return Markup('<span lang="en">{}</span>').format(visible(self.text))


def same(text: str) -> Phrase:
    """A text that is the same in both languages: code, numbers, names."""
    return Phrase(text, text)


def joined(separator: str, parts: Iterable[Phrase | str]) -> Phrase:
    """The parts that say something, with ``separator`` between them."""
    said = [same(part) if isinstance(part, str) else part for part in parts if part]
    return Phrase(separator.join(part.en for part in said), separator.join(part.zh for part in said))


def counted(count: int, one: str, many: str | None = None) -> str:
    """``1 case``, ``1,234 cases``; ``many`` is for nouns whose plural has no plain s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def many(count: int, one: str, zh: str, plural: str | None = None) -> Phrase:
    """A counted noun in both languages; ``zh`` is the measure word and the noun: ``个用例``."""
    return Phrase(counted(count, one, plural), f"{count:,} {zh}")


REASONS = {
    "needs a CUDA device": "需要 CUDA 设备",
    "needs a CUDA device of compute capability 8.9 and up": "需要计算能力 8.9 及以上的 CUDA 设备",
    "needs torch.distributed with gloo": "需要带 gloo 的 torch.distributed",
    "needs Linux": "需要 Linux",
    "deselected": "本次没有选中",
    "no property was selected": "本次没有选中任何性质",
    "the run ended before it was through": "运行在它完成之前就结束了",
    "runs from the default level": "从默认级别起才运行",
    "runs from the thorough level": "从深入级别起才运行",
    "runs from the exhaustive level": "只在穷举级别运行",
}
"""What a claim that did not run lacks, in Chinese."""


def reason(text: str) -> Phrase | Quoted:
    """Why something did not run: in Chinese too where it is one of the usual reasons."""
    need, colon, what = text.partition(": ")
    needs = need.split(" and needs ")
    named = [needs[0], *(f"needs {other}" for other in needs[1:])]
    if any(each not in REASONS for each in named):
        return Quoted(text)
    zh = "，并".join(REASONS[each] for each in named)
    return Phrase(text, f"{zh}{'：' if colon else ''}{what}")
