"""Split shell text into words: quote removal, brace expansion, and what is open in each word.

The grammar says where commands begin and end; the words in between are read here, character by
character, so that both must agree. Text is UTF-8 read as Latin-1: one character for each byte, as
the grammar counts. Whatever has no meaning here raises `Unread`. A pair of braces that holds neither a comma
nor a range is text, but it makes bash pair the others in ways of its own, so a word with both kinds is not
read. The words of a text that could not be read serve only to deny what is plainly destructive or blocked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import field

from ...lazy import dataclass, regex
from .nodes import Command, Node, Part, PartKind, Redirection, Unread, Word, literal, marked

__all__ = [
    "Bodies",
    "Effort",
    "crude_words",
    "expanded",
    "next_word",
    "read_here_document",
    "read_pattern",
    "read_target",
    "read_word",
    "read_words",
]


_MOST = 256
_RANGE = regex(r"(-?\d{1,6})\.\.(-?\d{1,6})(?:\.\.(-?\d{1,6}))?")
_LETTERS = regex(r"([A-Za-z])\.\.([A-Za-z])(?:\.\.(-?\d{1,6}))?")


def expanded(pieces: list[Part | str]) -> list[list[Part]]:
    """Return the words that a word's pieces expand to, at most 256."""
    if "{" not in pieces:
        return [_plain(pieces)]
    if ("," in pieces or any(map(_holds_range, pieces))) and not _is_regular(pieces):
        raise Unread("braces are paired in an unusual way")
    found = [word for word in _expanded(pieces, 0) if word]
    if len(found) > _MOST:
        raise Unread("braces expand to too many words")
    return found


def _is_regular(pieces: list[Part | str]) -> bool:
    """Whether every brace has its partner, with a comma or a range between the two of each pair."""
    open_ones: list[bool] = []
    for piece in pieces:
        if piece == "{":
            open_ones.append(False)
        elif open_ones and (piece == "," or _holds_range(piece)):
            open_ones[-1] = True
        elif piece == "}" and not (open_ones and open_ones.pop()):
            return False
    return not open_ones


def _holds_range(piece: Part | str) -> bool:
    return isinstance(piece, Part) and piece.kind is PartKind.LITERAL and ".." in piece.text


def _expanded(pieces: list[Part | str], depth: int) -> list[list[Part]]:
    if depth > 16:
        raise Unread("braces are nested too deeply")
    for start, piece in enumerate(pieces):
        if piece != "{":
            continue
        end = _closing(pieces, start)
        alternatives = _alternatives(pieces[start + 1 : end], depth) if end is not None else None
        if end is None or alternatives is None:
            continue
        tails = _expanded(pieces[end + 1 :], depth + 1)
        if len(alternatives) * len(tails) > _MOST:
            raise Unread("braces expand to too many words")
        head = _plain(pieces[:start])
        return [[*head, *middle, *tail] for middle in alternatives for tail in tails]
    return [_plain(pieces)]


def _closing(pieces: list[Part | str], start: int) -> int | None:
    depth = 0
    for index in range(start, len(pieces)):
        depth += (pieces[index] == "{") - (pieces[index] == "}")
        if depth == 0:
            return index
    return None


def _alternatives(inside: list[Part | str], depth: int) -> list[list[Part]] | None:
    """Return the alternatives between a pair of braces, or None if they are literal text."""
    options: list[list[Part | str]] = [[]]
    level = 0
    for piece in inside:
        level += (piece == "{") - (piece == "}")
        if piece == "," and level == 0:
            options.append([])
        else:
            options[-1].append(piece)
    if len(options) > 1:
        return [word for option in options for word in _expanded(option, depth + 1)]
    return _range(inside)


def _range(inside: list[Part | str]) -> list[list[Part]] | None:
    """Return the members of `1..5` or `a..e`; a range must not be quoted."""
    if not all(isinstance(piece, Part) and piece.kind is PartKind.LITERAL for piece in inside):
        if any(isinstance(piece, Part) and ".." in piece.text for piece in inside):
            raise Unread("a range in braces depends on something else")
        return None
    text = "".join(piece.text for piece in inside if isinstance(piece, Part))
    numbers, letters = _RANGE.fullmatch(text), _LETTERS.fullmatch(text)
    if any(isinstance(piece, Part) and piece.quoted for piece in inside):
        return None
    if letters is not None and not letters[3] and letters[1].isupper() == letters[2].isupper():
        return [[_text(chr(code))] for code in _span(ord(letters[1]), ord(letters[2]), 1)]
    if numbers is None:
        if ".." in text and letters is not None:
            raise Unread("a range in braces is too involved")
        return None
    if any(
        number.lstrip("-").startswith("0") and number.lstrip("-") != "0" for number in numbers.groups("1")
    ):
        raise Unread("a range in braces is padded with zeros")
    first, last, step = (int(number) for number in numbers.groups("1"))
    return [[_text(str(number))] for number in _span(first, last, abs(step) or 1)]


def _span(first: int, last: int, step: int) -> range:
    found = range(first, last + 1, step) if last >= first else range(first, last - 1, -step)
    if len(found) > _MOST:
        raise Unread("braces expand to too many words")
    return found


def _text(text: str) -> Part:
    return Part(PartKind.LITERAL, text)


def _plain(pieces: list[Part | str]) -> list[Part]:
    return [_text(piece) if isinstance(piece, str) else piece for piece in pieces]


_MOST_WORDS = 64
_MOST_CHUNKS = 32


def crude_words(raw: str, home: str) -> Iterator[Command]:
    """Yield what looks like commands in a text that could not be read, quotes and all tricks removed."""
    plain = re.sub(r"\\\n", "", raw)
    plain = re.sub(r"\$\{HOME\b[^}]*\}|\$?\bHOME\b", lambda _: home, plain)
    plain = re.sub(r"\$\{?IFS\}?", " ", re.sub(r"['\"\\]", "", plain))
    plain = re.sub(r"\$\{\w+:?[-=]([^{}]*)\}", r"\1", plain)
    # The text in braces may be a list of words.
    spread = re.sub(r"\{([^{}]*)\}", lambda found: " ; " + found[1].replace(",", " ") + " ; ", plain)
    joined = re.sub(r"[{},]", " ", plain)
    chunks = re.split(r"[;&|()`\n{}]|\$\(", f"{plain}\n{spread}\n{joined}" if "{" in plain else plain)
    for chunk in list(dict.fromkeys(filter(str.strip, chunks)))[:_MOST_CHUNKS]:
        words = [home + word[1:] if word == "~" or word.startswith("~/") else word for word in chunk.split()]
        words = [re.sub(r"^\d?[<>]+.*", "", word) for word in words]
        kept = tuple(literal(word) for word in words if word)
        for start in range(min(len(kept), 8)):
            yield Command(kept[start : start + _MOST_WORDS])
        for target in re.findall(r">+[|&]?\s*(\S+)", chunk)[:8]:
            yield Command((), redirections=(Redirection(">", literal(target)),))


_EFFORT = 256


@dataclass(slots=True)
class Effort:
    """How many words and pieces of words a line may still have; what is read must be judged, too.

    What braces make of one word is counted by itself.
    """

    left: int = _EFFORT
    copies: int = _EFFORT

    def spend(self, *, copies: int = 0) -> None:
        """Count one more, or so many copies of one."""
        self.left -= not copies
        self.copies -= copies
        if self.left < 0 or self.copies < 0:
            raise Unread("the line has too many words or pieces of words")


@dataclass(frozen=True, slots=True)
class Bodies:
    """Where substitutions begin, where each ends, and what it runs."""

    effort: Effort
    found: Mapping[int, tuple[int, Node]] = field(default_factory=dict)


_PLAIN = regex(r"[A-Za-z0-9_@%+:./\-]+")
_RUN = regex(r"""(?:[A-Za-z0-9_@%+=:./^!#\-\]\x80-\xff]|\\[^\n]|'[^']*'|"[^"\\$`]*")+""")
_QUOTED = regex(r"""\\(.)|'([^']*)'|"([^"]*)\"""", re.DOTALL)
_BLANK = regex(r"(?:[ \t]|\\\n)*")
_DOUBLE_RUN = regex(r'[^"\\$`]+')
_HERE_RUN = regex(r"[^\\$`]+")
_BRACKET = regex(r"\[[!^]?\]?[A-Za-z0-9_.@:%+-]*\]")
_NAME = regex(r"[A-Za-z_][A-Za-z0-9_]*|[0-9]|[@*#?$!-]")
_BRACED = regex(r"\{([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*#?$!-])\}")
# Nothing in these can run a command: no quote, no `$`, no backtick, and neither `@P` nor `!name`.
_EXPANSION = regex(
    r"\{(?:#[A-Za-z_][A-Za-z0-9_]*"
    r"|[A-Za-z_0-9]+(?::?[-+]|%%?|##?|//?[#%]?|\^\^?|,,?)[A-Za-z0-9_./:%#,*?+^@ -]*"
    r"|[A-Za-z_0-9]+:[0-9]+(?::[0-9]+)?)\}"
)
_ARITHMETIC = regex(r"\(\((?:[^\[\]`'\"\\;#\n@{}$]|\$[A-Za-z_])*?\)\)")
_NUMBERS = regex(r"(?:0[xX][0-9A-Fa-f]+|[^A-Za-z_$])*")
_TILDE = regex(r"~[A-Za-z0-9._+-]*(?=[/: \t\n;&|<>()]|\Z)")
_ASSIGNS = regex(r"[A-Za-z_][A-Za-z0-9_]*\+?=")
_SEPARATOR = regex(r"[ \t\n;&|<>()]")
_ANSI = regex(
    r"\\(?:(?P<hex>x[0-9A-Fa-f]{1,2})|(?P<code>u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8})|(?P<octal>[0-7]{1,3})"
    r"|(?P<control>c[@-_a-z?])|(?P<one>[abeEfnrtv\\'\"?]))"
)
_ONE = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


def read_words(src: str, start: int, end: int, bodies: Bodies) -> list[Word]:
    """Return the words between two positions, braces expanded; only blanks may be between them."""
    words: list[Word] = []
    position = _BLANK.match(src, start, end).end()  # type: ignore[union-attr]  # it matches nothing, too
    while position < end:
        plain = _PLAIN.match(src, position, end)
        if plain is not None and (plain.end() == end or src[plain.end()] in " \t"):
            bodies.effort.spend()
            words.append(Word(plain[0]))
            position = plain.end()
        else:
            lexer = _Lexer(src, position, end, bodies)
            several = expanded(lexer.word(braces=True))
            if len(several) > 1:
                bodies.effort.spend(copies=len(several))
            words.extend(map(_word, several))
            position = lexer.at
        blank = _BLANK.match(src, position, end).end()  # type: ignore[union-attr]
        if blank == position < end:
            raise Unread("a word ends where nothing may end it")
        position = blank
    return words


def read_target(src: str, start: int, end: int, bodies: Bodies) -> list[Word]:
    """Return the words behind a redirection; braces in the first are no list of words to the shell."""
    begin = _BLANK.match(src, start, end).end()  # type: ignore[union-attr]
    first, at = next_word(src, begin, end, bodies)
    if at < end and src[at] not in " \t":
        raise Unread("a word ends where nothing may end it")
    return [first, *read_words(src, at, end, bodies)] if at > begin else []


def read_word(src: str, start: int, end: int, bodies: Bodies, *, assigned: bool = False) -> Word:
    """Return the one word between two positions; `assigned`, as the value of an assignment."""
    word, at = next_word(src, start, end, bodies, assigned=assigned)
    if at != end:
        raise Unread("there is more than one word where one is expected")
    return word


def next_word(src: str, start: int, end: int, bodies: Bodies, *, assigned: bool = False) -> tuple[Word, int]:
    """Return the word that begins at a position, and where it ends; braces are no list of words in it."""
    lexer = _Lexer(src, start, end, bodies, assigned=assigned)
    word = _word(expanded(lexer.word(braces=False))[0])
    return word, lexer.at


def read_pattern(src: str, start: int, end: int, bodies: Bodies) -> Word:
    """Return a pattern of `case` or `[[`, which has blanks around it at most."""
    while start < end and src[start] in " \t":
        start += 1
    while start < end and src[end - 1] in " \t":
        end -= 1
    return read_word(src, start, end, bodies)


def read_here_document(src: str, start: int, end: int, bodies: Bodies) -> Word:
    """Return the body of a here-document whose delimiter is not quoted, as a word of quoted pieces."""
    lexer = _Lexer(src, start, end, bodies)
    return _word(list(lexer.until_end()))


def _word(parts: list[Part]) -> Word:
    """Join neighbouring literals and undo the reading as Latin-1."""
    joined: list[Part] = []
    for part in parts:
        if part.kind is PartKind.LITERAL and joined and joined[-1].kind is PartKind.LITERAL:
            joined[-1] = Part(PartKind.LITERAL, joined[-1].text + part.text)
        else:
            joined.append(part)
    if not joined:
        return Word("")
    joined = [_decoded(part) for part in joined]
    if len(joined) == 1 and joined[0].kind is PartKind.LITERAL:
        return Word(joined[0].text)
    found = tuple(part for part in joined if part.text or part.kind is not PartKind.LITERAL)
    return Word(marked(found), found)


def _decoded(part: Part) -> Part:
    if part.text.isascii():
        return part
    try:
        return Part(part.kind, part.text.encode("latin-1").decode(), part.quoted, part.body)
    except UnicodeDecodeError:
        raise Unread("a quotation spells bytes that are no text") from None


class _Lexer:
    """Reads one word. `at` is its position; positions are those of the whole line."""

    def __init__(self, src: str, start: int, end: int, bodies: Bodies, *, assigned: bool = False) -> None:
        self.src, self.start, self.at, self.end = src, start, start, end
        self.bodies = bodies
        self.assigned = assigned

    def word(self, *, braces: bool) -> list[Part | str]:
        """Return the pieces up to a blank; `{`, `,` and `}` outside quotes are strings where braces count."""
        pieces: list[Part | str] = []
        while self.at < self.end and self.src[self.at] not in " \t\n":
            pieces.extend(self._piece(braces))
        return pieces

    def until_end(self) -> Iterator[Part]:
        """Yield the pieces of a text in which only `$`, backticks and backslashes mean something."""
        while self.at < self.end:
            yield from self._quoted_piece(_HERE_RUN, "$`\\")

    def _piece(self, braces: bool) -> Iterator[Part | str]:
        self.bodies.effort.spend()
        char = self.src[self.at]
        if run := _RUN.match(self.src, self.at, self.end):
            if run[0].startswith("#") and self.at == self.start:
                raise Unread("a comment is in the place of a word")
            self.at = run.end()
            plain = _QUOTED.sub(r"\1\2\3", run[0])
            yield Part(PartKind.LITERAL, plain, quoted=len(plain) != len(run[0]))
        elif char in "{},":
            self.at += 1
            yield char if braces else Part(PartKind.LITERAL, char)
        elif char in "*?[":
            yield self._glob(char)
        elif char in "'\"\\$`":
            yield from self._quotation(char)
        elif char in "<>" and self.at in self.bodies.found:
            yield self._body(PartKind.INPUT if char == "<" else PartKind.OUTPUT)
        elif char == "~":
            yield self._tilde()
        else:
            raise Unread("an operator or a control character is inside a word")

    def _quotation(self, char: str) -> Iterator[Part]:
        """Read what a run leaves: a quote that nothing closes, a backslash that continues the line."""
        following = self.src[self.at + 1 : self.at + 2] if self.at + 1 < self.end else ""
        if char == "'":
            raise Unread("a quotation is not closed")
        if char == '"' or (char == "$" and following == '"'):
            self.at += 1 if char == '"' else 2
            yield from self._double()
        elif char == "$" and following == "'":
            yield Part(PartKind.LITERAL, self._ansi(), quoted=True)
        elif char == "\\":
            if self.at + 1 >= self.end:
                raise Unread("a backslash is at the end")
            self.at += 2
        else:
            yield self._dollar(quoted=False)

    def _double(self) -> Iterator[Part]:
        yield Part(PartKind.LITERAL, "", quoted=True)
        while self.at < self.end and self.src[self.at] != '"':
            yield from self._quoted_piece(_DOUBLE_RUN, '$`"\\')
        if self.at >= self.end:
            raise Unread("a quotation is not closed")
        self.at += 1

    def _quoted_piece(self, run: re.Pattern[str], escapable: str) -> Iterator[Part]:
        self.bodies.effort.spend()
        if found := run.match(self.src, self.at, self.end):
            self.at = found.end()
            yield Part(PartKind.LITERAL, found[0], quoted=True)
        elif self.src[self.at] == "\\":
            following = self.src[self.at + 1 : self.at + 2]
            self.at += 2
            if following != "\n":
                text = following if following and following in escapable else f"\\{following}"
                yield Part(PartKind.LITERAL, text, quoted=True)
        else:
            yield self._dollar(quoted=True)

    def _ansi(self) -> str:
        text, at = "", self.at + 2
        while at < self.end and self.src[at] != "'":
            found = _ANSI.match(self.src, at, self.end)
            if self.src[at] == "\\" and found is None:
                raise Unread("an escape in $'…' is not known")
            text += _unescaped(found) if found else self.src[at]
            at = found.end() if found else at + 1
        if at >= self.end:
            raise Unread("a quotation is not closed")
        if "\0" in text:
            raise Unread("a quotation holds NUL, which ends it early")
        self.at = at + 1
        return text

    def _dollar(self, *, quoted: bool) -> Part:
        """Read what begins with `$` or a backtick."""
        if self.at in self.bodies.found:
            if self.src.startswith("$((", self.at):
                raise Unread("a substitution may be an arithmetic expansion")
            return self._body(PartKind.SUBSTITUTION, quoted)
        if self.src[self.at] == "`":
            raise Unread("a backtick opens a substitution that was not found")
        start = self.at + 1
        for pattern, kind in (
            (_BRACED, PartKind.VARIABLE),
            (_EXPANSION, PartKind.EXPANSION),
            (_ARITHMETIC, PartKind.ARITHMETIC),
            (_NAME, PartKind.VARIABLE),
        ):
            if found := pattern.match(self.src, start, self.end):
                if kind is PartKind.ARITHMETIC:
                    _must_be_a_sum(found[0])
                self.at = found.end()
                name = found[1] if pattern is _BRACED else found[0]
                return Part(kind, name if kind is PartKind.VARIABLE else f"${found[0]}", quoted)
        if self.src[start : start + 1] in {"{", "(", "["} and start < self.end:
            raise Unread("an expansion is too involved to tell what it does")
        if not quoted and self.src[start : start + 1] in {",", "}"} and start < self.end:
            raise Unread("braces may put something behind a dollar sign")
        self.at = start
        return Part(PartKind.LITERAL, "$", quoted=True)

    def _body(self, kind: PartKind, quoted: bool = False) -> Part:
        end, node = self.bodies.found[self.at]
        if end > self.end:
            raise Unread("a substitution goes beyond its word")
        self.at = end
        return Part(kind, "", quoted, node)

    def _glob(self, char: str) -> Part:
        if char == "[":
            found = _BRACKET.match(self.src, self.at, self.end)
            if found is None:
                return self._lone_bracket()
            self.at = found.end()
            return Part(PartKind.GLOB, found[0])
        start = self.at
        while self.at < self.end and self.src[self.at] in "*?":
            self.at += 1
        return Part(PartKind.GLOB, self.src[start : self.at])

    def _lone_bracket(self) -> Part:
        """A bracket nothing closes is a bracket; one that holds quotes or expansions is not read."""
        close = self.src.find("]", self.at, self.end)
        if close >= 0 and _SEPARATOR.search(self.src, self.at, close) is None:
            raise Unread("a bracket expression is too involved to tell what it matches")
        self.at += 1
        return Part(PartKind.LITERAL, "[", quoted=True)

    def _tilde(self) -> Part:
        """Bash expands `~` at the start of a word, and behind `=` or `:` of what looks like an assignment."""
        before = self.src[self.start : self.at]
        opens = self.at == self.start or (
            before[-1] in "=:" and (self.assigned or _ASSIGNS.match(before) is not None)
        )
        if before.endswith(("{", ",")):
            raise Unread("a tilde is at the start of an alternative in braces")
        if opens:
            found = _TILDE.match(self.src, self.at, self.end)
            if found is None:
                raise Unread("it is unclear whose home a tilde means")
            self.at = found.end()
            return Part(PartKind.TILDE, found[0])
        self.at += 1
        return Part(PartKind.LITERAL, "~", quoted=True)


def _must_be_a_sum(text: str) -> None:
    """Variables in `$((…))` are evaluated: a value may hold a subscript, and that a command.

    Where the brackets do not pair up, bash reads a subshell in a substitution instead.
    """
    if _NUMBERS.fullmatch(text) is None:
        raise Unread("it calculates with variables, whose values are evaluated as code")
    depth = 0
    for char in text[2:-2]:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            break
    if depth:
        raise Unread("an arithmetic expansion may be a substitution")


def _unescaped(found: re.Match[str]) -> str:
    """Return the value of an escape of `$'…'`, as bytes read as Latin-1."""
    if found["hex"] or found["octal"]:
        return chr(int(found["hex"][1:], 16) if found["hex"] else int(found["octal"], 8) & 0xFF)
    if found["code"]:
        try:
            return chr(int(found["code"][1:], 16)).encode().decode("latin-1")
        except (ValueError, OverflowError):
            raise Unread("an escape in $'…' names no character") from None
    if found["control"]:
        return chr(ord(found["control"][1].upper()) ^ 0x40)
    return _ONE.get(found["one"], found["one"])
