"""Commands with a config of another user and in a directory of hostile files (DESIGN §9)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Headway
from tests.crash.stage import Stage
from tests.ownership import give_away

#: Modules that processes of a run import: the price list's process, and workers. The last ones belong to another operating
#: system; the standard library tries to import them.
SHADOWED = ("msgspec", "mmap", "pickle", "json", "headway", "socket", "resource", "msvcrt", "nt", "_winapi")
TRAP = 'open("{witness}", "a").write("{name} was imported\\n")\nraise SystemExit("{name}")\n'


def set_traps(folder: Path) -> Path:
    witness = folder / "witness"
    for name in SHADOWED:
        (folder / f"{name}.py").write_text(TRAP.format(witness=witness, name=name))
    return witness


def command(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The installed command: `python -m` would import from the working directory by itself."""
    program = Path(sys.executable).with_name("headway")
    private = ("HEADWAY_CONFIG", "HEADWAY_DB", "PYTHONPATH")
    environ = {name: value for name, value in os.environ.items() if name not in private}
    return subprocess.run(
        [program, *args], check=False, cwd=folder, env=environ, capture_output=True, text=True, timeout=60
    )


def test_a_run_imports_nothing_from_the_working_directory(stage: Stage) -> None:
    witness = set_traps(stage.root)
    config = stage.root / "headway.toml"
    config.write_text(config.read_text() + '\n[providers.alpha.prices]\nlike = "gpt-4o"\n')
    done = command(stage.root, "run", "in.jsonl", "--max-cost", "5")
    assert done.returncode == 0, done.stderr
    assert not witness.exists(), witness.read_text()


def test_python_m_imports_nothing_from_the_working_directory(tmp_path: Path) -> None:
    witness = set_traps(tmp_path)
    (tmp_path / "headway.py").unlink()  # `python -m` itself must not find this module.
    done = subprocess.run(
        [sys.executable, "-m", "headway", "jobs"], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert "there is no database" in done.stderr
    assert not witness.exists(), witness.read_text()


def test_worker_processes_import_only_the_target_from_the_working_directory(tmp_path: Path) -> None:
    witness = set_traps(tmp_path)
    (tmp_path / "deeds.py").write_text("import sibling\ndef work(unit):\n    return sibling.double(unit)\n")
    (tmp_path / "sibling.py").write_text("import mmap, json\ndef double(unit):\n    return 2 * unit\n")
    (tmp_path / "headway.toml").write_text('[providers.work]\nkind = "python"\ntarget = "deeds:work"\n')
    (tmp_path / "in.jsonl").write_text('{"id": "a", "payload": 4}\n')
    done = command(tmp_path, "run", "in.jsonl")
    assert done.returncode == 0, done.stderr
    assert not witness.exists(), witness.read_text()
    assert json.loads((tmp_path / "in.results.jsonl").read_text())["response"]["body"] == 8


@pytest.mark.parametrize("how", ["found", "named"])
def test_a_config_from_elsewhere_is_named_with_the_hosts_that_get_a_key(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    below = stage.root / "below"
    below.mkdir()
    (stage.root / "in.jsonl").rename(below / "in.jsonl")
    monkeypatch.chdir(below)
    config = stage.root / "headway.toml"
    flags = ("--config", str(config)) if how == "named" else ()
    done = headway("run", "in.jsonl", *flags)
    assert done.code == 0, done.err
    host = stage.fake.url.removeprefix("http://")
    assert done.err.splitlines()[0] == f"settings: {config}; keys are sent to {host}"
    again = headway("resume", *flags)
    assert again.err.splitlines()[0] == f"settings: {config}; keys are sent to {host}"
    assert "settings:" not in headway("run", "in.jsonl", "-q", *flags).err


def test_a_config_in_the_working_directory_needs_no_such_line(stage: Stage, headway: Headway) -> None:
    assert "settings:" not in headway("run", "in.jsonl").err


def test_a_config_that_every_user_may_write_neither_gets_a_key_nor_runs_a_program(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = stage.root / "below"
    below.mkdir()
    (stage.root / "in.jsonl").rename(below / "in.jsonl")
    config, witness = stage.root / "headway.toml", stage.root / "witness"
    config.write_text(
        f'[providers.work]\nkind = "python"\ntarget = "os:getcwd"\npreflight = "command"\npreflight_command = ["touch", "{witness}"]\n'
    )
    config.chmod(0o666)
    monkeypatch.chdir(below)
    done = headway("run", "in.jsonl")
    assert done.code == 2
    assert f"{config}: every user may write it" in done.err
    assert f"--config {config}" in done.err
    assert not witness.exists()
    assert not (below / ".headway").exists(), "no empty store is opened instead"


def test_a_config_of_another_user_in_the_working_directory_is_used_only_by_name(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = stage.root / "headway.toml"
    give_away(config, monkeypatch)
    done = headway("run", "in.jsonl")
    assert done.code == 2
    [line] = done.err.splitlines()
    assert f"{config}: it belongs to another user" in line
    assert f"--config {config}" in line
    assert not (stage.root / ".headway").exists(), "no empty store is opened instead"
    assert headway("doctor", "--offline").code == 1
    named = headway("run", "in.jsonl", "--config", "headway.toml", "--max-duration", "1ms")
    assert named.code == 3, named.err
    assert "headway resume" in named.err
    assert "--config headway.toml" in named.err, "the next command names it, too"


def test_a_usual_key_for_another_host_is_an_error_that_prints_the_line_to_add(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-must-not-leave-this-test")
    text = '[providers.alpha]\nkind = "openai"\nbase_url = "https://gateway.invalid/v1"\nmodel = "gpt-x"\n'
    (stage.root / "headway.toml").write_text(text)
    done = headway("run", "in.jsonl")
    assert done.code == 2
    assert 'add to [providers.alpha]: api_key_env = "OPENAI_API_KEY"' in done.err
    assert "sk-must-not" not in done.err


def test_an_env_file_that_others_can_read_gets_one_warning(stage: Stage, headway: Headway) -> None:
    env_file = stage.root / ".env"
    env_file.write_text("OTHER=1\n")
    env_file.chmod(0o644)
    done = headway("run", "in.jsonl", "--limit", "3")
    assert done.code == 0
    assert done.err.count("warning:") == 1
    assert f"warning: {env_file} holds keys, and every user can read it (mode 644) — chmod 600" in done.err
    assert "every user can read" in headway("doctor", "--offline").out
    assert "warning" not in headway("run", "in.jsonl", "--limit", "4", "-q").err
    env_file.chmod(0o600)
    assert "warning" not in headway("run", "in.jsonl", "--limit", "5").err
    assert "every user can read" not in headway("doctor", "--offline").out


def test_an_env_file_of_another_user_is_used_by_no_command(
    stage: Stage, headway: Headway, monkeypatch: pytest.MonkeyPatch
) -> None:
    env_file = stage.root / ".env"
    env_file.write_text("OPENAI_API_KEY=theirs\nOPENAI_BASE_URL=https://evil.example/v1\n")
    give_away(env_file, monkeypatch)
    config = stage.root / "headway.toml"
    for command in (("run", "in.jsonl"), ("init", "--force")):
        done = headway(*command)
        assert done.code == 2
        assert f"{env_file}: it belongs to another user" in done.err
        assert f"--config {config}" in done.err
    assert "evil" not in config.read_text()
