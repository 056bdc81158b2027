"""A proxy before an S3 server that passes a request on and then loses the answer, once, as a network does.

It is a process of its own: delta-rs holds Python's lock while it waits for some answers.
"""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@contextmanager
def losing(port: int, pattern: str, lost: Path) -> Iterator[str]:
    """The address of a proxy for the server at `port`.

    It ends the connection of the first request whose `METHOD path` has the pattern, after it was answered, and creates
    the file `lost`.
    """
    command = [sys.executable, __file__, str(port), pattern, str(lost)]
    proxy = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert proxy.stdout is not None
    try:
        yield f"http://127.0.0.1:{int(proxy.stdout.readline())}"
    finally:
        proxy.kill()
        proxy.communicate()


def serve(port: int, pattern: str, lost: Path) -> None:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def passed(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server = http.client.HTTPConnection("127.0.0.1", port)
            server.request(self.command, self.path, body, dict(self.headers))
            answer = server.getresponse()
            content = answer.read()
            if not lost.exists() and re.search(pattern, f"{self.command} {self.path}"):
                lost.touch()
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args: object) -> None:
            pass

    for method in ("GET", "PUT", "POST", "HEAD", "DELETE"):
        setattr(Handler, f"do_{method}", Handler.passed)
    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    sys.stdout.write(f"{proxy.server_port}\n")
    sys.stdout.flush()
    proxy.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2], Path(sys.argv[3]))
