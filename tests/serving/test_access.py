"""Tokens, names of the host, and addresses that need a token."""

from __future__ import annotations

import hmac
import socket

import pytest

from pmvge.errors import InputError, ParameterError
from pmvge.serving import listen
from pmvge.serving.settings import check_access, is_loopback, read_token

TOKEN = "0123456789abcdef-secret"
GOOD = {"view": "users", "among": "films", "ids": ["u00004"], "k": 3}


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer {TOKEN[:-1]}",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN.upper()}",
        "Bearer \xff\xfe",
    ],
)
def test_a_missing_or_wrong_token_gets_401(serve, header):
    client = serve(token=TOKEN)
    headers = {} if header is None else {"authorization": header.encode("latin-1")}
    for path in ("/search", "/views", "/metrics", "/docs", "/openapi.json", "/nothing"):
        answer = client.request("POST" if path == "/search" else "GET", path, headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"] == "Bearer"
        assert list(answer.json()) == ["error"]
        assert TOKEN not in answer.text
    assert client.get("/health", headers=headers).status_code == 200


def test_the_token_is_accepted(serve):
    client = serve(token=TOKEN)
    for scheme in ("Bearer", "bearer"):
        headers = {"authorization": f"{scheme} {TOKEN}"}
        assert client.post("/search", json=GOOD, headers=headers).status_code == 200


def test_tokens_are_compared_in_constant_time(serve, monkeypatch):
    client = serve(token=TOKEN)
    compared = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((len(a), len(b)))
        return a == b

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for token in ("", "x", TOKEN, 1000 * TOKEN):
        client.get("/views", headers={"authorization": f"Bearer {token}"})
    assert compared == [(32, 32)] * 4  # always the whole digests, whatever the token


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8000", 200),
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("[::1]:8000", 200),
        ("attacker.example", 403),
        ("127.0.0.1.attacker.example:8000", 403),
        ("", 403),
    ],
)
def test_other_names_of_this_host_are_refused_without_a_token(serve, host, status):
    client = serve(loopback_only=True)
    assert client.get("/views", headers={"host": host}).status_code == status


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.0.7", "::", "example.org"])
def test_other_addresses_need_a_token(host):
    with pytest.raises(ParameterError, match="expected --token-file, or --insecure"):
        check_access(host, None, False)
    check_access(host, TOKEN, False)
    check_access(host, None, True)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.0.0.53"])
def test_addresses_of_this_machine_need_none(host):
    assert is_loopback(host)
    check_access(host, None, False)


def test_a_token_file_has_one_long_line(tmp_path):
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    assert read_token(path) == TOKEN
    for text in ("", "short", f"{TOKEN}\n{TOKEN}", f"{TOKEN} {TOKEN}", f"{TOKEN}ä"):
        path.write_text(text)
        with pytest.raises(InputError, match="expected one line of at least 16"):
            read_token(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_token(tmp_path / "none")


def test_answers_do_not_wait_for_acknowledgements():
    with listen("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP  # asyncio then sets TCP_NODELAY
