"""What is installed, as the readers of the clients' configuration find it in a home."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pipeline import clients
from pipeline.claude_context import listing_entries
from pipeline.claude_items import imports, slug
from pipeline.client import Home, sha256
from pipeline.config import ConfigFiles, Found, ReadsItems, fingerprint, split_front


def put(path: Path, text: str = "") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def at_paths(found: dict[tuple[str, str], Found]) -> dict[str, tuple[str | None, int | None]]:
    return {item.path: (item.project, item.baseline_chars) for item in found.values()}


def read(
    client: str, home: Path, *projects: Path, environ: dict[str, str] | None = None
) -> tuple[dict[tuple[str, str], Found], ConfigFiles]:
    reader = clients.load(client)
    assert isinstance(reader, ReadsItems)
    config = ConfigFiles()
    found = list(reader.items(Home(home, environ or {}), [str(project) for project in projects], config))
    return {(item.item_kind, item.item): item for item in found}, config


def carried(client: str, home: Path, *projects: Path) -> dict[tuple[str, str], str | None]:
    """The texts that the items put into the context, as they are shown to who asks for them by their hash."""
    found, _ = read(client, home, *projects)
    reader = clients.load(client)
    assert isinstance(reader, ReadsItems)
    asked: dict[str, str | None] = {item.baseline_sha256: None for item in found.values() if item.baseline_sha256}
    for _ in reader.items(Home(home, {}), [str(project) for project in projects], ConfigFiles(texts=asked)):
        pass
    shown = {key: asked.get(item.baseline_sha256 or "") for key, item in found.items()}
    for key, text in shown.items():
        item = found[key]
        assert item.baseline_sha256 == (sha256(text) if text else None)
        assert item.baseline_chars == len(text or "") or (item.baseline_chars, text) == (None, None)
    return shown


def sizes(found: dict[tuple[str, str], Found]) -> dict[tuple[str, str], tuple[int | None, int | None]]:
    return {key: (item.baseline_chars, item.body_chars) for key, item in found.items()}


def skill(folder: Path, front: str, body: str = "Do it.\n") -> Path:
    return put(folder / "SKILL.md", f"---\n{front}\n---\n{body}")


# --- Claude Code -----------------------------------------------------------------------------------------------------


def test_skills_and_commands_of_the_person(home: Path) -> None:
    skills = home / ".claude" / "skills"
    skill(skills / "pdf", "name: pdf\ndescription: Reads PDFs")
    skill(skills / "when", "description: Reads\nwhen_to_use: always")
    skill(skills / "silent", "description: no\ndisable-model-invocation: true")
    skill(skills / "long", f"description: {'x' * 2000}")
    skill(skills / "bare", "version: 1", "# Title\n\nFirst words\nof it.\n\nMore.\n")
    skill(skills / "colon", "name: colon\ndescription: Reviews: all of them")
    put(home / ".claude" / "commands" / "git" / "push.md", "Push it.\n")
    found, config = read("claude-code", home)
    assert sizes(found) == {
        ("skill", "pdf"): (len("- pdf: Reads PDFs"), 7),
        ("skill", "when"): (len("- when: Reads - always"), 7),
        ("skill", "silent"): (0, 7),
        ("skill", "long"): (len("- long: ") + 1536, 7),
        ("skill", "bare"): (len("- bare: First words of it."), 35),
        ("skill", "colon"): (len("- colon: Reviews: all of them"), 7),
        ("command", "git:push"): (len("- git:push: Push it."), 9),
    }
    assert not config.warnings
    assert {item.scope for item in found.values()} == {"user"}


def test_the_entry_of_a_skill_is_the_text_that_a_transcript_lists(home: Path) -> None:
    """As it is cut out of a listing: so the two have one hash, and one count."""
    skills = home / ".claude" / "skills"
    skill(skills / "pdf", "description: Reads PDFs")
    skill(skills / "lines", "description: |\n  First: this.\n  - then that\nwhen_to_use: always")
    skill(skills / "long", f"description: {'x' * 2000}")
    skill(skills / "silent", "description: no\ndisable-model-invocation: true")
    skill(skills / "none", "version: 1", "")
    put(home / ".claude" / "commands" / "git" / "push.md", "Push it.\n")
    shown = carried("claude-code", home)
    listed = [
        ("git:push", "- git:push: Push it."),
        ("lines", "- lines: First: this.\n- then that - always"),
        ("long", f"- long: {'x' * 1535}\u2026"),
        ("none", "- none"),
        ("pdf", "- pdf: Reads PDFs"),
    ]
    assert sorted((name, text) for (_, name), text in shown.items() if text) == listed
    assert shown["skill", "silent"] is None
    content = "\n".join(text for _, text in listed)
    assert listing_entries(content, [name for name, _ in listed], None) == listed


def test_settings_decide_what_is_listed(home: Path) -> None:
    for name in ("a", "b", "c"):
        skill(home / ".claude" / "skills" / name, "description: 0123456789")
    settings = {"skillOverrides": {"a": "off", "b": "name-only"}, "skillListingMaxDescChars": 4}
    put(home / ".claude" / "settings.json", json.dumps(settings))
    found, _ = read("claude-code", home)
    assert [found["skill", name].baseline_chars for name in "abc"] == [0, len("- b"), len("- c: 0123")]


def test_agents(home: Path) -> None:
    put(home / ".claude/agents/rev.md", "---\nname: rev\ndescription: reviews\ntools: Read, Grep\n---\nBe strict.\n")
    found, _ = read("claude-code", home)
    assert sizes(found) == {("agent", "rev"): (len("- rev: reviews (Tools: Read, Grep)"), 11)}


def test_imports_of_instruction_files(home: Path) -> None:
    text = "See @a.md and `@code.md`.\n```\n@fenced.md\n```\n<!-- note -->\nmail@x.md @nowhere\n"
    root = put(home / ".claude" / "CLAUDE.md", text)
    for name, following in zip("abcdef", "bcdefa", strict=True):
        put(root.parent / f"{name}.md", f"@{following}.md")
    put(root.parent / "code.md")
    put(root.parent / "fenced.md")
    found, _ = read("claude-code", home)
    imported = {str(root.parent / f"{name}.md"): (None, 5) for name in "abcd"}  # four hops
    assert at_paths(found) == {str(root): (None, len(text) - len("<!-- note -->\n")), **imported}


def test_the_text_of_an_instruction_file_is_what_is_sent_of_it(home: Path) -> None:
    root = home / ".claude"
    put(root / "CLAUDE.md", "---\na: b\n---\nFirst.\n<!-- a note -->\n@more.md\n```\n<!-- code -->\n```\n")
    put(root / "more.md", "More.\r\n")
    put(root / "rules" / "empty.md", "<!-- nothing else -->\n")
    assert carried("claude-code", home) == {
        ("instruction", str(root / "CLAUDE.md")): "First.\n@more.md\n```\n<!-- code -->\n```\n",
        ("instruction", str(root / "more.md")): "More.\n",
        ("instruction", str(root / "rules" / "empty.md")): None,
    }


def test_instruction_files_of_a_project_and_above(home: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    app = work / "app"
    (work / ".git").mkdir(parents=True)
    put(app / "CLAUDE.md", "@../outside.md @inside.md")
    put(work / "outside.md", "not without approval")
    put(app / "inside.md", "yes")
    put(work / ".claude" / "CLAUDE.md", "above")
    put(app / "CLAUDE.local.md", "mine")
    put(app / ".claude" / "rules" / "style" / "py.md", "Rule.")
    put(app / ".claude" / "rules" / "late.md", "---\npaths: ['*.py']\n---\nLater.")
    found, _ = read("claude-code", home, app)
    assert at_paths(found) == {
        str(app / "CLAUDE.md"): (str(app), 25),
        str(app / "inside.md"): (str(app), 3),
        str(app / "CLAUDE.local.md"): (str(app), 4),
        str(app / ".claude/rules/style/py.md"): (str(app), 5),
        str(work / ".claude/CLAUDE.md"): (str(work), 5),
    }
    assert ("instruction", "inside.md") in found
    assert {item.scope for item in found.values()} == {"project"}
    put(home / ".claude.json", json.dumps({"projects": {str(app): {"hasClaudeMdExternalIncludesApproved": True}}}))
    found, _ = read("claude-code", home, app)
    assert str(work / "outside.md") in at_paths(found)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@a @b/c.md, (@d)", ["a", "b/c.md,"]),
        ("mail me@x.org", []),
        ("``@a`` @b", ["b"]),
        ("~~~\n@a\n~~~\n@b", ["b"]),
        ("```\n@a", []),
        ("@my\\ file.md", ["my file.md"]),
    ],
)
def test_what_is_an_import(text: str, expected: list[str]) -> None:
    assert imports(text) == expected


def test_memory_is_cut(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "my.app"
    project.mkdir()
    put(home / ".claude" / "projects" / slug(str(project)) / "memory" / "MEMORY.md", "line\n" * 300)
    found, _ = read("claude-code", home, project)
    (item,) = found.values()
    assert (item.item_kind, item.project, item.baseline_chars) == ("memory", str(project), 1000)
    assert list(carried("claude-code", home, project).values()) == ["line\n" * 200]
    put(home / ".claude" / "settings.json", '{"autoMemoryEnabled": false}')
    assert not read("claude-code", home, project)[0]


def test_servers_that_are_enabled(home: Path, tmp_path: Path) -> None:
    project = tmp_path / "app"
    servers = {"db": {"command": "x", "env": {"TOKEN": "secret"}}, "off": {"command": "y"}}
    put(project / ".mcp.json", json.dumps({"mcpServers": servers}))
    put(project / ".claude" / "settings.local.json", json.dumps({"disabledMcpjsonServers": ["off"]}))
    local: dict[str, object] = {"mcpServers": {"my server": {}}}
    put(home / ".claude.json", json.dumps({"mcpServers": {"web": {}}, "projects": {str(project): local}}))
    found, _ = read("claude-code", home, project)
    assert {key: item.project for key, item in found.items()} == {
        ("mcp_server", "web"): None,
        ("mcp_server", "db"): str(project),
        ("mcp_server", "my_server"): str(project),
    }
    assert set(sizes(found).values()) == {(None, None)}
    assert "secret" not in repr(found)


def test_plugins_that_are_enabled(home: Path) -> None:
    root = home / ".claude"
    cache = root / "plugins" / "cache" / "market"
    for name in ("on", "off"):
        skill(cache / name / "1.0" / "skills" / "review", "description: Reviews")
    put(cache / "on" / "1.0" / ".mcp.json", '{"mcpServers": {"db": {}}}')
    enabled = {"on@market": True, "off@market": False, "lost@market": True, "../../up@market": True}
    put(root / "settings.json", json.dumps({"enabledPlugins": enabled}))
    found, config = read("claude-code", home)
    assert {key: item.scope for key, item in found.items()} == {
        ("plugin", "on@market"): "user",
        ("plugin", "lost@market"): "user",
        ("skill", "on:review"): "plugin",
        ("mcp_server", "plugin_on_db"): "plugin",
    }
    assert config.warnings == [f"{root}/settings.json: the plugin lost@market is enabled and not installed"]


def test_a_variable_names_the_root(home: Path, tmp_path: Path) -> None:
    skill(home / ".claude" / "skills" / "a", "description: A")
    skill(tmp_path / "named" / "skills" / "b", "description: B")
    put(tmp_path / "named" / ".claude.json", '{"mcpServers": {"web": {}}}')
    found, config = read("claude-code", home, environ={"CLAUDE_CONFIG_DIR": f"{tmp_path}/named,{tmp_path}/missing"})
    assert {key for key in found if key[0] != "instruction"} == {("skill", "b"), ("mcp_server", "web")}
    assert config.warnings == [f"CLAUDE_CONFIG_DIR: there is no folder {tmp_path}/missing"]


def test_the_home_as_a_project_is_not_read_twice(home: Path) -> None:
    skill(home / ".claude" / "skills" / "a", "description: A")
    put(home / ".claude" / "CLAUDE.md", "mine")
    found, _ = read("claude-code", home, home)
    assert {item.scope for item in found.values()} == {"user"}


# --- Codex -----------------------------------------------------------------------------------------------------------


def test_skills_of_codex(home: Path, tmp_path: Path) -> None:
    root = home / ".codex"
    pdf = skill(root / "skills" / "pdf", "name: pdf\ndescription: Reads PDFs")
    skill(root / "skills" / ".system" / "maker", "name: maker\ndescription: Makes")
    skill(root / "skills" / "off", "name: off\ndescription: Off")
    quiet = skill(home / ".agents" / "skills" / "quiet", "name: quiet\ndescription: Quiet")
    put(quiet.parent / "agents" / "openai.yaml", "policy:\n  allow_implicit_invocation: false\n")
    app = tmp_path / "repo" / "app"
    app.mkdir(parents=True)
    (tmp_path / "repo" / ".git").mkdir()
    skill(tmp_path / "repo" / ".agents" / "skills" / "ours", f"name: ours\ndescription: {'x' * 2000}")
    put(root / "config.toml", f'[[skills.config]]\npath = "{root}/skills/off"\nenabled = false\n')
    found, config = read("codex", home, app)
    assert {key[1]: (item.scope, item.project) for key, item in found.items()} == {
        "pdf": ("user", None),
        "maker": ("builtin", None),
        "quiet": ("user", None),
        "ours": ("project", str(tmp_path / "repo")),
    }
    assert sizes(found)["skill", "pdf"] == (len(f"- pdf: Reads PDFs (file: {pdf})"), len(pdf.read_text()))
    assert sizes(found)["skill", "quiet"][0] == 0
    ours = found["skill", "ours"]
    assert ours.baseline_chars == len(f"- ours:  (file: {ours.path})") + 1024
    shown = carried("codex", home, app)
    assert shown["skill", "pdf"] == f"- pdf: Reads PDFs (file: {pdf})"
    assert shown["skill", "quiet"] is None
    assert not config.warnings


def test_agents_md_files(home: Path, tmp_path: Path) -> None:
    root = home / ".codex"
    put(root / "AGENTS.md", "hidden by the other")
    put(root / "AGENTS.override.md", "mine")
    put(root / "config.toml", 'project_doc_max_bytes = 12\nproject_doc_fallback_filenames = ["NOTES.md"]\n')
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    put(tmp_path / "AGENTS.md", "above the repository")
    put(repo / "AGENTS.md", "0123456789")
    put(repo / "a" / "NOTES.md", "0123456789")
    put(repo / "a" / "b" / "AGENTS.md", "nothing is left for it")
    found, _ = read("codex", home, repo / "a" / "b")
    assert at_paths(found) == {
        str(root / "AGENTS.override.md"): (None, 4),
        str(repo / "AGENTS.md"): (str(repo), 10),
        str(repo / "a" / "NOTES.md"): (str(repo / "a"), 2),
    }
    assert sorted(filter(None, carried("codex", home, repo / "a" / "b").values())) == ["01", "0123456789", "mine"]


def test_a_project_doc_that_is_not_read_whole_has_no_known_text(home: Path, tmp_path: Path) -> None:
    app = tmp_path / "app"
    put(app / "AGENTS.md", "x" * (2 << 20))
    assert carried("codex", home, app) == {("instruction", "AGENTS.md"): "x" * 32_768}
    put(home / ".codex" / "config.toml", f"project_doc_max_bytes = {4 << 20}\n")
    (item,) = read("codex", home, app)[0].values()
    assert (item.baseline_chars, item.baseline_sha256) == (None, None)


def test_agents_and_servers_of_codex(home: Path, tmp_path: Path) -> None:
    root = home / ".codex"
    put(root / "agents" / "rev.toml", 'name = "rev"\ndescription = "reviews"\ndeveloper_instructions = "Be strict."\n')
    app, other = tmp_path / "app", tmp_path / "other"
    for project in (app, other):
        put(project / ".codex" / "config.toml", f'[mcp_servers.of_{project.name}]\ncommand = "x"\n')
    settings = f'[projects."{app}"]\ntrust_level = "trusted"\n[mcp_servers.db]\n[mcp_servers.off]\nenabled = false\n'
    put(root / "config.toml", settings)
    found, _ = read("codex", home, app, other)
    assert sizes(found) == {
        ("agent", "rev"): (len("- rev: reviews"), 10),
        ("mcp_server", "db"): (None, None),
        ("mcp_server", "of_app"): (None, None),
    }


def test_codex_home(home: Path, tmp_path: Path) -> None:
    skill(tmp_path / "named" / "skills" / "b", "name: b\ndescription: B")
    found, config = read("codex", home, environ={"CODEX_HOME": f"{tmp_path}/named"})
    assert ("skill", "b") in found
    _, config = read("codex", home, environ={"CODEX_HOME": f"{tmp_path}/missing"})
    assert config.warnings == [f"CODEX_HOME: there is no folder {tmp_path}/missing"]


# --- what a disk may hold --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", ["claude-code", "codex"])
def test_no_configuration(client: str, home: Path) -> None:
    found, config = read(client, home)
    assert not found
    assert not config.warnings


def test_frontmatter_that_is_no_yaml_is_told_and_keeps_its_size(home: Path) -> None:
    path = skill(home / ".claude" / "skills" / "bad", 'name: "bad\ndescription: [')
    found, config = read("claude-code", home)
    assert sizes(found) == {("skill", "bad"): (None, 7)}
    assert len(config.warnings) == 1
    assert config.warnings[0].startswith(f"{path}: its frontmatter cannot be read: ")


def test_settings_that_cannot_be_read_are_told(home: Path) -> None:
    put(home / ".claude" / "settings.json", "{")
    put(home / ".codex" / "config.toml", "= 1")
    for client, file in (("claude-code", ".claude/settings.json"), ("codex", ".codex/config.toml")):
        _, config = read(client, home)
        assert [warning.partition(": ")[0] for warning in config.warnings] == [str(home / file)]


def test_a_file_in_place_of_a_folder_is_told(home: Path) -> None:
    path = put(home / ".claude" / "skills", "no folder")
    assert read("claude-code", home)[1].warnings == [f"{path}: cannot be read: Not a directory"]


def test_links_in_a_circle(home: Path) -> None:
    commands = home / ".claude" / "commands"
    put(commands / "a.md", "A")
    (commands / "again").symlink_to(commands)
    (commands / "self.md").symlink_to(commands / "self.md")
    (commands / "nowhere.md").symlink_to(commands / "missing.md")
    (home / ".claude" / "skills").symlink_to(home / ".claude" / "skills")
    (home / ".codex" / "skills" / "deep").mkdir(parents=True)
    (home / ".codex" / "skills" / "deep" / "up").symlink_to(home / ".codex" / "skills")
    found, config = read("claude-code", home)
    assert [key[1] for key in found] == ["a"]
    assert len(config.warnings) == 2
    assert not read("codex", home)[0]


def test_a_pipe_is_not_waited_for(home: Path) -> None:
    folder = home / ".claude" / "skills" / "pipe"
    folder.mkdir(parents=True)
    os.mkfifo(folder / "SKILL.md")
    assert not read("claude-code", home)[0]


def test_a_huge_file_is_not_read_whole(home: Path) -> None:
    path = skill(home / ".claude" / "skills" / "huge", "name: huge\ndescription: Huge")
    with path.open("r+b") as file:
        file.truncate(50 << 20)
    found, config = read("claude-code", home)
    item = found["skill", "huge"]
    assert (item.baseline_chars, item.body_chars, item.sha256) == (len("- huge: Huge"), None, None)
    assert item.baseline_sha256 == sha256("- huge: Huge")  # of its beginning, which was read
    assert config.warnings == [f"{path}: larger than 1 MiB; its size in characters is not known"]


def test_of_a_huge_file_without_a_description_no_entry_is_known(home: Path) -> None:
    path = put(home / ".claude" / "commands" / "huge.md", "Huge.\n")
    put(home / ".claude" / "CLAUDE.md", "Huge.\n")
    for file in (path, home / ".claude" / "CLAUDE.md"):
        with file.open("r+b") as stream:
            stream.truncate(2 << 20)
    found, _ = read("claude-code", home)
    assert {(item.baseline_chars, item.baseline_sha256) for item in found.values()} == {(None, None)}


def test_a_file_that_changes_while_it_is_read_is_read_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = skill(home / ".claude" / "skills" / "a", "description: A")
    real = os.fstat

    def grown(descriptor: int) -> os.stat_result:
        with path.open("a") as file:
            file.write("more\n")
        return real(descriptor)

    monkeypatch.setattr(os, "fstat", grown)
    _, config = read("claude-code", home)
    monkeypatch.undo()
    assert config.seen[str(path)] == "changing"


def test_ten_thousand_skills(home: Path) -> None:
    for number in range(10_000):
        skill(home / ".claude" / "skills" / f"s{number}", f"name: s{number}\ndescription: Number {number}")
    started = time.perf_counter()
    found, config = read("claude-code", home)
    assert len(found) == 10_000
    assert time.perf_counter() - started < 20
    started = time.perf_counter()
    fingerprint(config.seen)
    assert time.perf_counter() - started < 2


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\na: 1\n---\nbody", ("a: 1\n", "body")),
        ("---\n---\nbody", ("", "body")),
        ("---\na: 1\n---", ("a: 1\n", "")),
        ("text\n---\na: 1\n---\n", (None, "text\n---\na: 1\n---\n")),
        ("---\nnever closed", (None, "---\nnever closed")),
        ("", (None, "")),
    ],
)
def test_frontmatter(text: str, expected: tuple[str | None, str]) -> None:
    assert split_front(text) == expected
