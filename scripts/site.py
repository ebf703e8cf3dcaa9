#!/usr/bin/env python3
"""Lays out the documents for mdBook: site.py OUT

mdBook wants all pages in one folder. The pages of docs/SUMMARY.md go to OUT/src, those from outside of docs/ under a name of
their own, with links rewritten. Files that a page links to are copied beside them.
"""

import os
import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
LINK = re.compile(r"(\]\()([^)\s#]+)([#)\s])")


def main():
    out = Path(sys.argv[1])
    src = out / "src"
    shutil.rmtree(src, ignore_errors=True)
    src.mkdir(parents=True)
    summary = DOCS / "SUMMARY.md"
    listed = [(DOCS / link).resolve() for _, link, _ in LINK.findall(summary.read_text())]
    pages = {page: name_of(page) for page in listed}
    names = pages | {summary: "introduction.md"}
    copied = set()

    def rewritten(page):
        def target(match):
            before, link, after = match.groups()
            if "://" in link:
                return match.group()
            path = (page.parent / link).resolve()
            if path not in names:
                copied.add(path)
            return before + names.get(path, os.path.relpath(path, DOCS if path.is_relative_to(DOCS) else ROOT)) + after

        return LINK.sub(target, page.read_text())

    for page, name in pages.items():
        (src / name).write_text(rewritten(page))
    (src / "SUMMARY.md").write_text(rewritten(summary))
    for path in copied:
        place = src / os.path.relpath(path, DOCS if path.is_relative_to(DOCS) else ROOT)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, place)
    shutil.copy(ROOT / "book.toml", out)
    shutil.copy(DOCS / "site.css", out)


def name_of(page):
    """The name of a page on the site: mdBook gives README.md and index.md meanings of their own."""
    if page == ROOT / "README.md":
        return "introduction.md"
    if page.name == "README.md":
        return page.parent.name + "-readme.md"
    if page.parent != DOCS and page.is_relative_to(DOCS):
        return f"{page.parent.name}-{page.name}"
    return page.name


if __name__ == "__main__":
    main()
