"""What is installed for Codex: skills, AGENTS.md files, agents, MCP servers.

Sizes follow the client's own rules of what is listed. They are upper bounds: of a listing that is longer than the
client's budget descriptions are shortened, then skills dropped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeline.client import Home
from pipeline.config import ConfigFiles, Found, Text, is_yes, mapping, parse_yaml, relative, texts, upward, words

VARIABLES = ("CODEX_HOME",)
LONGEST_DESCRIPTION = 1024  # characters of a skill's description in the listing
PROJECT_DOC_BYTES = 32_768  # of all AGENTS.md files of a project together
_SYSTEM = "/etc/codex"


def read(home: Home, roots: list[Path], projects: Iterable[str], config: ConfigFiles) -> Iterator[Found]:
    """Yield what is installed below the configuration roots, for the projects, and for all users of the machine."""
    for root in map(str, roots):
        if home.environ.get("CODEX_HOME") and not config.is_dir(root):
            config.warn(f"CODEX_HOME: there is no folder {root}")
            continue
        config.roots.add(root)
        settings = config.toml(os.path.join(root, "config.toml"))
        disabled = _disabled_skills(settings)
        yield from _global_instructions(root, config)
        yield from _skills(os.path.join(root, "skills"), "user", None, disabled, config)
        yield from _agents(os.path.join(root, "agents"), "user", None, config)
        yield from _servers(os.path.join(root, "config.toml"), settings, "user", None, config)
        yield from _skills(str(home.path / ".agents" / "skills"), "user", None, disabled, config)
        if home.environ:  # a home that was named by --home is not this machine's
            yield from _skills(os.path.join(_SYSTEM, "skills"), "managed", None, disabled, config)
        for project in projects:
            yield from _project(project, root, settings, disabled, config)


def _project(
    project: str, root: str, settings: Mapping[str, Any], disabled: set[str], config: ConfigFiles
) -> Iterator[Found]:
    """What holds in a project: of each directory from the root of its repository down to it."""
    chain = upward(project, _project_root(project, settings, config))
    yield from _project_instructions(chain, settings, config)
    trust = mapping(mapping(settings.get("projects")).get(project)).get("trust_level")
    for folder in chain:
        inner = os.path.join(folder, ".codex")
        yield from _skills(os.path.join(folder, ".agents", "skills"), "project", folder, disabled, config)
        if os.path.realpath(inner) == os.path.realpath(root):
            continue  # the home directory as a project
        config.roots.update((inner, os.path.join(folder, ".agents")))
        yield from _skills(os.path.join(inner, "skills"), "project", folder, disabled, config)
        yield from _agents(os.path.join(inner, "agents"), "project", folder, config)
        if trust == "trusted":
            own = os.path.join(inner, "config.toml")
            yield from _servers(own, config.toml(own), "project", folder, config)


def _project_root(project: str, settings: Mapping[str, Any], config: ConfigFiles) -> str:
    """The nearest directory at or above a project that holds a marker of a root; the project itself if none does."""
    given = settings.get("project_root_markers")
    markers = texts(given) if isinstance(given, list) else [".git"]
    for folder in reversed(upward(project)):
        for marker in markers:
            path = os.path.join(folder, marker)
            if os.path.lexists(path):
                return folder
            config.seen[path] = "-"
    return project


# --- instruction files -----------------------------------------------------------------------------------------------


def _global_instructions(root: str, config: ConfigFiles) -> Iterator[Found]:
    for name in ("AGENTS.override.md", "AGENTS.md"):
        text = config.text(os.path.join(root, name))
        if text and text.text.strip():
            yield _instruction(text, "user", None, text.text if text.is_whole else None, config)
            return


def _project_instructions(chain: list[str], settings: Mapping[str, Any], config: ConfigFiles) -> Iterator[Found]:
    """One file a directory, until their bytes reach the limit: the file that crosses it is cut."""
    limit = settings.get("project_doc_max_bytes")
    left = limit if isinstance(limit, int) and limit >= 0 else PROJECT_DOC_BYTES
    names = ("AGENTS.override.md", "AGENTS.md", *texts(settings.get("project_doc_fallback_filenames")))
    for folder in chain:
        for name in names:
            text = config.text(os.path.join(folder, name))
            if text is None:
                continue
            data = text.text.encode("utf-8", "replace")
            sent = data[:left].decode("utf-8", "ignore")
            left -= min(left, len(data))
            if sent.strip():
                is_known = text.is_whole or len(sent) < len(text.text)
                yield _instruction(text, "project", folder, sent if is_known else None, config)
            break


def _instruction(text: Text, scope: str, project: str | None, sent: str | None, config: ConfigFiles) -> Found:
    name = relative(text.path, project) if project else text.path
    return _found("instruction", name, scope, project, text, sent, None, config)


def _found(
    kind: str,
    name: str,
    scope: str,
    project: str | None,
    text: Text,
    baseline: str | None,
    body: int | None,
    config: ConfigFiles,
) -> Found:
    """An item of a file; `baseline` is the text of it that is always in the context, None where it is not known."""
    size = None if baseline is None else len(baseline)
    return Found(kind, name, scope, text.path, text.mtime_ns, project, size, body, text.sha256, config.show(baseline))


# --- skills, agents, servers -----------------------------------------------------------------------------------------


def _disabled_skills(settings: Mapping[str, Any]) -> set[str]:
    """The skills, or their SKILL.md files, that the settings turn off."""
    entries = mapping(settings.get("skills")).get("config")
    found = [mapping(entry) for entry in entries] if isinstance(entries, list) else []
    paths = {words(entry.get("path")) for entry in found if entry.get("enabled") is False}
    return {os.path.normpath(os.path.expanduser(path)) for path in paths if path}


def _skills(folder: str, scope: str, project: str | None, disabled: set[str], config: ConfigFiles) -> Iterator[Found]:
    for path in config.tree(folder, lambda name: name == "SKILL.md"):
        text = config.text(path)
        if text is None or not disabled.isdisjoint((path, os.path.dirname(path))):
            continue
        bundled = relative(path, folder).startswith(".system" + os.sep)
        yield _skill(text, "builtin" if bundled else scope, project, config)


def _skill(text: Text, scope: str, project: str | None, config: ConfigFiles) -> Found:
    """A skill: its entry `- name: description (file: path)`; a load brings the whole file."""
    front, _ = config.front(text)
    folder = os.path.dirname(text.path)
    name = (words(front.get("name")) if front else None) or os.path.basename(folder)
    said = words(front.get("description")) if front else None
    entry = f"- {name}: {said[:LONGEST_DESCRIPTION]} (file: {text.path})" if said else None
    if not _may_be_listed(folder, config):
        entry = ""
    elif front is not None and said is None:
        config.warn(f"{text.path}: it has no description")
    size = len(text.text) if text.is_whole else None
    return _found("skill", name, scope, project, text, entry, size, config)


def _may_be_listed(folder: str, config: ConfigFiles) -> bool:
    path = os.path.join(folder, "agents", "openai.yaml")
    text = config.text(path)
    if text is None:
        return True
    try:
        policy = mapping(parse_yaml(text.text).get("policy"))
    except ValueError as error:
        config.warn(f"{path}: not readable as YAML: {error}")
        return True
    return is_yes(policy.get("allow_implicit_invocation", "true"))


def _agents(folder: str, scope: str, project: str | None, config: ConfigFiles) -> Iterator[Found]:
    """Agents: name and description are in the definition of the tool that starts one."""
    for path in config.tree(folder, lambda name: name.endswith(".toml")):
        text = config.text(path)
        if text is None:
            continue
        role = config.toml(path)
        name = words(role.get("name")) or os.path.basename(path).removesuffix(".toml")
        said = words(role.get("description"))
        instructions = role.get("developer_instructions")
        entry = f"- {name}: {said}" if said else None
        body = len(instructions) if isinstance(instructions, str) else None if role else len(text.text)
        yield _found("agent", name, scope, project, text, entry, body, config)


def _servers(
    path: str, settings: Mapping[str, Any], scope: str, project: str | None, config: ConfigFiles
) -> Iterator[Found]:
    """The MCP servers that are not turned off. Their tools, and the size of these, are in no file."""
    for name, server in mapping(settings.get("mcp_servers")).items():
        if mapping(server).get("enabled") is not False:
            yield Found("mcp_server", name, scope, path, config.mtime_ns(path), project)
