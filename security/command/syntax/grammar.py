"""Convert the tree-sitter tree of a command line to nodes; anything not fully understood raises `Unread`.

The tree-sitter grammar for bash is tolerant; this reader is not. Every byte must belong to a token of
a known kind or be a blank where blanks are allowed, words are read a second time by `words.py`, and
here-documents are measured by `heredoc.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import tree_sitter

from ...lazy import regex
from .compounds import COMPOUNDS, RESERVED, test_pieces
from .heredoc import here_document
from .nodes import Assignment, Command, Compound, Node, PipeNode, Redirection, Sequence, Unread, Word
from .source import SourceText, must_be_token, tokens_of
from .words import Bodies, Effort, read_target, read_word, read_words

__all__ = ["read_tree"]

_DEEPEST = 32

_FIRST = regex(r"[^ \t\n;&|()<>]+")
# The grammar takes an assignment behind `time` for the program.
_TIMED = regex(r"\s*time\s+(?:-p\s+)?[A-Za-z_][A-Za-z0-9_]*\+?=")
_ASSIGNMENT = regex(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_REDIRECTS = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_SUBSTITUTIONS = frozenset({"command_substitution", "process_substitution"})
_OPENING = regex(r"[$<>]\(|`")


def read_tree(src: str, root: tree_sitter.Node, effort: Effort) -> tuple[Node, frozenset[str]]:
    """Return what a whole line (its bytes as Latin-1) runs, and the constructs it uses.

    `effort` is how many words it may have.

    Raises:
        Unread: something in it is not understood.
    """
    if root.has_error:
        raise Unread("the line does not parse")
    text = SourceText(src, _statement, _sequence, _bodies, effort)
    node = _sequence(text, tokens_of(text, root, whole=True), 0)
    return node, frozenset(text.constructs)


def _sequence(text: SourceText, children: list[tree_sitter.Node], depth: int) -> Node:
    """Return statements with their terminators; without a terminator, a newline must part them."""
    items: list[Node] = []
    separators: list[str] = []
    last_end = -1
    for child in children:
        if child.type in {";", "&", "\n"}:
            if len(separators) == len(items):
                raise Unread("there is no command in front of a separator")
            separators.append("&" if child.type == "&" else ";")
        else:
            if len(separators) < len(items):
                if "\n" not in text.src[last_end : child.start_byte].replace("\\\n", ""):
                    raise Unread("two commands are side by side")
                separators.append(";")
            items.append(_statement(text, child, depth + 1))
        last_end = child.end_byte
    if len(separators) < len(items):
        separators.append(";")
    if len(items) == 1 and separators == [";"]:
        return items[0]
    return Sequence(tuple(items), tuple(separators))


def _statement(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    if depth > _DEEPEST:
        raise Unread("commands are nested too deeply")
    read = _READERS.get(node.type)
    if read is None:
        raise Unread("the line uses a construct that is not read")
    return read(text, node, depth)


def _bodies(text: SourceText, node: tree_sitter.Node, depth: int) -> Bodies:
    """Return the outermost substitutions below a node."""
    if _OPENING.search(text.src, node.start_byte, node.end_byte) is None:
        return Bodies(text.effort)
    found: dict[int, tuple[int, Node]] = {}
    waiting = [node]
    while waiting:
        here = waiting.pop()
        if here.type in _SUBSTITUTIONS:
            found[here.start_byte] = (here.end_byte, _substituted(text, here, depth))
        elif here.type != "heredoc_body" or here is node:
            waiting.extend(here.children)
    return Bodies(text.effort, found)


def _substituted(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    children = tokens_of(text, node)
    opening = children[0].type
    if opening not in {"$(", "`", "<(", ">("} or children[-1].type not in {")", "`"}:
        raise Unread("a substitution is opened in an unknown way")
    if opening == "`" and "\\" in text.src[node.start_byte : node.end_byte]:
        raise Unread("a backslash is between backticks")
    text.constructs.add(opening)
    inside = children[1:-1]
    if len(inside) == 1 and inside[0].type == "file_redirect":
        redirection, words = _redirection(text, inside[0], depth)
        if words:
            raise Unread("a substitution begins with a redirection")
        return Command((), redirections=(redirection,))
    return _sequence(text, inside, depth + 1)


def _command(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    """Read a simple command: assignments, words and redirections in any lawful order."""
    bodies = _bodies(text, node, depth)
    assignments: list[Assignment] = []
    redirections: list[Redirection] = []
    words: list[Word] = []
    first = ""
    for start, end, child in _stretches(text, node):
        if child is None:
            first = first or text.src[start:end]
            words += read_words(text.src, start, end, bodies)
        elif child.type == "variable_assignment":
            assignments.append(_assigned(text, child, bodies))
        else:
            redirection, more = _redirection(text, child, depth)
            redirections.append(redirection)
            words += more
    if not words:
        return Command((), tuple(assignments), tuple(redirections))
    return _named(first, Command(tuple(words), tuple(assignments), tuple(redirections)))


def _stretches(
    text: SourceText, node: tree_sitter.Node
) -> Iterator[tuple[int, int, tree_sitter.Node | None]]:
    """Yield assignments and redirections as nodes, and what lies between them as stretches of words."""
    at, has_name = node.start_byte, False
    for child in node.children:
        if child.type == "comment":
            raise Unread("a comment is inside a command")
        if child.type in _REDIRECTS or (child.type == "variable_assignment" and not has_name):
            yield at, child.start_byte, None
            yield child.start_byte, child.end_byte, child
            at = child.end_byte
            if at < node.end_byte and text.src[at] not in " \t<>&":
                raise Unread("a word goes on where the grammar sees another")
        else:
            has_name = True
    yield at, node.end_byte, None


def _named(first: str, command: Command) -> Node:
    """Keep what the shell takes for a keyword from passing as a program; `time` is one that is read."""
    found = _FIRST.match(first.lstrip(" \t"))
    keyword = found[0] if found else ""
    if keyword != "time" or command.assignments:
        if keyword in RESERVED - {"time"} and not command.assignments:
            raise Unread("a keyword is in the place of a program")
        return command
    rest = command.words[1:]
    head = "time"
    if rest and rest[0] == Word("-p"):
        head, rest = "time -p", rest[1:]
    if not rest or rest[0].text.startswith("-") or rest[0].text in RESERVED or _TIMED.match(first):
        raise Unread("it is unclear what is timed")
    return Compound("time", (head, replace(command, words=rest)))


def _words_only(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    """Read a builtin the grammar has a rule of its own for; to us its arguments are words."""
    raw = text.src[node.start_byte : node.end_byte]
    if node.type == "test_command":
        if raw.startswith("[["):
            return Compound(
                "test", test_pieces(text.src, node.start_byte, node.end_byte, _bodies(text, node, depth))
            )
        if not raw.startswith("[") or not raw.endswith("]"):
            raise Unread("arithmetic is not read as a command")
    elif "{" in raw.replace("${", "") or "=(" in raw:
        raise Unread("braces are in a declaration")
    return Command(tuple(read_words(text.src, node.start_byte, node.end_byte, _bodies(text, node, depth))))


def _assigned(text: SourceText, node: tree_sitter.Node, bodies: Bodies) -> Assignment:
    found = _ASSIGNMENT.match(text.src, node.start_byte, node.end_byte)
    if found is None:
        raise Unread("an assignment to a part of a variable is not read")
    value = read_word(text.src, found.end(), node.end_byte, bodies, assigned=True)
    return Assignment(found[1], value, found[2] == "+")


def _assignments(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    nodes = tokens_of(text, node) if node.type == "variable_assignments" else [node]
    if "\n" in text.src[node.start_byte : node.end_byte]:
        raise Unread("an assignment goes over several lines")
    bodies = _bodies(text, node, depth)
    return Command((), tuple(_assigned(text, child, bodies) for child in nodes))


def _redirection(text: SourceText, node: tree_sitter.Node, depth: int) -> tuple[Redirection, list[Word]]:
    """Return a redirection and the words behind it, which belong to the command."""
    children = node.children
    fd = ""
    if children[0].type == "file_descriptor":
        fd = text.src[children[0].start_byte : children[0].end_byte]
        children = children[1:]
    _must_stand_alone(text, node.start_byte, fd)
    must_be_token(text, children[0])
    operator, at = children[0].type, children[0].end_byte
    if operator.endswith("-"):
        return Redirection(operator[:-1], Word("-"), fd), read_words(
            text.src, at, node.end_byte, Bodies(text.effort)
        )
    words = read_target(text.src, at, node.end_byte, _bodies(text, node, depth))
    if not words or (operator in {">&", "<&"} and not words[0].is_literal):
        raise Unread("it is unclear where a redirection leads")
    if operator == "<<<":
        text.constructs.add("<<<")
    elif words[0].text.startswith("{"):
        raise Unread("braces are in the target of a redirection")
    return Redirection(operator, words[0], fd), words[1:]


def _must_stand_alone(text: SourceText, start: int, fd: str) -> None:
    """Refuse a number or `{name}` before an operator that the two readers do not both call a descriptor."""
    before = text.src[:start]
    glued = before[-1:] not in {"", " ", "\t", "\n", ";", "&", "|", "("}
    bare = before.rstrip("0123456789")
    is_number = bare != before and (not bare or bare[-1].isspace() or bare[-1] in ";&|(")
    if (fd and (glued or not fd.isdecimal())) or before.endswith("}") or is_number:
        raise Unread("it is unclear which descriptor is redirected")


def _redirected(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    children = tokens_of(text, node)
    body: Node = Command(())
    if children[0].type not in _REDIRECTS:
        body = _statement(text, children.pop(0), depth + 1)
    for child in children:
        if child.type == "heredoc_redirect":
            body = _with_here_document(text, body, child, depth)
        elif child.type in _REDIRECTS:
            redirection, words = _redirection(text, child, depth)
            body = _attached(body, (redirection,), words)
        else:
            raise Unread("something else is among redirections")
    return body


def _attached(node: Node, redirections: tuple[Redirection, ...], words: list[Word]) -> Node:
    """Return a node with redirections, which belong to the last command of a pipeline or list."""
    match node:
        case Command():
            kept = (*node.redirections, *redirections)
            return replace(node, words=(*node.words, *words), redirections=kept)
        case PipeNode(stages=nodes):
            return replace(node, stages=(*nodes[:-1], _attached(nodes[-1], redirections, words)))
        case Sequence(items=nodes):
            return replace(node, items=(*nodes[:-1], _attached(nodes[-1], redirections, words)))
        case Compound(kind="time" | "negation", pieces=(head, Command() | PipeNode() | Compound() as inner)):
            return replace(node, pieces=(head, _attached(inner, redirections, words)))
        case Compound() if not words and node.kind != "function":
            return replace(node, redirections=(*node.redirections, *redirections))
    raise Unread("a redirection follows something that cannot have one")


def _with_here_document(text: SourceText, body: Node, node: tree_sitter.Node, depth: int) -> Node:
    """Attach a here-document, and what the grammar hangs below it: the rest of the same line."""
    text.constructs.add("<<")
    inside = next((child for child in node.children if child.type == "heredoc_body"), None)
    redirection = here_document(
        text.src, node, _bodies(text, inside, depth) if inside is not None else Bodies(text.effort)
    )
    body = _attached(body, (redirection,), [])
    operator = ""
    for child in _on_its_line(text, node):
        if child.type in _REDIRECTS:
            more, words = _redirection(text, child, depth)
            body = _attached(body, (more,), words)
        elif child.type == "pipeline":
            body = _piped(text, body, tokens_of(text, child), depth)
        elif child.type in {"&&", "||"}:
            operator = child.type
        elif operator:
            body = _joined(body, operator, _statement(text, child, depth + 1))
            operator = ""
        elif not child.type.startswith(("heredoc_", "<<", "file_descriptor")):
            raise Unread("something else is on the line of a here-document")
    return body


def _on_its_line(text: SourceText, node: tree_sitter.Node) -> Iterator[tree_sitter.Node]:
    """Yield the nodes on the line of a here-document, with nothing but blanks in between."""
    at = node.start_byte
    for child in node.children:
        if child.type in {"heredoc_body", "heredoc_end"}:
            break
        if text.src[at : child.start_byte].strip(" \t"):
            raise Unread("the grammar left out a part of the line")
        must_be_token(text, child)
        at = child.end_byte
        yield child


def _piped(text: SourceText, first: Node, children: list[tree_sitter.Node], depth: int) -> Node:
    operators = tuple(child.type for child in children[::2])
    stages = tuple(_statement(text, child, depth + 1) for child in children[1::2])
    if not set(operators) <= {"|", "|&"} or not isinstance(first, Command) or len(operators) != len(stages):
        raise Unread("a here-document is inside a longer line")
    *before, last = stages
    # Of a list behind a bar, only the part in front of its first operator belongs to the pipeline.
    items = last.items if isinstance(last, Sequence) else (last,)
    piped = _flat((first, *before, items[0]), operators)
    return Sequence((piped, *items[1:]), last.separators) if isinstance(last, Sequence) else piped


def _joined(first: Node, operator: str, rest: Node) -> Sequence:
    """Join the nodes behind a here-document from the left, as a shell does."""
    if isinstance(rest, Sequence):
        return Sequence((first, *rest.items), (operator, *rest.separators))
    return Sequence((first, rest), (operator, ";"))


def _pipeline(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    children = tokens_of(text, node)
    operators = tuple(child.type for child in children[1::2])
    stages = tuple(_statement(text, child, depth + 1) for child in children[::2])
    # Both come before a whole pipeline; behind a bar they are a syntax error to bash.
    late = any(isinstance(stage, Compound) and stage.kind in {"time", "negation"} for stage in stages[1:])
    if not set(operators) <= {"|", "|&"} or len(stages) != len(operators) + 1 or late:
        raise Unread("a pipeline is joined in an unknown way")
    first = stages[0]
    if not isinstance(first, Sequence):
        return _flat(stages, operators)
    # If a redirection precedes the bar, the grammar takes all of a list for the first stage.
    piped = _flat((first.items[-1], *stages[1:]), operators)
    return Sequence((*first.items[:-1], piped), first.separators)


def _flat(stages: tuple[Node, ...], operators: tuple[str, ...]) -> PipeNode:
    """Return one pipeline; the grammar makes one of its own of the part in front of a redirection."""
    if any(isinstance(stage, Sequence) for stage in stages):
        raise Unread("a list is inside a pipeline")
    every: list[Node] = []
    between: list[str] = []
    for stage, operator in zip(stages, (*operators, ""), strict=True):
        inner = stage if isinstance(stage, PipeNode) else PipeNode((stage,), ())
        every += inner.stages
        between += (*inner.operators, operator)
    return PipeNode(tuple(every), tuple(between[:-1]))


def _list(text: SourceText, node: tree_sitter.Node, depth: int) -> Node:
    """Flatten `a && b || c`, which the grammar nests to the left."""
    items: list[Node] = []
    separators: list[str] = [";"]
    while True:
        children = tokens_of(text, node)
        if len(children) != 3 or children[1].type not in {"&&", "||"}:
            raise Unread("a list is joined in an unknown way")
        items.append(_statement(text, children[2], depth + 1))
        separators.append(children[1].type)
        node = children[0]
        if node.type != "list":
            items.append(_statement(text, node, depth + 1))
            return Sequence(tuple(reversed(items)), tuple(reversed(separators)))


_READERS: dict[str, Callable[[SourceText, tree_sitter.Node, int], Node]] = {
    "command": _command,
    "variable_assignment": _assignments,
    "variable_assignments": _assignments,
    "declaration_command": _words_only,
    "unset_command": _words_only,
    "test_command": _words_only,
    "redirected_statement": _redirected,
    "pipeline": _pipeline,
    "list": _list,
    **COMPOUNDS,
}
