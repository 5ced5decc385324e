"""What is installed for Claude Code: skills, commands, agents, instruction files, memory, MCP servers, plugins.

Sizes follow the client's own rules of what is listed. They are upper bounds: of a listing that is longer than the
client's budget the client drops descriptions, those of the least used skills first.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatch
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipeline.client import Home, repo_root
from pipeline.config import (
    ConfigFiles,
    Found,
    Text,
    first_paragraph,
    is_yes,
    mapping,
    relative,
    split_front,
    texts,
    upward,
    words,
)

VARIABLES = ("CLAUDE_CONFIG_DIR", "XDG_CONFIG_HOME", "CLAUDE_CODE_DISABLE_AUTO_MEMORY")
LONGEST_DESCRIPTION = 1536  # characters of a skill's description in the listing
IMPORT_HOPS = 4
MEMORY_LINES, MEMORY_BYTES = 200, 25 * 1024
_MOST_IMPORTS = 200  # of one instruction file
_NOT_LISTED = {"off", "user-invocable-only"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where items are looked for, and for whom."""

    scope: str
    project: str | None = None
    prefix: str = ""  # of the names of a plugin's items


@dataclass(slots=True)
class Settings:
    """What the settings files that hold in one place say."""

    disabled_servers: set[str] = field(default_factory=set)
    overrides: dict[str, str] = field(default_factory=dict)
    excludes: list[str] = field(default_factory=list)
    description_chars: int = LONGEST_DESCRIPTION
    has_memory: bool = True

    def with_file(self, settings: Mapping[str, Any]) -> Settings:
        """These settings, with those of a file that goes before them."""
        longest = settings.get("skillListingMaxDescChars")
        overrides = {name: str(value) for name, value in mapping(settings.get("skillOverrides")).items()}
        return Settings(
            self.disabled_servers | set(texts(settings.get("disabledMcpjsonServers"))),
            self.overrides | overrides,
            self.excludes + texts(settings.get("claudeMdExcludes")),
            longest if isinstance(longest, int) and longest > 0 else self.description_chars,
            self.has_memory and settings.get("autoMemoryEnabled") is not False,
        )


def read(home: Home, roots: list[Path], projects: Iterable[str], config: ConfigFiles) -> Iterator[Found]:
    """Yield what is installed below the configuration roots, for the projects, by plugins, and by administrators."""
    user = Settings(has_memory=not is_yes(home.environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY")))
    user.has_memory = user.has_memory and home.environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY") != "1"
    for folder in managed_folders(home):
        yield from _managed(folder, user, home, config)
    named = bool(home.environ.get("CLAUDE_CONFIG_DIR"))
    folders = [str(root) for root in roots if config.is_dir(str(root))]
    for root in map(str, roots) if named else ():
        if root not in folders:
            config.warn(f"CLAUDE_CONFIG_DIR: there is no folder {root}")
    for folder in folders:
        user = yield from _root(folder, user, home, config)
    # The client's state lies beside its folder, and inside it where the folder was named.
    files = [os.path.join(folder, ".claude.json") for folder in folders] if named else [str(home.path / ".claude.json")]
    states = {file: config.json(file) for file in files}
    for file, state in states.items():
        yield from _servers(file, state.get("mcpServers"), Place("user"), set(), config)
    for project in projects:
        entries = {file: mapping(mapping(state.get("projects")).get(project)) for file, state in states.items()}
        yield from _project(project, folders, user, entries, home, config)


def managed_folders(home: Home) -> list[str]:
    """Where administrators put what holds for all; none of this machine's for a home that was named by --home."""
    if not home.environ:
        return []
    if sys.platform == "darwin":
        return ["/Library/Application Support/ClaudeCode"]
    return [r"C:\Program Files\ClaudeCode"] if sys.platform == "win32" else ["/etc/claude-code"]


def _managed(folder: str, settings: Settings, home: Home, config: ConfigFiles) -> Iterator[Found]:
    place = Place("managed")
    if not config.is_dir(folder):
        return
    config.roots.add(folder)
    own = settings.with_file(config.json(os.path.join(folder, "managed-settings.json")))
    yield from _instructions(os.path.join(folder, "CLAUDE.md"), place, own, home, config)
    yield from _definitions(os.path.join(folder, ".claude"), place, own, config)
    servers = os.path.join(folder, "managed-mcp.json")
    yield from _servers(servers, config.json(servers).get("mcpServers"), place, set(), config)


def _root(root: str, base: Settings, home: Home, config: ConfigFiles) -> Generator[Found, None, Settings]:
    """What holds for the person in every project; returns the settings with which projects begin."""
    config.roots.add(root)
    place = Place("user")
    file = os.path.join(root, "settings.json")
    said = config.json(file)
    settings = base.with_file(said)
    yield from _instructions(os.path.join(root, "CLAUDE.md"), place, settings, home, config)
    yield from _rules(os.path.join(root, "rules"), place, settings, home, config)
    yield from _definitions(root, place, settings, config)
    yield from _plugins([root], file, said, place, settings, config)
    yield from _servers(file, said.get("mcpServers"), place, set(), config)
    return settings


def _project(
    project: str,
    roots: list[str],
    user: Settings,
    entries: Mapping[str, Mapping[str, Any]],
    home: Home,
    config: ConfigFiles,
) -> Iterator[Found]:
    """What holds in a project: its own, and what the folders above it hold. `entries`: what the state says of it."""
    own = {os.path.realpath(root) for root in roots}  # the home directory may be a project
    settings = user
    place = Place("project", project)
    for name in ("settings.json", "settings.local.json") if not _is_one(project, own) else ():
        file = os.path.join(project, ".claude", name)
        said = config.json(file)
        settings = settings.with_file(said)
        yield from _plugins(roots, file, said, place, settings, config)
    off = {name for entry in entries.values() for name in texts(entry.get("disabledMcpServers"))}
    unwanted = {name for entry in entries.values() for name in texts(entry.get("disabledMcpjsonServers"))}
    servers = os.path.join(project, ".mcp.json")
    disabled = off | unwanted | settings.disabled_servers
    yield from _servers(servers, config.json(servers).get("mcpServers"), place, disabled, config)
    for file, entry in entries.items():
        yield from _servers(file, entry.get("mcpServers"), place, off, config)
    may_import = any(is_yes(entry.get("hasClaudeMdExternalIncludesApproved")) for entry in entries.values())
    within = None if may_import else project
    for folder in upward(project):
        here = Place("project", folder)
        for name in ("CLAUDE.md", *([] if _is_one(folder, own) else [".claude/CLAUDE.md"]), "CLAUDE.local.md"):
            yield from _instructions(os.path.join(folder, name), here, settings, home, config, within)
    top = repo_root(project) or project
    for folder in upward(project, top):
        if not _is_one(folder, own):
            inner = os.path.join(folder, ".claude")
            config.roots.add(inner)
            here = Place("project", folder)
            yield from _rules(os.path.join(inner, "rules"), here, settings, home, config)
            yield from _definitions(inner, here, settings, config)
    for root in roots if settings.has_memory else ():
        yield from _memory(root, top, config)


def _is_one(folder: str, own: set[str]) -> bool:
    """Does a folder hold the person's own configuration, not a project's?"""
    return os.path.realpath(os.path.join(folder, ".claude")) in own


# --- skills, commands, agents ----------------------------------------------------------------------------------------


def _definitions(folder: str, place: Place, settings: Settings, config: ConfigFiles) -> Iterator[Found]:
    for skill in config.subfolders(os.path.join(folder, "skills")):
        yield from _skill(skill, place, settings, config)
        if os.path.basename(skill) == "synced":
            for below in config.subfolders(skill):
                yield from _skill(below, place, settings, config)
    commands = os.path.join(folder, "commands")
    for path in config.tree(commands, _is_markdown):
        name = relative(path, commands).removesuffix(".md").replace(os.sep, ":")
        if text := config.text(path):
            yield _listed("command", name, text, place, settings, config)
    for path in config.tree(os.path.join(folder, "agents"), _is_markdown):
        if text := config.text(path):
            yield _agent(text, place, config)


def _is_markdown(name: str) -> bool:
    return name.endswith(".md")


def _skill(folder: str, place: Place, settings: Settings, config: ConfigFiles) -> Iterator[Found]:
    if text := config.text(os.path.join(folder, "SKILL.md")):
        yield _listed("skill", os.path.basename(folder), text, place, settings, config)


def _listed(kind: str, name: str, text: Text, place: Place, settings: Settings, config: ConfigFiles) -> Found:
    """A skill or command: its entry `- name: description` in the listing, and its body."""
    front, body = config.front(text)
    own_name = words(front.get("name")) if front and kind == "skill" else None
    full = place.prefix + (own_name or name)
    entry: str | None = None
    override = settings.overrides.get(full, "on")
    if override in _NOT_LISTED or (front and is_yes(front.get("disable-model-invocation"))):
        entry = ""
    elif override == "name-only":
        entry = f"- {full}"
    elif front is not None:
        said = words(front.get("description")) or (first_paragraph(body) if text.is_whole else None) or ""
        when = words(front.get("when_to_use")) or words(front.get("when-to-use"))
        said = _cut(f"{said} - {when}" if when else said, settings.description_chars)
        if said or text.is_whole:
            entry = f"- {full}: {said}" if said else f"- {full}"
    size = len(body) if text.is_whole else None
    return _found(kind, full, place, text, entry, size, config)


def _cut(description: str, longest: int) -> str:
    """A description as the client lists it: one that is too long ends in an ellipsis, and has so many characters."""
    return description if len(description) <= longest else description[: longest - 1] + "\u2026"


def _agent(text: Text, place: Place, config: ConfigFiles) -> Found:
    """A subagent: its entry `- name: description (Tools: ...)`; its body is in the context of the subagent alone."""
    front, body = config.front(text)
    name = (words(front.get("name")) if front else None) or os.path.basename(text.path).removesuffix(".md")
    full = place.prefix + name
    entry = None
    if front is not None:
        tools = texts(front.get("tools"))
        entry = f"- {full}: {words(front.get('description')) or ''} (Tools: {', '.join(tools) or '*'})"
    return _found("agent", full, place, text, entry, len(body) if text.is_whole else None, config)


def _found(
    kind: str, name: str, place: Place, text: Text, baseline: str | None, body: int | None, config: ConfigFiles
) -> Found:
    """An item of a file; `baseline` is the text of it that is always in the context, None where it is not known."""
    size = None if baseline is None else len(baseline)
    digest = config.show(baseline)
    return Found(kind, name, place.scope, text.path, text.mtime_ns, place.project, size, body, text.sha256, digest)


# --- instruction files -----------------------------------------------------------------------------------------------


def _rules(folder: str, place: Place, settings: Settings, home: Home, config: ConfigFiles) -> Iterator[Found]:
    """Rules that always hold. One with `paths` is loaded when such a file is touched; the transcript shows that."""
    for path in config.tree(folder, _is_markdown):
        text = config.text(path)
        if text is None:
            continue
        front, _ = config.front(text)
        if not (front and front.get("paths")):
            yield from _instructions(path, place, settings, home, config)


def _instructions(
    path: str, place: Place, settings: Settings, home: Home, config: ConfigFiles, within: str | None = None
) -> Iterator[Found]:
    """An instruction file and what it imports; with `within`, only imports from below that folder."""
    pending = [(path, 0)]
    seen: set[str] = set()
    while pending and len(seen) < _MOST_IMPORTS:
        at, hops = pending.pop(0)
        real = os.path.realpath(at)
        if real in seen or any(fnmatch(at, pattern) for pattern in settings.excludes):
            continue
        seen.add(real)
        text = config.text(at)
        if text is None:
            continue
        _, body = split_front(text.text)
        plain = _without_comments(body)
        name = relative(at, place.project) if place.project else at
        yield _found("instruction", name, place, text, plain if text.is_whole else None, None, config)
        if hops < IMPORT_HOPS:
            for target in imports(plain):
                found = _import(target, at, home, config)
                if found and (within is None or relative(found, within) != found):
                    pending.append((found, hops + 1))


_FENCE = re.compile(r"^ {0,3}(```+|~~~+).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_SPAN = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)")
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:\\ |[^\s\\@])+)")
_COMMENT = re.compile(r"^[ \t]*<!--.*?-->[ \t]*\n?", re.DOTALL | re.MULTILINE)


def imports(text: str) -> list[str]:
    """The paths that a file imports by `@path`, outside code."""
    plain = "\n".join(_SPAN.sub("", line) for line in _FENCE.sub("", text).splitlines())
    return [found.replace("\\ ", " ") for found in _IMPORT.findall(plain)]


def _import(target: str, importer: str, home: Home, config: ConfigFiles) -> str | None:
    """The file that an import means. Much that begins with @ is none."""
    for name in (target, target.rstrip(".,;:!?)")):
        if name.startswith("~/"):
            path = str(home.path / name[2:])
        else:
            path = os.path.normpath(os.path.join(os.path.dirname(importer), name))
        if "\0" not in path and config.text(path) is not None:
            return path
    return None


def _without_comments(text: str) -> str:
    """A text without its comments in HTML, which the client does not send; those in code stay."""
    parts, position = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_COMMENT.sub("", text[position : fence.start()]), fence[0]]
        position = fence.end()
    return "".join((*parts, _COMMENT.sub("", text[position:])))


def _memory(root: str, project: str, config: ConfigFiles) -> Iterator[Found]:
    """What of the client's own notes on a project is loaded when a session begins."""
    text = config.text(os.path.join(root, "projects", slug(project), "memory", "MEMORY.md"))
    if text is None:
        return
    sent = "".join(text.text.splitlines(keepends=True)[:MEMORY_LINES])
    sent = sent.encode("utf-8", "replace")[:MEMORY_BYTES].decode("utf-8", "ignore")
    yield _found("memory", text.path, Place("project", project), text, sent, None, config)


@lru_cache(maxsize=4096)
def slug(project: str) -> str:
    """The name of a project's folder below the client's root."""
    return re.sub(r"[^A-Za-z0-9]", "-", project)


# --- servers and plugins ---------------------------------------------------------------------------------------------


def _servers(path: str, servers: object, place: Place, disabled: set[str], config: ConfigFiles) -> Iterator[Found]:
    """The MCP servers that a file names. Their tools, and the size of these, are in no file."""
    for name in mapping(servers):
        if name not in disabled:
            item = re.sub(r"[^A-Za-z0-9_-]", "_", place.prefix + name)  # as the names of its tools bear it
            yield Found("mcp_server", item, place.scope, path, config.mtime_ns(path), place.project)


def _plugins(
    roots: list[str],
    settings_file: str,
    settings_here: Mapping[str, Any],
    place: Place,
    settings: Settings,
    config: ConfigFiles,
) -> Iterator[Found]:
    """The plugins that a file of settings enables, and what they bring."""
    for full, value in mapping(settings_here.get("enabledPlugins")).items():
        name, _, market = full.partition("@")
        if not value or not all(re.fullmatch(r"[\w.+ -]+", part) and part.strip(".") for part in (name, market)):
            continue
        mtime = config.mtime_ns(settings_file)
        yield Found("plugin", full, place.scope, settings_file, mtime, place.project, baseline_chars=0)
        folder = next(filter(None, (_plugin_folder(root, name, market, full, config) for root in roots)), None)
        if folder is None:
            config.warn(f"{settings_file}: the plugin {full} is enabled and not installed")
            continue
        inside = Place("plugin", place.project, f"{name}:")
        yield from _definitions(folder, inside, settings, config)
        servers = os.path.join(folder, ".mcp.json")
        named = config.json(servers)
        inside = Place("plugin", place.project, f"plugin_{name}_")
        yield from _servers(servers, named.get("mcpServers", named), inside, set(), config)


def _plugin_folder(root: str, name: str, market: str, full: str, config: ConfigFiles) -> str | None:
    """Where a plugin is installed: as the client notes it, else the newest version in its cache."""
    plugins = os.path.join(root, "plugins")
    config.roots.add(plugins)
    noted = mapping(config.json(os.path.join(plugins, "installed_plugins.json")).get("plugins")).get(full)
    for entry in noted if isinstance(noted, list) else [noted]:
        path = mapping(entry).get("installPath")
        if isinstance(path, str) and os.path.isabs(path) and config.is_dir(path):
            return path
    versions = list(config.subfolders(os.path.join(plugins, "cache", market, name)))
    return max(versions, key=lambda path: (config.mtime_ns(path), path), default=None)
