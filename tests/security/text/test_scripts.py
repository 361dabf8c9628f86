"""Letters that pass for another script's are pointed out; ordinary writing in any script is not."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leeward.security.filters import Screened, Source, label, strip
from leeward.security.text import find_look_alikes, look_alike_flags, skeleton
from leeward.security.text.scripts import LookAlikeFinder
from leeward.security.trust import Origin

SUSPICIOUS = (
    "fooН() usеr tоken cοnfig pаssword ѕystem һost Օffice раypal get_сору _idх rооt αpple pαypal gοοgle "
    "𝐚dmin pɑypal ɡoogle пaроль Cтол СOVID userа а_b Ꭺdmin Αdmin ѵalue dеf іmport nаme х1y "
    "аdmin2 tοtal maх fоr_each "
    "evаl(x) ехec lеn Тable Μax τoken fooДbar read_filе /etc/pаsswd ｇoogle"
).split()
IN_LATIN_TEXT = ["the value of х is five", "please open the file раура now", "set сору to true in the file"]
ORDINARY = [
    *"Δx µs μs λ λx ΔVmax σ_max ρgh αmax βcarotene kΩ MΩ sinθ cosφ SMSками ICOшник".split(),
    *"API는 iPhoneを Tシャツ".split(),
    *"ไฟล์PDFนี้ הLinux וLinux Googleका 日本語".split(),
    *"naïve Übergröße Straße ısı kadın Ελλάδα 2πr dθ/dt x² αβγ Xи ℝn ℓp".split(),
    *"λ_min κB µg fooΔ PDFки Ångström Řeka đường الـiPhone واتساب İstanbul".split(),
    *"π/2 ∂f/∂x Σx_i νμ ηmax εr ωt".split(),
    "Это cat and dog в тексте",
    "Привет, мы пишем на Python и Rust; сор, рост, ухо — обычные слова.",
    "Москва (Moscow) is the capital; the word for it is written Москва.",
    "let α be the angle and ν the frequency of the wave, so that E = hν",
    "在 Linux 上使用 Python 编写的程序",
    "L’été, l’œuvre, ça ﬁn — ½ ℃ № ™",
    "сор.txt",
]


@pytest.mark.parametrize("text", [*SUSPICIOUS, *IN_LATIN_TEXT])
def test_letters_that_pass_for_others_are_named_by_code_point(text):
    flag = "".join(look_alike_flags(text))
    assert flag.isascii() and any(f"U+{ord(char):04X}" in flag for char in text)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_writing_is_not_flagged(text):
    assert look_alike_flags(text) == ()


def test_the_tables_find_the_obvious_mistake(planted):
    wrong = planted("scripts").look_alike_flags
    assert [text for text in SUSPICIOUS if not wrong(text)]


def test_the_place_of_a_word_is_that_in_the_text():
    text = "def ok():\n    return fooН() + usеr\n"
    assert [(text[one.start : one.end], one.line, one.letters) for one in find_look_alikes(text)] == [
        ("fooН", 2, "Н"),
        ("usеr", 2, "е"),
    ]


@given(st.lists(st.sampled_from([*SUSPICIOUS, *ORDINARY, " ", "\n", "abc def ghi"])), st.integers(1, 40))
def test_pieces_end_nowhere_in_the_text(parts, size):
    text, finder = "".join(parts), LookAlikeFinder()
    for start in range(0, len(text), size):
        finder.feed(text[start : start + size])
    assert finder.finish() == find_look_alikes(text)


def test_what_is_shown_says_so_outside_of_the_text():
    screened = strip(Screened("x = 1\nfooН()\n"), Source("read", Origin.WORKSPACE))
    assert screened.text == "x = 1\nfooН()\n"
    assert screened.notices == (
        "letters drawn like those of another script: U+041D CYRILLIC CAPITAL LETTER EN in line 2",
    )
    assert label("read_filе").endswith("» [look-alike letter U+0435 CYRILLIC SMALL LETTER IE]")
    assert label("rapport_été.txt").endswith("»")


def test_a_skeleton_is_what_a_word_is_drawn_like():
    assert skeleton("раураl") == "paypal"
    assert skeleton("plain") == "plain"


@pytest.mark.parametrize("unit", ["а", "аa", "аa ", "ο_", "𝐚b", "а\u0301"])
def test_hostile_texts_take_linear_time(unit):
    def seconds(count):
        text = unit * count
        begin = time.process_time()
        find_look_alikes(text)
        return time.process_time() - begin

    seconds(1_000)
    assert seconds(100_000) < 40 * min(seconds(10_000) for _ in range(3)) + 0.2
