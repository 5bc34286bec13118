"""XML of annotations, of which no entity is ever resolved."""

from __future__ import annotations

from dataclasses import dataclass, field
from xml.parsers import expat

__all__ = ["MOST_BYTES", "Tag", "parse_xml"]

MOST_BYTES = 16 << 20
_DEEPEST = 50


@dataclass
class Tag:
    """One tag: its text, the tags in it, and its attributes."""

    tag: str
    text: str = ""
    inner: list[Tag] = field(default_factory=list)
    given: dict[str, str] = field(default_factory=dict)

    def all(self, tag: str) -> list[Tag]:
        """The tags of this name right in it."""
        return [node for node in self.inner if node.tag == tag]

    def first(self, tag: str) -> Tag | None:
        """The first tag of this name right in it."""
        return next((node for node in self.inner if node.tag == tag), None)

    def text_of(self, tag: str, default: str = "") -> str:
        """The text of the first tag of this name."""
        found = self.first(tag)
        return default if found is None else found.text.strip()


def parse_xml(data: bytes, most_bytes: int = MOST_BYTES) -> Tag:
    """Parse XML. Declared entities are refused, because they could grow without limit or read other files."""
    if len(data) > most_bytes:
        raise ValueError(f"the XML has more than {most_bytes >> 20} MiB")
    top = Tag("")
    stack = [top]

    def start(tag: str, given: dict[str, str]) -> None:
        if len(stack) > _DEEPEST:
            raise ValueError(f"the XML is more than {_DEEPEST} tags deep")
        stack[-1].inner.append(Tag(tag, given=given))
        stack.append(stack[-1].inner[-1])

    def text(part: str) -> None:
        stack[-1].text += part

    def entity(name: str, *_: object) -> None:
        raise ValueError(f"the XML declares an entity, {name!r}, which is never resolved")

    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = text
    parser.EntityDeclHandler = entity
    parser.Parse(data, True)
    return top.inner[0]
