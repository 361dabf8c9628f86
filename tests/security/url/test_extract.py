"""URLs in a text: those a person meant, and those a model may try to smuggle in."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from leeward.security.url import Url, parse_url, suspects_in, urls_given, urls_hinted, urls_in
from loading import rows_beside

ROWS = rows_beside(__file__)

GIVEN: list[tuple[str, list[str]]] = [
    *ROWS["given"],
    *[
        (f"is it https://a.com/x{end}", ["https://a.com/x"])
        for end in (".", ",", ";", ":", "!", "?", "...", "?!", "…", "。", "、", "！")
    ],
    *[
        (f"see {a}https://a.com/x{b} there", ["https://a.com/x"])
        for a, b in (
            "()",
            "[]",
            "{}",
            "<>",
            '""',
            "''",
            "``",
            "“”",
            "‘’",
            "«»",
            "（）",
            "「」",
            "『』",
            "【】",
            "《》",
            "||",
            "**",
            "__",
            "~~",
        )
    ],
    *[
        (f"open {a}https://a.com/x{b} now", ["https://a.com/x"])
        for a, b in (
            "\u202a\u202c",
            "\u202b\u202c",
            "\u2066\u2069",
            "\u2068\u2069",
            "\u200e\u200e",
            "\u061c\u061c",
            "\ufeff\u200b",
        )
    ],
]

NOTHING_GIVEN = ROWS["nothing_given"]

HINTED = [
    ("docs.rs/tokio", ["https://docs.rs/tokio"]),
    ("see crates.io and allegro.pl/oferta.", ["https://crates.io/", "https://allegro.pl/oferta"]),
    ("user.id and user.name", ["https://user.id/", "https://user.name/"]),
    ("api.user.id:8080?x=1", ["https://api.user.id:8080/?x=1"]),
    ("docs.rs", []),
    ("setup.py", []),
    ("example.com/a", []),
    ("open app.services/user", ["https://app.services/user"]),
    ("com.example.app/Main crashes", ["https://com.example.app/Main"]),
    ("os.environ.com", ["https://os.environ.com/"]),
    ("self.app/x", ["https://self.app/x"]),
    ("v1.2.io", ["https://v1.2.io/"]),
    ("see foo.py/bar", ["https://foo.py/bar"]),
    ("why heise.de/news?", ["https://heise.de/news"]),
    ('get("example.com").json()', ["https://example.com/"]),
]

SUSPICIOUS: list[tuple[str, list[str]]] = [
    ("https://evil.com/x", ["https://evil.com/x"]),
    ("please open HtTpS://evil.com now", ["HtTpS://evil.com"]),
    (
        "a (https://a.com), b <https://b.com> [c](https://c.com)",
        ["https://a.com", "https://b.com", "https://c.com"],
    ),
    ('{"u":"https://a.com","v":"b.com"}', ["https://a.com"]),
    ("xhttps://evil.com", ["https://evil.com"]),
    (
        "see https://good.com/r?u=https%3A%2F%2Fx.com%2F and https://b.com/ftp://c.com",
        ["https://good.com/r?u=https%3A%2F%2Fx.com%2F", "https://b.com/ftp://c.com"],
    ),
    ("https://good.com/a,https://evil.com", ["https://good.com/a", "https://evil.com"]),
    ("https://good.com/r?u=https://x.com", ["https://good.com/r?u=https://x.com"]),
    ("https://a.com\nhttps://b.com\n", ["https://a.com", "https://b.com"]),
    ("https://a.com\nThanks", ["https://a.com"]),
    ("https://a.com/x\n\n## Summary\n\nIt works. See e.g. there.", ["https://a.com/x"]),
    ("https://a.com/x\n- one\n- two", ["https://a.com/x"]),
    ("请看https://a.com。谢谢", ["https://a.com"]),
]

REPAIRED_BY_SOME_CLIENT = [
    *ROWS["repaired_by_some_client"],
    "see https://good.com," + "a" * 2000 + "@evil.com",
]

ORDINARY = [
    "file: a.txt",
    "File: a report",
    "file:",
    "FILE:\n- a\n- b",
    "ftp: none",
    "ws:/ /",
    "ftp:// is old, like git://.",
    "a://",
    "://x",
    "50%25 of it",
    "50 %: 100%",
    "用法：值／其他",
    "C:\\x and C:/x",
    "key: value // comment",
    "x = a ? b : c//d",
    "see //example.com/x",
    "ratio 1://",
    "Ünï: cödé",
    "what is new? (a & b)",
    "the https: scheme",
    "use https: or http:",
    "https://",
    "port http:8080 is open",
    "http",
    "a:b",
    "https:\nis a scheme. See RFC 9110.",
]


@pytest.mark.parametrize(("text", "urls"), GIVEN)
def test_what_a_person_meant_is_found(text: str, urls: list[str]) -> None:
    assert [url.text for url in urls_given(text)] == urls


@pytest.mark.parametrize("text", NOTHING_GIVEN)
def test_words_that_are_no_url_are_none(text: str) -> None:
    assert urls_given(text) == ()


@pytest.mark.parametrize(("text", "urls"), HINTED)
def test_a_host_that_could_be_a_file_is_only_a_hint(text: str, urls: list[str]) -> None:
    assert [url.text for url in urls_hinted(text)] == urls
    assert not set(urls_hinted(text)) & set(urls_given(text))


CODE = (
    "user.id self.name os.name asyncio.run subprocess.run config.host request.data console.info "
    "System.IO java.net order.no messages.de hello.my app.run window.name "
    "event.target.id this.state.data response.data.info self.user.name df.info np.core.io kotlin.io "
    "System.Net ASP.NET VB.NET android.net result.is item.to task.do queue.at "
    "os.environ.com self.example.com com.example.app org.apache.net my_module.app.com v1.2.com "
    "1.2.3.com session.app user.email user.group cls.build node.host redis.host foo.bar.zone "
    "settings.me strings.fr labels.it config.dev torch.cat model.ai game.play page.show"
).split()  # fmt: skip


@pytest.mark.parametrize("name", CODE)
@pytest.mark.parametrize(
    "form", ["{}", "why is {} empty?", "`{}` fails", "rename ({}), please", "{}, then stop."]
)
def test_names_of_programs_ground_nothing_without_a_question(name: str, form: str) -> None:
    assert urls_given(form.format(name)) == ()


@pytest.mark.parametrize(
    "word",
    (
        "app.services/user com.example.app/Main self.app/x user.id/profile messages.de/title "
        "System.Net/Http os.environ.com/x"
    ).split()
)  # fmt: skip
@pytest.mark.parametrize("form", ["{}", "why is {} empty?", "`{}` fails", "rename ({}), please"])
def test_a_path_behind_a_name_of_a_program_makes_it_no_host(word: str, form: str) -> None:
    assert urls_given(form.format(word)) == ()
    assert [url.text for url in urls_hinted(form.format(word))] == [parse_url(f"https://{word}").text]


@pytest.mark.parametrize(
    "code",
    [
        'get("example.com")', "fetch(example.com)", "example.com[0]", "example.com{}", "example.com::Main",
        "example.com->x",
        "x['example.com']", "('example.com').lower()", "call(`example.com/x`)", "hosts[example.com]",
    ],
)  # fmt: skip
def test_a_host_within_code_is_no_more_than_a_hint(code: str) -> None:
    assert urls_given(f"why does {code} fail?") == ()
    assert {url.host for url in urls_hinted(f"why does {code} fail?")} <= {"example.com"}


@pytest.mark.parametrize(
    "prose",
    ROWS["a_host_that_stands_alone_is_given_whatever_is_around_it"],
)
def test_a_host_that_stands_alone_is_given_whatever_is_around_it(prose: str) -> None:
    assert "example.com" in {url.host for url in urls_given(prose)}
    assert "example.com" not in {url.host for url in urls_hinted(prose)}


HOSTS = (
    "example.com example.org example.net bbc.co.uk www.heise.de www.user.id example.com.au ox.ac.uk "
    "EXAMPLE.ORG Example.com mit.edu nasa.gov münchen.de"
).split()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("form", ["{}", "look at {}", "what does {} say?", "({}), please", "see {}."])
def test_what_can_only_be_a_host_is_given(host: str, form: str) -> None:
    assert [url.host for url in urls_given(form.format(host))] == [parse_url(f"https://{host}").host]


@pytest.mark.parametrize(
    "word",
    ["https://app.services/user", "https://user.id", "http://messages.de", "https://com.example.app/Main"],
)
def test_a_scheme_says_that_a_host_is_meant(word: str) -> None:
    assert len(urls_given(f"open {word} now")) == 1


def test_a_name_in_the_workspace_is_only_a_hint() -> None:
    text, files = "example.com/a and other.com", {"example.com"}
    assert [url.text for url in urls_given(text, files.__contains__)] == ["https://other.com/"]
    assert [url.text for url in urls_hinted(text, files.__contains__)] == ["https://example.com/a"]


def test_only_written_out_urls_are_found_in_any_text() -> None:
    assert [url.text for url in urls_in("example.com https://a.com/x docs.rs/y")] == ["https://a.com/x"]


@pytest.mark.parametrize(("text", "suspects"), SUSPICIOUS)
def test_every_url_in_an_argument_is_a_suspect(text: str, suspects: list[str]) -> None:
    assert list(suspects_in(text)) == suspects
    assert all(isinstance(parse_url(suspect), Url) for suspect in suspects)


@pytest.mark.parametrize("text", REPAIRED_BY_SOME_CLIENT)
def test_what_only_a_repair_makes_a_url_is_a_suspect_that_cannot_be_read(text: str) -> None:
    found = suspects_in(text)
    assert found
    assert not all(isinstance(parse_url(suspect), Url) for suspect in found)


@pytest.mark.parametrize("text", ORDINARY)
def test_prose_is_not_suspected(text: str) -> None:
    assert suspects_in(text) == ()


@given(
    st.text(max_size=20),
    st.sampled_from(["https", "HTTP"]),
    st.sampled_from(["://", ":/", ":\\\\", ":///"]),
    st.text(max_size=20),
)
@example("(", "https", "://", ")")
@example("https://good.com,", "https", "://", "")
@example("https:/", "https", "://", "")
def test_no_surrounding_hides_a_url(before: str, scheme: str, slashes: str, after: str) -> None:
    judged = [
        parse_url(suspect) for suspect in suspects_in(f"{before} {scheme}{slashes}evil.example/x {after}")
    ]
    assert any(not isinstance(url, Url) or url.host == "evil.example" for url in judged)


@given(st.text(max_size=60))
def test_what_is_given_is_canonical_and_given_once(text: str) -> None:
    found = urls_given(text)
    assert len(set(found)) == len(found)
    assert all(parse_url(url.text) == url for url in found)


@pytest.mark.parametrize(
    "text",
    [
        "https://a",
        "https://",
        "a://",
        "a%3A",
        "a:%252f",
        "é://b ",
        "a.com ",
        "a.",
        "xhttps:/",
        "https://a.com/)=",
        "http:",
        "(",
        "http:a.a",
        "https://a.com/?x",
    ],
)
def test_hostile_texts_take_linear_time(text: str) -> None:
    started = time.process_time()
    for find in (urls_given, urls_hinted, suspects_in):
        find(text * (200_000 // len(text)))
    assert time.process_time() - started < 3


@pytest.mark.parametrize("host", ["docs.python.org", "sub.domain.example.net", "settings.database.com"])
def test_a_host_below_a_domain_is_given_where_nothing_else_is_said_and_a_question_elsewhere(
    host: str,
) -> None:
    assert [url.host for url in urls_given(f" {host}\n")] == [host]
    for form in ("look at {}", "why does `{}` fail?", "see {}."):
        assert urls_given(form.format(host)) == ()
        assert [url.host for url in urls_hinted(form.format(host))] == [host]
    assert [url.host for url in urls_given(f"see https://{host}/x, please")] == [host]


@pytest.mark.parametrize(
    "code",
    [
        "foo->bar.com", "from foo.net import bar", "a.b.com = 3", "import app.services.com/x",
        "see UserService.com",
        "userRepository.findBy.com/x", "#include <x.net/y.h>", "app.config.net is unset",
        "model.user.org/Main fails",
        "why is foo.com = null", "logger.handlers.com, again", "Foo::bar.com",
    ],
)  # fmt: skip
def test_a_dotted_word_of_code_grounds_nothing(code: str) -> None:
    assert urls_given(code) == ()
