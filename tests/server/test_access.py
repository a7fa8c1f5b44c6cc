"""Where a token may be sent, and where it comes from."""

from __future__ import annotations

import copy
import pickle

import pytest

import dpnb
from dpnb.errors import RequestError, ServiceError
from dpnb.server import access
from dpnb.server.access import Token, find_token, read_address

pytestmark = pytest.mark.fast

HUB = {
    "JUPYTERHUB_API_TOKEN": "hub-secret",
    "JUPYTERHUB_PUBLIC_HUB_URL": "https://hub.example.org/hub/",
    "JUPYTERHUB_API_URL": "http://10.0.0.1:8081/hub/api",
}


class TestAddress:
    @pytest.mark.parametrize(
        ("url", "expected"),
        [
            ("https://data.example.org", "https://data.example.org"),
            ("https://data.example.org:8899/", "https://data.example.org:8899"),
            ("http://127.0.0.1:8899", "http://127.0.0.1:8899"),
            ("http://localhost:8899/services/dpnb/", "http://localhost:8899/services/dpnb"),
            ("http://[::1]:8899", "http://[::1]:8899"),
        ],
    )
    def test_https_anywhere_and_http_here(self, url, expected):
        assert read_address(url).url == expected

    @pytest.mark.parametrize(
        "url",
        [
            "https://user:hunter2@host",
            "https://hunter2@host",
            "https://host/?token=hunter2",
            "https://host/#hunter2",
            "https://host?",
            "https://host#",
        ],
    )
    def test_secrets_in_a_url_are_refused_and_not_repeated(self, url):
        with pytest.raises(RequestError, match="DPNB_TOKEN") as caught:
            read_address(url)
        assert "hunter2" not in str(caught.value)

    @pytest.mark.parametrize(
        "url",
        [
            "http://data.example.org",
            "http://10.0.0.1:8899",
            "http://127.0.0.1.example.org",
            "http://2130706433.example.org",
            "http://0x7f000001",
            "http://localhost.example.org",
        ],
    )
    def test_http_to_another_machine_needs_a_word(self, url):
        with pytest.raises(RequestError, match="insecure"):
            read_address(url)
        assert read_address(url, insecure=True).url == url

    @pytest.mark.parametrize(
        "url",
        ["", "data", "ftp://host", "https://", "https:///path", "https://host:99999", "https://host:x",
         "https://host/../x", "https://host/%2e%2e", "https://host\\@evil", "https://ho st",
         "https://host\n.evil", "//host", None, 7, "file:///etc/passwd", "https://host/a//b"],
    )  # fmt: skip
    def test_what_is_no_address_is_refused(self, url):
        with pytest.raises(RequestError):
            read_address(url)


class TestToken:
    def test_the_given_one_comes_before_the_environment(self):
        here = read_address("https://host")
        environment = {"DPNB_TOKEN": "b"}
        assert find_token("a", here, environment).header() == "Bearer a"
        assert find_token(None, here, environment).header() == "Bearer b"

    @pytest.mark.parametrize("token", ["", " ", "a b", "a\r\nX: y", "ä", 7, b"x"])
    def test_what_is_no_token_is_refused(self, token):
        with pytest.raises(
            RequestError, match="there is no token, or it has characters that are not allowed"
        ) as caught:
            find_token(token, read_address("https://host"), {})
        assert caught.value.__context__ is None

    def test_it_is_asked_for_when_there_is_none(self, monkeypatch):
        monkeypatch.setattr("getpass.getpass", lambda prompt: "typed" if "host" in prompt else "")
        assert find_token(None, read_address("https://host"), {}).header() == "Bearer typed"

    def test_where_nobody_can_type_it_says_where_to_put_it(self, monkeypatch):
        def nobody(prompt):
            raise EOFError(prompt)

        monkeypatch.setattr("getpass.getpass", nobody)
        with pytest.raises(RequestError, match="DPNB_TOKEN"):
            find_token(None, read_address("https://host"), {})

    def test_it_shows_nothing_of_itself(self):
        token = Token("secret")
        assert "secret" not in f"{token!r} {token} {token.__class__.__dict__}"
        for use in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="cannot be pickled"):
                use(token)


class TestHub:
    def test_the_hubs_token_goes_to_services_of_the_hub(self):
        for url in (
            "https://hub.example.org/services/dpnb",
            "https://hub.example.org:443/services/x",
        ):
            assert find_token(None, read_address(url), HUB).header() == "Bearer hub-secret"

    @pytest.mark.parametrize(
        "url",
        [
            "https://evil.example.org/services/dpnb",
            "https://hub.example.org.evil.org/services/dpnb",
            "https://hub.example.org:8443/services/dpnb",
            "https://hub.example.org/user/mallory/proxy/8899",
            "https://hub.example.org/servicesx/dpnb",
            "https://hub.example.org",
            "http://127.0.0.1:8899/services/dpnb",
        ],
    )
    def test_and_nowhere_else(self, url, monkeypatch):
        asked = []
        monkeypatch.setattr("getpass.getpass", lambda prompt: asked.append(prompt) or "typed")
        assert find_token(None, read_address(url), HUB).header() == "Bearer typed"
        assert len(asked) == 1

    def test_a_hub_that_does_not_tell_its_address_is_known_by_the_host_of_its_api(self):
        environment = {"JUPYTERHUB_API_TOKEN": "hub-secret",
                       "JUPYTERHUB_API_URL": "http://127.0.0.1:8081/hub/api"}  # fmt: skip
        here = read_address("http://127.0.0.1:8000/services/dpnb")
        assert access.is_service_of_hub(here, environment)
        assert not access.is_service_of_hub(read_address("https://host/services/x"), environment)
        elsewhere = read_address("http://127.0.0.1:9999/services/dpnb")
        assert not access.is_service_of_hub(elsewhere, environment)

    def test_the_base_url_of_the_hub_counts(self):
        environment = {**HUB, "JUPYTERHUB_BASE_URL": "/jupyter/"}
        good = read_address("https://hub.example.org/jupyter/services/dpnb")
        assert access.is_service_of_hub(good, environment)
        bad = read_address("https://hub.example.org/services/dpnb")
        assert not access.is_service_of_hub(bad, environment)


class TestConnect:
    def test_without_httpx_it_names_the_extra(self, monkeypatch):
        import sys

        monkeypatch.setitem(sys.modules, "httpx", None)
        with pytest.raises(ServiceError, match=r"dpnb\[server\]"):
            dpnb.connect("https://host", token="x")

    def test_a_wrong_authority_file_is_refused(self, tmp_path):
        (tmp_path / "ca.pem").write_text("nothing")
        with pytest.raises(RequestError, match="PEM"):
            dpnb.connect("https://host", token="x", verify=tmp_path / "ca.pem")

    @pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": "x"}, {"privilege": "x"}])
    def test_unusable_options_are_refused(self, options):
        with pytest.raises(RequestError):
            dpnb.connect("https://host", token="x", **options)
