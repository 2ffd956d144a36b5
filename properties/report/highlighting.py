"""Python source with its words marked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from properties.report.visible import visible

if TYPE_CHECKING:
    from markupsafe import Markup

CLASSES = {
    "Token.Keyword": "k",
    "Token.Operator.Word": "k",
    "Token.Literal.String": "s",
    "Token.Literal.Number": "m",
    "Token.Name.Decorator": "d",
    "Token.Name.Function": "d",
    "Token.Comment": "c",
}
"""The class of each kind of word that the page's style colours; subkinds are coloured alike, the rest is left plain."""


def highlight(source: str) -> Markup:
    """Python source with its words marked, or plain where Pygments is missing."""
    from markupsafe import Markup, escape

    shown = visible(source)
    try:
        from pygments.lexers.python import PythonLexer
    except ModuleNotFoundError:
        return escape(shown)
    # Pygments' own formatter marks every name and bracket, which makes a page of sources twice as long.
    pieces: list[str] = []
    run, style = "", ""
    for kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(shown):
        wanted = style if not text.strip() else _class(str(kind))
        if wanted != style:
            pieces.append(_marked(run, style))
            run, style = "", wanted
        run += text
    pieces.append(_marked(run, style))
    return Markup("".join(pieces))


def _class(kind: str) -> str:
    while "." in kind:
        if kind in CLASSES:
            return CLASSES[kind]
        kind = kind.rpartition(".")[0]
    return ""


def _marked(text: str, style: str) -> str:
    from markupsafe import escape

    if not style or not text:
        return str(escape(text))
    return f'<span class="{style}">{escape(text)}</span>'
