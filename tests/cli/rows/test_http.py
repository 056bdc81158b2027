"""Stores by HTTP and on the command line: JSON answers, a token, and errors in words."""

import http.client
import json
import socket
import struct
import threading
from datetime import date
from decimal import Decimal

import pyarrow as pa
import pytest
from click.testing import CliRunner

from rs_assets.cli.main import main
from rs_assets.cli.rows.query_server import _question, server_of, token_of
from rs_assets.errors import ConfigurationError
from tests.queries.writing import Written


@pytest.fixture
def written(tmp_path):
    made = Written(tmp_path, {"user": pa.string(), "day": pa.date32(), "n": pa.decimal128(9, 2)}, ("user", "day"))
    rows = [("ann", "2026-01-01", 1), ("ann", "2026-01-02", 2), ("bo", "2026-01-01", 3)]
    days = pa.array([day for _, day, _ in rows]).cast(pa.date32()).to_pylist()
    made.write(0, come=[{"user": user, "day": at, "n": n} for (user, _, n), at in zip(rows, days, strict=True)])
    return made


@pytest.fixture
def ask(written):
    server = server_of({"totals": written.store}, "secret")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1])

    def get(path, token="secret"):
        connection.request("GET", path, headers={"Authorization": f"Bearer {token}"} if token else {})
        response = connection.getresponse()
        return response.status, json.loads(response.read()), response.headers

    yield get
    connection.close()
    server.shutdown()
    thread.join()
    server.server_close()


def test_answers_are_json_with_their_batch(ask):
    status, body, headers = ask("/v1/stores/totals/key?user=ann&day=2026-01-02")
    assert (status, body["row"]) == (200, {"user": "ann", "day": "2026-01-02", "n": "2.00"})
    assert (body["batch"], headers["Rs-Batch"], headers["Rs-Watermark"]) == (0, "0", "2026-05-01T00:00:00+00:00")
    assert [row["n"] for row in ask("/v1/stores/totals/prefix?user=ann")[1]["rows"]] == ["1.00", "2.00"]
    assert [row["n"] for row in ask("/v1/stores/totals/range?from=b&to=z")[1]["rows"]] == ["3.00"]
    assert [row["n"] for row in ask("/v1/stores/totals/prefix?begins=a")[1]["rows"]] == ["1.00", "2.00"]
    body = ask("/v1/stores/totals/all?limit=1")[1]
    assert (len(body["rows"]), body["more"]) == (1, True)
    (facts,) = ask("/v1/stores")[1]["stores"]
    assert (facts["store"], facts["rows"], facts["keys"]) == ("totals", 3, {"user": "string", "day": "date32[day]"})


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/v1/stores/totals/key?user=ann", 400, "names no 'day'"),
        ("/v1/stores/totals/key?user=ann&day=soon", 400, "'soon' does not fit the key 'day'"),
        ("/v1/stores/totals/key?user=x&day=2026-01-01", 404, None),
        ("/v1/stores/totals/key?name=x", 400, "has no key 'name'"),
        ("/v1/stores/totals/prefix?day=2026-01-01", 400, "are not the first ones"),
        ("/v1/stores/totals/windows?user=ann", 400, "windows are found by a time"),
        ("/v1/stores/totals/all?limit=-1", 400, "limit must be a whole number"),
        ("/v1/stores/totals/drop", 400, "there is no question 'drop'"),
        (f"/v1/stores/totals/all?limit={'9' * 5000}", 400, "limit must be a whole number"),
        ("/v1/stores/totals/all?limit=9223372036854775807", 400, "limit= must be a positive whole number"),
        ("/v1/stores/totals/all?user=ann", 400, "'all' is not asked with 'user'"),
        ("/v1/stores/totals/range?user=ann&from=a", 400, "'range' is not asked with 'user'"),
        ("/v1/stores/totals/range?reverse=TRUE", 400, "reverse must be true or false"),
        ("/v1/stores/totals/prefix?user=ann&user=bo", 400, "'user' is given twice"),
        ("/v1/stores/totals/all?at_least=9&timeout_ms=1", 409, "batch 9 did not come"),
        ("/v1/stores/none/all", 404, "there is no store 'none'"),
        ("/etc/passwd", 404, "there is no such page"),
    ],
)
def test_errors_are_words(ask, path, status, words):
    answer = ask(path)
    assert answer[0] == status
    assert words is None or (words in answer[1]["error"] and answer[1]["remedy"])


def test_what_an_error_advises_is_answered(ask):
    for wrong, advice, right in (
        ("key?user=ann", "give all keys: user, day", "key?user=ann&day=2026-01-01"),
        ("prefix?day=2026-01-01", "begin with 'user'", "prefix?user=ann&day=2026-01-01"),
        ("all?limit=x", "limit=100", "all?limit=100"),
        ("all?user=ann", "ask with 'key' or 'prefix'", "prefix?user=ann"),
        ("range?reverse=yes", "reverse=true", "range?reverse=true"),
        ("prefix?user=a&user=b", "give it once", "prefix?user=a"),
    ):
        status, body, _ = ask(f"/v1/stores/totals/{wrong}")
        assert (status, body["remedy"]) == (400, advice)
        assert ask(f"/v1/stores/totals/{right}")[0] == 200


def test_keys_may_have_the_names_of_options(tmp_path):
    made = Written(tmp_path, {"from": pa.string(), "n": pa.int64()}, ("from",))
    made.write(0, come=[{"from": "a", "n": 1}])
    assert _question("key", {"from": "a"}).answer(made.store).row == {"from": "a", "n": 1}


def test_a_client_that_goes_away_prints_nothing(written, capfd):
    written.write(1, come=[{"user": "x" * 9_000_000, "day": date(2026, 1, 1), "n": Decimal(1)}])
    server = server_of({"totals": written.store}, "secret")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    with socket.create_connection(server.server_address) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(b"GET /v1/stores/totals/all HTTP/1.1\r\nAuthorization: Bearer secret\r\n\r\n")
        client.recv(10)
    server.shutdown()
    server.daemon_threads = False
    server.server_close()
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("token", [None, "", "wrong", "secret2", "sécret"])
def test_without_the_token_nothing_is_answered(ask, token):
    status, body, _ = ask("/v1/stores/totals/all", token)
    assert (status, body["error"]) == (401, "the token is missing or wrong")


def test_the_file_of_the_token_is_for_its_owner(tmp_path):
    path = tmp_path / "token"
    token = token_of(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert (token_of(path), len(token) > 30) == (token, True)
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match=f"chmod 600 {path}"):
        token_of(path)
    path.chmod(0o600)
    assert token_of(path) == token
    path.write_text("")
    with pytest.raises(ConfigurationError, match=f"rm {path}"):
        token_of(path)
    path.unlink()
    assert token_of(path) != token


MODULE = """
from rs_assets import StreamBuilder
rows = [{"user": "ann", "n": 1}]
pipeline = StreamBuilder.data_stream("shop", "asked").from_array(rows).serve("totals", ["user", "day"]).build()
plain = StreamBuilder.data_stream("shop", "plain").from_array(rows).to_print().build()
"""


def test_the_command_line_answers_in_rows(written, tmp_path, monkeypatch):
    home = tmp_path / "home"
    (home / "stores" / "shop").mkdir(parents=True)
    written.path.rename(home / "stores" / "shop" / "totals.db")
    (tmp_path / "served_module.py").write_text(MODULE.replace('"n": 1', '"day": "x"'))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("RS_HOME", str(home))

    def run(*words):
        return CliRunner().invoke(main, [*words, "-m", "served_module"])

    found = run("query", "asked", "totals", "--key", "user=ann", "--json")
    assert [row["n"] for row in json.loads(found.output)["rows"]] == ["1.00", "2.00"]
    assert '"n": "3.00"' in run("query", "asked", "totals", "--from", "b").output
    assert "3 rows" in run("stores", "asked").output
    assert "write --key user=17" in run("query", "asked", "totals", "--key", "user").output
    assert "2 rows" in run("query", "asked", "totals", "--key", "user=ann").output
    assert "hold rows in one: .serve('totals')" in run("stores", "plain").output
    reverse = run("query", "asked", "totals", "--reverse", "--limit", "2", "--json")
    assert [row["n"] for row in json.loads(reverse.output)["rows"]] == ["3.00", "2.00"]
    aside = run("query", "asked", "totals", "--key", "user=ann", "--reverse").output
    assert "leave --reverse out, or ask with --from and --to" in aside
    assert '"n": "3.00"' in run("query", "asked", "totals", "--from", "b", "--to", "c", "--reverse").output
    for options in (["--from", "a", "--begins", "b"], ["--to", "z", "--begins", "b"], ["--windows", "--begins", "b"]):
        told = run("query", "asked", "totals", *options).output
        assert f"leave {options[0]} out, or --begins" in told
    assert '"n": "3.00"' in run("query", "asked", "totals", "--begins", "b").output
    refused = run("query", "asked", "other")
    assert (refused.exit_code, "use one of: totals" in refused.output) == (1, True)
