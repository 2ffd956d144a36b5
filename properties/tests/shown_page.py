"""A page as its reader has it: the elements, and the text that one language shows."""

from __future__ import annotations

from html.parser import HTMLParser

from properties.report import __main__ as command
from properties.report.merge import choose, merge
from properties.report.page import render
from properties.report.record import Record
from properties.specification import Chapter

CHAPTERS = (
    Chapter("1", "Number formats", "数值格式", "number_formats", "Range and precision.", "范围与精度。"),
    Chapter("2", "Tensors in memory", "内存中的张量", "tensors_in_memory"),
)
Attributes = dict[str, str | None]


class Page(HTMLParser):
    """A page as a list of elements; unbalanced tags are an error."""

    VOID = frozenset({"meta", "link", "br", "hr", "img", "input"})
    INLINE = frozenset({"a", "b", "code", "span", "tspan"})

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, Attributes]] = []
        self.text: list[tuple[str, bool, bool]] = []
        self.open: list[tuple[str, Attributes]] = []
        self.scripts: list[str] = []
        self.feed(page.decode("utf-8"))
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        opened, _ = self.open.pop()
        assert opened == tag
        if tag not in self.INLINE:
            self.text.append((" ", True, True))

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1][0] in ("script", "style"):
            self.scripts.append(data)
            return
        around = [attributes for _, attributes in self.open]
        english = any("en" in str(each.get("class")).split() for each in around)
        chinese = any(str(each.get("lang")).startswith("zh") and each.get("class") != "always" for each in around)
        self.text.append((data, not chinese, not english))

    @property
    def said(self) -> str:
        """What the page shows in English."""
        return " ".join("".join(text for text, english, _ in self.text if english).split())

    @property
    def said_in_chinese(self) -> str:
        """What the page shows in Chinese."""
        return " ".join("".join(text for text, _, chinese in self.text if chinese).split())

    def attributes(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [str(attributes[name]) for _, attributes in self.elements if name in attributes]

    def tagged(self, tag: str) -> list[Attributes]:
        """The attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


def page_of(*given_records: Record) -> bytes:
    """The page that the command makes of these records."""
    merged = merge(given_records)
    links = {each["name"]: f"../results/{each['name']}.json" for each in merged.environments}
    notices = command.notices(given_records, choose(given_records))
    return render(merged, chapters=CHAPTERS, links=links, notices=notices)
