"""Brings into the site what its pages link to elsewhere in the repository: results, pictures, source files."""

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parents[2]
DOCS = "docs/"
AS_THEY_ARE = (".md", ".png", ".gif", ".ipynb")
LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")  # no addresses of other hosts, no anchors of the same page


def in_repository(page: str, link: str) -> str | None:
    """The file a link of a page means, both by their paths in the repository; None where there is none."""
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
    return path if not path.startswith("..") and (ROOT / path).is_file() else None


def in_site(path: str) -> str:
    """Where the site has a file of the repository: pages of docs/ at its top, code as a page of its own."""
    path = path.removeprefix(DOCS)
    return path if path.endswith(AS_THEY_ARE) else f"{path}.md"


def from_site(uri: str) -> str:
    """The page of the repository that the site has there."""
    return f"{DOCS}{uri}" if (ROOT / DOCS / uri).is_file() else uri


def outside(pages: Iterable[str]) -> set[str]:
    """What these pages link to outside docs/, and what that links to in turn."""
    found: set[str] = set()
    left = list(pages)
    while left:
        page = left.pop()
        links = [in_repository(page, link) for link, _ in LINK.findall((ROOT / page).read_text())]
        new = {path for path in links if path and not path.startswith(DOCS)} - found
        found |= new
        left += [path for path in new if path.endswith(".md")]
    return found


def on_files(files: Files, *, config: Any) -> Files:
    for path in sorted(outside(from_site(page.src_uri) for page in files.documentation_pages())):
        if path.endswith(AS_THEY_ARE):
            files.append(File.generated(config, in_site(path), abs_src_path=str(ROOT / path)))
        else:
            language = Path(path).suffix.removeprefix(".")
            text = f"# {path}\n\n````{language}\n{(ROOT / path).read_text()}````\n"
            files.append(File.generated(config, in_site(path), content=text))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    here = from_site(page.file.src_uri)

    def follow(link: re.Match[str]) -> str:
        path = in_repository(here, link[1])
        if path is None:
            return link[0]
        return f"]({posixpath.relpath(in_site(path), posixpath.dirname(page.file.src_uri) or '.')}{link[2] or ''})"

    return LINK.sub(follow, markdown)
