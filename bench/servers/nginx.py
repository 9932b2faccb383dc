"""Debian's nginx with `limit_req`: a leaky bucket of so many requests per second for each key.

`nodelay`: the burst passes at once, and everything above it is refused. Without it the burst waits in a queue and leaves it at the
rate. The upstream is the same nginx, on a socket in its folder, with a constant chat answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from bench.servers import installed
from bench.servers.running import Server, free_port, process, wait_until_it_answers

RATE: Final = 100
BURST: Final = 20

_ANSWER: Final = (
    '{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,'
    '"finish_reason":"stop","message":{"role":"assistant","content":"hello"}}],'
    '"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}'
)
_CONFIG: Final = """
daemon off;
master_process off;
pid nginx.pid;
error_log stderr crit;
events {{ worker_connections 4096; }}
http {{
  access_log off;
  client_body_temp_path temp; proxy_temp_path temp; fastcgi_temp_path temp; uwsgi_temp_path temp; scgi_temp_path temp;
  limit_req_zone $http_authorization zone=keys:1m rate={rate}r/s;
  limit_req_status 429;
  upstream model {{ server unix:model.sock; keepalive 64; keepalive_requests 1000000; }}
  server {{
    listen 127.0.0.1:{port};
    keepalive_requests 1000000;
    location /health {{ return 204; }}
    location /v1/ {{
      limit_req zone=keys burst={burst}{nodelay};
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_pass http://model;
    }}
  }}
  server {{
    listen unix:model.sock;
    keepalive_requests 1000000;
    default_type application/json;
    location / {{ return 200 '{answer}'; }}
  }}
}}
"""


@contextmanager
def running(folder: Path, *, nodelay: bool) -> Iterator[Server]:
    """nginx with its own configuration in this folder, on a free port of loopback."""
    port = free_port()
    (folder / "temp").mkdir()
    (folder / "nginx.conf").write_text(
        _CONFIG.format(
            rate=RATE, burst=BURST, port=port, answer=_ANSWER, nodelay=" nodelay" if nodelay else ""
        )
    )
    command = [installed.nginx() or "nginx", "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"]
    server = Server(f"http://127.0.0.1:{port}", folder)
    with process(command, folder) as pid:
        wait_until_it_answers(server, "/health", pid)
        yield server
