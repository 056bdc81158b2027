"""A token service of OAuth 2.0 on loopback: RS256 tokens for one client, and the keys with which brokers check them."""

from __future__ import annotations

import base64
import json
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Self
from urllib.parse import parse_qs

AUDIENCE = "kafka"


def _url64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


class TokenService:
    """Its tokens last for `lifetime` seconds; `issued` is their number so far."""

    def __init__(self, folder: Path, *, client: str, secret: str, lifetime: int = 3600) -> None:
        self._key, self._client, self._secret, self.lifetime = folder / "service.key", client, secret, lifetime
        self.keys = folder / "keys.json"
        self.issued = 0
        subprocess.run(
            ["openssl", "genrsa", "-out", str(self._key), "2048"], check=True, capture_output=True, timeout=60
        )
        shown = subprocess.run(
            ["openssl", "rsa", "-in", str(self._key), "-noout", "-modulus"], check=True, capture_output=True, timeout=60
        )
        modulus = bytes.fromhex(shown.stdout.decode().strip().partition("=")[2])
        key = {"kty": "RSA", "kid": "one", "alg": "RS256", "use": "sig", "e": "AQAB", "n": _url64(modulus)}
        self.keys.write_text(json.dumps({"keys": [key]}))
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/oauth2/token"

    def token(self, scope: str) -> str:
        now = int(time.time())
        claims = {"sub": self._client, "aud": AUDIENCE, "scope": scope, "iat": now, "exp": now + self.lifetime}
        parts = [json.dumps(part).encode() for part in ({"alg": "RS256", "kid": "one"}, claims)]
        signed = ".".join(_url64(part) for part in parts)
        signature = subprocess.run(
            ["openssl", "dgst", "-sha256", "-sign", str(self._key)],
            input=signed.encode(),
            check=True,
            capture_output=True,
            timeout=60,
        ).stdout
        return f"{signed}.{_url64(signature)}"

    def _answer(self, authorization: str, form: dict[str, list[str]]) -> tuple[int, dict[str, object]]:
        login = base64.b64encode(f"{self._client}:{self._secret}".encode()).decode()
        if authorization != f"Basic {login}":
            return 401, {"error": "invalid_client"}
        if form.get("grant_type") != ["client_credentials"] or form.get("scope") != ["streams"]:
            return 400, {"error": "invalid_scope"}
        self.issued += 1
        return 200, {"access_token": self.token("streams"), "token_type": "Bearer", "expires_in": self.lifetime}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                status, answer = service._answer(self.headers.get("Authorization", ""), parse_qs(body))
                content = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
