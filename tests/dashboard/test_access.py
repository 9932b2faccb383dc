"""Nobody gets in without the token, no other site can act in a browser that has it, and no path leads out of the page's files."""

from __future__ import annotations

import socket
import stat
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.crash.stage import PATIENCE_S, Stage
from tests.dashboard.dashboard_process import DashboardProcess, dashboard, one_attempt_stage
from tests.ownership import give_away

from headway.cli import main
from headway.dashboard.access.access_secrets import token_of_file
from headway.dashboard.access.bounded_connection import MOST_CONNECTIONS
from headway.errors import UsageError

READING = (
    "/api/jobs",
    "/api/jobs/j",
    "/api/lanes",
    "/api/events",
    "/assets/app.js",
    "/",
    "/jobs/j",
    "/metrics",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DashboardProcess]:
    stage = one_attempt_stage(tmp_path_factory.mktemp("access"), ["echo one"])
    assert stage.run("run", "in.jsonl", "--name", "j").returncode == 0
    with dashboard(stage) as running:
        yield running


@pytest.mark.parametrize("path", READING)
def test_without_the_token_nothing_is_answered(page: DashboardProcess, path: str) -> None:
    wrong = page.token[:-1] + ("A" if page.token[-1] != "A" else "B")
    name = page.cookie.partition("=")[0]
    for headers in (
        {},
        {"Cookie": f"{name}={wrong}"},
        {"Cookie": f"{name}={page.token}"},
        {"Cookie": f"{name}="},
        {"Authorization": f"Bearer {wrong}"},
        {"Authorization": f"Basic {page.token}"},
    ):
        assert page.send("GET", path, headers).status == 401
    refused = page.send("GET", f"/?token={wrong}", {})
    assert (refused.status, "set-cookie" in refused.headers) == (401, False)
    assert b"headway ui" in refused.body


def test_the_token_becomes_a_cookie_that_scripts_cannot_read(page: DashboardProcess) -> None:
    assert len(page.token) >= 43, "256 bits"
    assert page.token not in page.set_cookie
    assert set(page.set_cookie.split("; ")[1:]) == {"HttpOnly", "SameSite=Strict", "Path=/"}
    deep = page.send("GET", f"/jobs/j?token={page.token}&tab=units", {})
    assert (deep.status, deep.headers["location"]) == (303, "/jobs/j?tab=units")
    assert (
        page.send("GET", f"//evil.example/x?token={page.token}", {}).headers["location"].startswith("/evil")
    )
    from_elsewhere = page.send("GET", f"/?token={page.token}", {"Sec-Fetch-Site": "cross-site"})
    assert from_elsewhere.status == 200, "a redirect would lose the cookie"
    assert from_elsewhere.headers["refresh"] == "0; url=/"
    assert page.send("GET", "/api/jobs", {"Authorization": f"Bearer {page.token}"}).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8484",
        "127.0.0.1.evil.example",
        "192.168.0.7:8484",
        "",
        "localhost.",
        "[::1",
        "a b",
    ],
)
def test_another_host_is_refused_even_with_the_cookie(page: DashboardProcess, host: str) -> None:
    answer = page.send("GET", "/api/jobs", {"Cookie": page.cookie}, host=host or " ")
    assert answer.status in (400, 403)
    assert b"csrf" not in answer.body


def test_names_of_this_machine_are_accepted_with_any_port(page: DashboardProcess) -> None:
    for host in ("localhost", "127.0.0.1:9000", "[::1]:80", "LOCALHOST:1"):
        assert page.send("GET", "/api/jobs", {"Cookie": page.cookie}, host=host).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"X-Headway-CSRF": "no"},
        {"X-Headway-CSRF": ""},
    ],
)
def test_a_request_of_another_site_changes_nothing(page: DashboardProcess, headers: dict[str, str]) -> None:
    answer = page.post("/api/jobs/j/resume", **headers)
    assert answer.status == 403
    assert answer.error


def test_a_request_without_an_origin_changes_nothing(page: DashboardProcess) -> None:
    headers = {"Cookie": page.cookie, "X-Headway-CSRF": page.csrf}
    assert page.send("POST", "/api/jobs/j/pause", headers, b"{}").status == 403


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../server.py",
        "/assets/..%2f..%2fserver.py",
        "/assets/%2e%2e/%2e%2e/headway.toml",
        "/assets//etc/passwd",
        "/assets/",
        "/assets/vendor",
        "/assets/app.js%00.html",
        "/../../etc/passwd",
        "/api/nothing",
        "/api/jobs/j/nothing",
        "/api/jobs/..%2fj",
        "/nothing",
    ],
)
def test_unknown_addresses_are_json_404s(page: DashboardProcess, path: str) -> None:
    answer = page.get(path)
    assert answer.status == 404
    assert answer.error


def test_every_answer_has_the_headers_that_protect_the_page(page: DashboardProcess) -> None:
    for path in ("/api/jobs", "/api/nothing", "/assets/none", "/"):
        headers = page.get(path).headers
        policy = dict(rule.split(" ", 1) for rule in headers["content-security-policy"].split("; "))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers
    assert page.get("/api/jobs").headers["cache-control"] == "no-store"


def test_bodies_are_bounded(page: DashboardProcess) -> None:
    assert page.post("/api/jobs/j/pause", {"note": "x" * 100_000}).status == 413


def test_the_token_is_in_no_argument_of_a_process(page: DashboardProcess) -> None:
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                assert page.token.encode() not in (process / "cmdline").read_bytes()
            except OSError:
                continue


def test_a_public_bind_needs_its_flag_and_a_taken_port_says_what_to_do(tmp_path: Path) -> None:
    stage = Stage(tmp_path, None, "", 0)  # type: ignore[arg-type]  # It sends nothing.
    refused = stage.run("ui", "--host", "0.0.0.0", "--no-open")
    assert (refused.returncode, "--public" in refused.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        taken = stage.run("ui", "--port", str(port), "--no-open")
        assert taken.returncode == 2
        assert f"port {port} is in use" in taken.stderr
        assert "--port" in taken.stderr
        assert len(taken.stderr.splitlines()) == 1


def test_a_token_file_keeps_the_url_and_must_be_private(tmp_path: Path) -> None:
    stage = Stage(tmp_path, None, "", 0)  # type: ignore[arg-type]  # It sends nothing.
    with dashboard(stage, "--token-file", "token") as first:
        cookie, token = first.cookie, first.token
        assert first.get("/api/jobs").json["jobs"] == [], "before the first run"
        assert first.get("/api/jobs/none").status == 404
    file = tmp_path / "token"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert file.read_text().strip() == token
    with dashboard(stage, "--token-file", "token", "--public", "--host", "127.0.0.1", "--json") as second:
        assert (second.token, second.cookie.partition("=")[2]) == (token, cookie.partition("=")[2])
    file.write_text("short")
    assert "32" in stage.run("ui", "--token-file", "token").stderr
    file.chmod(0o644)
    if (tmp_path.stat().st_mode & stat.S_IXOTH) and (tmp_path.parent.stat().st_mode & stat.S_IXOTH):
        assert "chmod 600" in stage.run("ui", "--token-file", "token").stderr
    assert list((tmp_path / ".headway").glob("*")) == [] if (tmp_path / ".headway").exists() else True


def test_a_token_that_another_user_wrote_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "token"
    token = token_of_file(file)
    assert token_of_file(file) == token
    give_away(file, monkeypatch)
    with pytest.raises(UsageError, match="belongs to another user"):
        token_of_file(file)


def test_without_the_extra_one_line_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["ui"]) == 2
    [line] = capfd.readouterr().err.splitlines()
    assert line.startswith("headway: the dashboard needs starlette and uvicorn — ")
    assert "install" in line
    assert "[ui]" in line


def test_connections_that_say_nothing_keep_nobody_out(page: DashboardProcess) -> None:
    with ExitStack() as stack:
        for number in range(MOST_CONNECTIONS + 50):
            silent = stack.enter_context(socket.create_connection((page.host, page.port)))
            silent.sendall(b"GET / HTTP/1.1\r\nHost: 1" if number % 2 else b"")
        assert page.get("/api/jobs").status == 200
        whole = f"GET /api/jobs HTTP/1.1\r\nHost: localhost\r\nCookie: {page.cookie}\r\n\r\n".encode()
        patient = stack.enter_context(socket.create_connection((page.host, page.port)))
        patient.sendall(whole + whole[:30])
        assert patient.recv(100).startswith(b"HTTP/1.1 200")
        patient.sendall(whole[30:])
        assert page.get("/api/jobs").status == 200


def test_clients_that_go_away_or_send_nonsense_print_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path, None, "", 0)  # type: ignore[arg-type]  # It sends nothing.
    with dashboard(stage) as page:
        head = f"POST /api/jobs/j/pause HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {page.token}\r\nContent-Length: 9"
        for text in (
            f"{head}\r\n\r\n{{",
            "nonsense\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
        ):
            with socket.create_connection((page.host, page.port)) as client:
                client.sendall(text.encode())
                assert page.get("/api/jobs").status == 200, "it has been read"
        page.process.terminate()
        assert page.process.communicate(timeout=PATIENCE_S)[1] == ""
