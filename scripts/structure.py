#!/usr/bin/env python3
"""Draws the structure of the workspace: crates by house, and the circles of files inside each crate.

The arrows between crates come from `cargo metadata`, those between files from their `use` lines and paths. A name that a
module re-exports leads to the file that defines it. Tests and the re-exports themselves draw no arrows.

    scripts/structure.py              # both lists
    scripts/structure.py --check 2    # exit code 1 if the product depends on the laboratory, or a circle has more files
    scripts/structure.py --dot        # the crates as a Graphviz file
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

# Python's package is both: the laboratory for research, and sessions.
BOTH = "squall-python"

ROOT = Path(__file__).resolve().parent.parent
TESTS = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{")
INNER = re.compile(r"^(?:pub.*? )?mod \w+ \{.*?^\}", re.MULTILINE | re.DOTALL)
REEXPORT = re.compile(r"\bpub(?:\([^)]*\))? use ([^;]*;)")


def packages():
    """Each crate of the workspace: its house, its folder and the crates of the workspace that it depends on."""
    said = subprocess.run(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT, capture_output=True, check=True)
    listed = json.loads(said.stdout)["packages"]
    names = {package["name"] for package in listed}
    found = {}
    for package in listed:
        folder = Path(package["manifest_path"]).parent
        uses = {used["name"] for used in package["dependencies"] if used["kind"] != "dev"} & names
        found[package["name"]] = {"house": folder.relative_to(ROOT).parts[0], "folder": folder, "uses": sorted(uses)}
    return found


def module_of(file, source):
    """The module path of a file: `a/b.rs` and `a/b/mod.rs` are a::b."""
    parts = list(file.relative_to(source).with_suffix("").parts)
    if parts[-1] in ("mod", "lib", "main"):
        parts.pop()
    return tuple(parts)


def without_tests(text):
    """The text without comments and the module of tests at its end; `super` of a module within a file is the file."""
    text = TESTS.split(re.sub(r"//[^\n]*", "", text))[0]
    return INNER.sub(lambda inner: re.sub(r"\bsuper::(?!super)", "self::", inner[0]), text)


def flatten(text, at):
    """The paths in the braces that begin before `at`, one level after the other."""
    depth, start, paths, prefix = 1, at, [], []
    while depth and at < len(text):
        letter = text[at]
        if letter in "{},":
            word = text[start:at].strip().removesuffix("::")
            if letter == "{":
                prefix.append(word)
                depth += 1
            else:
                if word:
                    paths.append("::".join([*prefix, word]))
                if letter == "}":
                    depth -= 1
                    if prefix:
                        prefix.pop()
            start = at + 1
        at += 1
    return paths


def used_paths(text, module, children):
    """The module paths, from the root of the crate, that a text of a module with these children names."""
    first = "|".join(["crate", "super", "self", *sorted(children)])
    for match in re.finditer(rf"(?<![\w:])({first})((?:::super)*)::(\{{|[A-Za-z_][\w:]*(?:::\{{)?)", text):
        first, more, rest = match.groups()
        base = {"crate": (), "self": module, "super": module[:-1]}.get(first, (*module, first))
        for _ in range(more.count("super")):
            base = base[:-1]
        if rest.endswith("{"):
            head = rest.removesuffix("{").removesuffix("::")
            for path in flatten(text, match.end()):
                yield base + tuple(part for part in f"{head}::{path}".split("::") if part)
        else:
            yield base + tuple(rest.split("::"))


def arrows(folder):
    """Which file of a crate names something of which other."""
    source = folder / "src"
    files = {module_of(file, source): file for file in sorted(source.rglob("*.rs")) if file.name != "tests.rs"}
    texts = {module: without_tests(file.read_text()) for module, file in files.items()}
    children = {module: {other[-1] for other in files if other and other[:-1] == module} for module in files}
    # For each module the names that it re-exports, with their paths.
    shown = {module: {} for module in files}
    for module, text in texts.items():
        for *place, name in used_paths(" ".join(REEXPORT.findall(text)), module, children[module]):
            name, _, other = name.partition(" as ")
            shown[module][other or name] = (*place, name)

    def target(path, steps=9):
        """The file in which a path ends; the root if it names no other."""
        file = path
        while file and file not in files:
            file = file[:-1]
        stands_for = shown.get(file, {}).get(path[len(file)] if path != file else None)
        return target(stands_for, steps - 1) if stands_for and steps else file

    found = {}
    for module, text in texts.items():
        used = {target(path) for path in used_paths(REEXPORT.sub("", text), module, children[module])}
        found[module] = used & files.keys() - {module, ()}
    return found


def circles(graph):
    """The strongly connected parts of more than one file (Tarjan 1972)."""
    order, low, stack, parts = {}, {}, [], []

    def visit(node):
        order[node] = low[node] = len(order)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in order:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], order[other])
        if low[node] == order[node]:
            at = stack.index(node)
            if len(stack) - at > 1:
                parts.append(sorted(stack[at:]))
            del stack[at:]

    sys.setrecursionlimit(10_000)
    for node in sorted(graph):
        if node not in order:
            visit(node)
    return parts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", type=int, metavar="FILES", help="most files of a circle")
    parser.add_argument("--dot", action="store_true", help="the crates, for Graphviz")
    options = parser.parse_args()
    crates = packages()
    wrong = []
    if options.dot:
        print("digraph squall {")
    for name, crate in sorted(crates.items(), key=lambda item: (item[1]["house"], item[0])):
        if options.dot:
            print(f'  "{name}" [group="{crate["house"]}"];')
            print("".join(f'  "{name}" -> "{used}";\n' for used in crate["uses"]), end="")
        else:
            print(f'{crate["house"]:9} {name:16} -> {", ".join(crate["uses"]) or "nothing"}')
        if crate["house"] != "lab" and name != BOTH:
            wrong += [f"{name} depends on {used}, of the laboratory" for used in crate["uses"] if crates[used]["house"] == "lab"]
    if options.dot:
        print("}")
        return 0
    print()
    for name, crate in sorted(crates.items()):
        for part in circles(arrows(crate["folder"])):
            files = ", ".join("::".join(module) for module in part)
            print(f"{name}: a circle of {len(part)}: {files}")
            if options.check is not None and len(part) > options.check:
                wrong.append(f"{name}: a circle of {len(part)} files")
    for line in wrong if options.check is not None else []:
        print(line, file=sys.stderr)
    return 1 if wrong and options.check is not None else 0


if __name__ == "__main__":
    sys.exit(main())
