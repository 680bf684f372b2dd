"""What a package index shows: the project's addresses, and the README with links that lead somewhere from there.

`repository-code` of CITATION.cff says where the project lives. While it is not there, links are words and pictures are
left out, since neither would be found.
"""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PLACES = {"Repository": "", "Documentation": "/blob/main/docs/index.md", "Changelog": "/blob/main/CHANGELOG.md"}
LINK = re.compile(r"(?P<picture>!?)\[(?P<text>[^]]*)\]\((?!#|[a-z]+:)(?P<path>[^)]+)\)")


class CustomMetadataHook(MetadataHookInterface):
    """Called by the build."""

    def update(self, metadata: dict[str, Any]) -> None:
        address = repository((Path(self.root) / "CITATION.cff").read_text(encoding="utf-8"))
        text = readme((Path(self.root) / "README.md").read_text(encoding="utf-8"), address)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
        metadata["urls"] = {name: address + path for name, path in PLACES.items()} if address else {}


def repository(citation: str) -> str:
    """The address, or nothing."""
    found = re.search(r"^repository-code: *[\"']?(https://[^\s\"']+)", citation, flags=re.MULTILINE)
    return found[1].rstrip("/") if found else ""


def readme(text: str, address: str) -> str:
    """Without a link that leads to a file beside it."""

    def absolute(link: re.Match[str]) -> str:
        if not address:
            return "" if link["picture"] else link["text"]
        kind = "raw" if link["picture"] else "blob"
        return f"{link['picture']}[{link['text']}]({address}/{kind}/main/{link['path']})"

    return LINK.sub(absolute, text)
