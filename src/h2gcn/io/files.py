"""Files: paths that can be used, writing whole or not at all, locks, our own JSON.

Our own JSON is read by a schema: bounded, typed, and told in one line. A schema is a
`msgspec.Struct` or a dataclass, and stands beside what it describes.
"""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated, Any, NoReturn, TypeVar

import msgspec
import numpy as np

from h2gcn.exceptions import InputError, shorten
from h2gcn.io.mistakes import one_line

__all__ = [
    "AlreadyThere",
    "Count",
    "Finite",
    "atomic_write",
    "cannot_read",
    "cannot_write",
    "check_can_make",
    "check_folder",
    "check_new",
    "check_not_stdout",
    "check_suffix",
    "clear_beside",
    "clear_unfinished",
    "conform",
    "decode",
    "existing_file",
    "keep",
    "lock",
    "locked",
    "new_folder",
    "parse_json",
    "plain_path",
    "read_own",
    "recover_folder",
    "replaced_folder",
    "resolved",
    "shown",
    "sync_folder",
    "usable_path",
    "whole_file",
    "write_whole",
]

try:
    import fcntl
except ImportError:  # Windows: whoever starts two programs on one place is not told
    fcntl = None  # type: ignore[assignment]


_NO_LOCKS = (
    *(errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL),
    errno.EBADF,  # of a folder on a network
)
"""What a file system says that has no locks."""
_ENDINGS = (Exception, GeneratorExit, KeyboardInterrupt, SystemExit)
"""How a program can end or go on that has time to clean up; a kill leaves none."""
# What the name of a folder ends with that is being written, and being replaced. No
# user's folder does: these are removed.
_PART, _OLDER = ".h2gcn-part", ".h2gcn-older"
_OTHER_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}
"""What a path may lead to that is no file."""


def usable_path(path: str | Path) -> Path:
    """Return a path, "~" resolved, that the system can look at, else raise.

    Nothing need be there. Names that are too long, folders that may not be looked
    into and homes of nobody are refused.
    """
    try:
        found = Path(path).expanduser()
        found.stat()
    except (FileNotFoundError, NotADirectoryError):
        return found
    except OSError as error:
        # Only the end of a name that is too long for a message as well.
        name = str(path) if len(str(path)) <= 200 else "…" + str(path)[-60:]
        raise InputError(f"cannot be read ({error.strerror}).", where=name) from None
    except (RuntimeError, ValueError) as error:  # no such home; a null character
        raise InputError(f"{str(path)!r} is no path ({one_line(error)}).") from None
    return found


def plain_path(path: str | Path) -> Path:
    """Return the path of a file, or of none yet, that can be opened, else raise.

    Pipes and devices are refused before they are opened: they may never end.
    """
    file = usable_path(path)
    if file.exists():
        kind = stat.S_IFMT(file.stat().st_mode)
        if kind != stat.S_IFREG:
            what = _OTHER_KINDS.get(kind, "something else")
            raise InputError(f"this is {what}, not a file.", where=str(file))
    return file


def existing_file(path: str | Path) -> Path:
    """Return the path of a file that is there and holds something, else raise."""
    file = plain_path(path)
    try:
        if not file.exists():
            raise InputError("there is no such file.", where=str(file))
        with file.open("rb") as handle:
            if not handle.read(1):
                raise InputError("the file is empty.", where=str(file))
    except OSError as error:
        raise InputError(
            f"the file cannot be read ({error.strerror}).", where=str(file)
        ) from None
    return file


def check_folder(path: Path, what: str, is_own: Callable[[str], object]) -> None:
    """Refuse a folder that something cannot be saved to, before the work is done.

    Parameters
    ----------
    path
        The folder; it need not be there, the one around it must.
    what
        What is saved, such as "a model".
    is_own
        Whether a name may be in the folder.
    """
    check_not_stdout(path, f"{what} is saved as a folder")
    try:
        around, there = path.parent.is_dir(), path.exists()
        names = [file.name for file in path.iterdir()] if path.is_dir() else None
    except OSError as error:
        raise cannot_read(path, error) from None
    if not around:
        raise InputError(f"the folder {path.parent} does not exist", where=str(path))
    if path.name in ("", ".."):
        raise InputError(f"{what} needs a folder of its own", where=str(path))
    if there and names is None:
        raise InputError(f"is a file; {what} is saved as a folder", where=str(path))
    if not all(is_own(name) for name in names or ()):
        raise InputError(
            f"holds other files; {what} needs a folder of its own", where=str(path)
        )


def check_not_stdout(path: str | Path, rule: str) -> None:
    """Refuse "-", by which other programs mean standard output.

    Parameters
    ----------
    path
        Where something is to be written.
    rule
        What it must be instead.
    """
    if str(path) == "-":
        raise InputError(f"-: nothing is written to standard output; {rule}")


def check_suffix(path: str | Path, suffixes: Sequence[str]) -> str:
    """Return the suffix of a file to write if it is one of `suffixes`, else raise."""
    suffix = Path(path).suffix.lower()
    rule = f"the file name must end in {' or '.join(suffixes)}"
    check_not_stdout(path, rule)
    if suffix not in suffixes:
        raise InputError(rule, value=suffix, where=str(path))
    return suffix


class AlreadyThere(InputError):
    """A file or a folder that would be replaced."""

    @classmethod
    def at_path(cls, path: Path) -> AlreadyThere:
        """Return the error of a path."""
        return cls("already exists", where=str(path), hint={"force": True})


def check_new(path: str | Path, *, force: bool) -> None:
    """Refuse a file that is already there, unless it may be replaced."""
    target = usable_path(path)
    if not force and os.path.lexists(target) and not target.is_dir():
        raise AlreadyThere.at_path(target)


@contextmanager
def new_folder(path: Path, *, parents: bool = False) -> Iterator[Path]:
    """Make a folder; if anything fails, leave none behind that is empty.

    Parameters
    ----------
    path
        May be there; then it stays.
    parents
        Whether those around it are made too.
    """
    missing = [p for p in (path, *path.parents) if not p.exists()]
    try:
        try:
            path.mkdir(parents=parents, exist_ok=True)
        except OSError as error:
            why = error.strerror or error
            raise InputError(
                f"cannot make this folder ({why})", where=str(path)
            ) from None
        yield path
    except BaseException:
        for folder in missing:
            with suppress(OSError):  # it is not empty
                folder.rmdir()
        raise


@contextmanager
def atomic_write(path: str | Path, *, force: bool = True) -> Iterator[Path]:
    """Yield a path beside `path` to write to; it takes the name at the end.

    For writers that open their file by its name. Whoever reads `path` sees the old
    file or the whole new one. On an exception the new one is removed and the old one
    stays. What a program left here that was killed is removed too.

    Parameters
    ----------
    path
        The file to write; its folder must be there.
    force
        Whether a file that is already there, or appears meanwhile, is replaced.
    """
    target = usable_path(path)
    check_new(target, force=force)
    try:
        if target.is_dir():
            raise InputError(
                "this is a folder; a file name is needed.", where=str(target)
            )
        # Made here, and not by the writer, so that the message is ours.
        beside, held = _make_beside(target, *_hidden(target))
    except OSError as error:
        why = error.strerror or error
        raise InputError(
            f"cannot write here ({why}).", where=str(target.parent)
        ) from None
    with _renamed(beside, target, held, force=force):
        yield beside


def clear_unfinished(path: Path) -> None:
    """Remove what programs that were killed in `atomic_write` left beside a file."""
    clear_beside(path, *_hidden(path), Path.unlink)


def _hidden(target: Path) -> tuple[str, str]:
    """Return how a name beside a file begins and ends.

    The suffix stays last: some writers look at it.
    """
    return f".{target.stem}.", f".tmp{target.suffix}"


@contextmanager
def whole_file(file: Path) -> Iterator[IO[bytes]]:
    """Open a file that takes its name once all of it is on the disk.

    As `atomic_write`, and a crash of the machine does not undo it. It is slower, as
    the disk has to confirm what it wrote.
    """
    try:
        part, held = _make_beside(file, f"{file.name}.", ".part")
    except OSError as error:
        raise cannot_write(file, error) from None
    with _renamed(part, file, held), part.open("wb") as stream:
        yield stream
        stream.flush()
        os.fsync(stream.fileno())
    sync_folder(file.parent)


def _make_beside(target: Path, start: str, end: str) -> tuple[Path, ExitStack]:
    """Make an empty file beside another, and keep it; clear what others left there.

    Returns
    -------
    tuple
        The file, under a name of its own, so that two who write do not meet; and what
        keeps it, to be closed when it is written.
    """
    clear_beside(target, start, end, Path.unlink)
    while True:
        beside = target.with_name(f"{start}{secrets.token_hex(4)}{end}")
        beside.open("xb").close()
        held = keep(beside)
        if held is not None:
            return beside, held


def clear_beside(
    target: Path, start: str, end: str, remove: Callable[[Path], object]
) -> None:
    """Remove what programs that are gone left beside a file or folder.

    Without locks nobody can tell whether they are gone: all stays.

    Parameters
    ----------
    target
        What they were about to write.
    start, end
        What stands in its name before and after eight hexadecimal digits.
    remove
        Called with what they left.
    """
    own = re.compile(re.escape(start) + r"[0-9a-f]{8}" + re.escape(end))
    with suppress(OSError):
        for path in list(target.parent.iterdir()):
            if own.fullmatch(path.name) is not None:
                held = ExitStack()
                with held, suppress(OSError):
                    if _lock(path, held):
                        remove(path)


def keep(path: Path) -> ExitStack | None:
    """Keep a file or folder that was just made from being cleared by others.

    Returns
    -------
    ExitStack or None
        What keeps it, until it is closed; None where somebody was faster, and it is
        gone, or about to be.
    """
    held = ExitStack()
    with suppress(FileNotFoundError):
        if _lock(path, held) is not False:
            return held
    held.close()
    return None


def _lock(path: Path, held: ExitStack) -> bool | None:
    """Lock a path if nobody else has; return whether, None where there are no locks."""
    if fcntl is None:
        return None
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    held.callback(os.close, handle)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return os.path.samestat(os.fstat(handle), path.stat())


@contextmanager
def resolved(path: Path) -> Iterator[Path]:
    """Yield a path without links; errors about it name it as it was given."""
    target = path.resolve()
    try:
        yield target
    except InputError as error:
        if error.where == str(target):
            error.where = str(path)
        raise


@contextmanager
def replaced_folder(
    path: Path,
    remove: Callable[[Path], object],
    check: Callable[[], object] = lambda: None,
    *,
    force: bool,
) -> Iterator[Path]:
    """Yield a folder beside `path` to write to; it takes the name at the end.

    On an exception the old folder stays. After a kill, `recover_folder` brings it back.

    Parameters
    ----------
    path
        The folder to write; it need not exist.
    remove
        Called with the old folder, or with the new one if it was not finished. It must
        remove only files that it knows.
    check
        Called before an old folder is moved away; raises if it must stay.
    force
        Whether a folder that is not empty is replaced.
    """
    recover_folder(path, remove)
    beside, held = _make_folder_beside(path)
    older = beside.with_name(beside.name.removesuffix(_PART) + _OLDER)
    with held:
        try:
            yield beside
            if force and path.exists():
                check()
                moved = keep(path)  # or another program takes it for a leftover
                if moved is None:
                    raise InputError("another program uses it", where=str(path))
                held.enter_context(moved)
                path.rename(older)
                beside.rename(path)
            else:
                _take_name(beside, path)
        except OSError as error:
            raise cannot_write(path, error) from None
        finally:
            if older.exists() and not path.exists():
                older.rename(path)
            for folder in (beside, older):
                with suppress(OSError):
                    remove(folder)


def _take_name(beside: Path, path: Path) -> None:
    """Give a folder a name that no other file has, else raise."""
    with suppress(OSError):
        path.rmdir()  # only if it is empty
    try:
        beside.rename(path)
    except OSError:
        if os.path.lexists(path):
            raise AlreadyThere.at_path(path) from None
        raise


def _make_folder_beside(path: Path) -> tuple[Path, ExitStack]:
    while True:
        beside = path.with_name(f".{path.name}-{secrets.token_hex(4)}{_PART}")
        try:
            beside.mkdir()
        except OSError as error:
            raise cannot_write(path, error) from None
        held = keep(beside)
        if held is not None:
            return beside, held


def check_can_make(path: Path) -> None:
    """Raise unless a folder can be made beside another one."""
    beside, held = _make_folder_beside(path)
    with held:
        beside.rmdir()


def recover_folder(path: Path, remove: Callable[[Path], object]) -> None:
    """Bring back a folder if a program was killed while it replaced it.

    Parameters
    ----------
    path, remove
        As of `replaced_folder`.
    """

    def restore(older: Path) -> None:
        if path.exists():
            remove(older)
        else:
            older.rename(path)

    clear_beside(path, f".{path.name}-", _OLDER, restore)
    clear_beside(path, f".{path.name}-", _PART, remove)


@contextmanager
def _renamed(
    beside: Path, target: Path, held: ExitStack, *, force: bool = True
) -> Iterator[None]:
    """Give what was written beside a file its name; remove it if anything fails."""
    with held:
        try:
            yield
            if force:
                beside.replace(target)
            else:
                _link(beside, target)
        except _ENDINGS as error:
            with suppress(OSError):
                beside.unlink()
            if isinstance(error, OSError):
                raise cannot_write(target, error) from None
            raise


def _link(beside: Path, target: Path) -> None:
    """Give a file a name that nobody has, else raise."""
    try:
        try:
            os.link(beside, target)
        except FileExistsError:
            raise
        except OSError:  # there are no hard links here
            os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            beside.replace(target)
        else:
            beside.unlink()
    except FileExistsError:
        raise AlreadyThere.at_path(target) from None


def write_whole(file: Path, content: bytes) -> None:
    """Write a file of which all is on the disk, or nothing."""
    with whole_file(file) as stream:
        stream.write(content)


def sync_folder(folder: Path) -> None:
    """Put a new file's name on the disk, where folders can be opened."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def cannot_read(path: Path, error: OSError) -> InputError:
    """Return the error of a place that cannot be read."""
    return InputError(f"cannot be read ({error.strerror or error})", where=str(path))


def cannot_write(path: Path, error: OSError) -> InputError:
    """Return the error of a place that cannot be written to."""
    return InputError(f"cannot be written ({error.strerror or error})", where=str(path))


def lock(handle: int, path: Path) -> None:
    """Keep other programs out until `handle` is closed; raise where one is there.

    Parameters
    ----------
    handle
        The open file or folder.
    path
        Its name, for messages.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InputError(
            "another program is writing to it; wait for it, or write to another place",
            where=str(path),
        ) from None
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise cannot_write(path, error) from None


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other programs out of a folder for a while; no file is made for that."""
    if fcntl is None:
        yield
        return
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise cannot_read(folder, error) from None
    try:
        lock(handle, folder)
        yield
    finally:
        os.close(handle)


# ---------------------------------------------------------------------- JSON of our own


LARGEST = 2**26
"""Bytes of a file of JSON; most of ours are far smaller."""
DEPTH = 64
"""How deep lists and objects may lie in each other."""
SHOWN = 60
"""Characters of a value that a message shows."""

Finite = Annotated[float, msgspec.Meta(ge=-1.7e308, le=1.7e308)]
"""A number that is neither infinite nor NaN."""
Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A whole number, from 0 on."""

_T = TypeVar("_T")
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_DOUBTFUL = re.compile(rb"\\u[dD][89a-fA-F]|\d[eE]\+?\d{3}|\d{300}")
"""What may be half of a character, or a number without end."""
_WORDS = {
    "int": "an integer",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "null": "null",
    "array": "a list",
    "object": "an object",
}
"""What a schema calls the kinds of JSON, in words."""
_KINDS: dict[type, str] = {
    **{bool: "bool", int: "int", float: "float", str: "str", type(None): "null"},
    **{list: "array", tuple: "array", dict: "object"},
}


def read_own(file: Path, limit: int = LARGEST) -> bytes:
    """Return the content of a file of ours, if it is a file and not too large.

    Parameters
    ----------
    file
        Not a pipe, which would be waited for, nor a device.
    limit
        Bytes that it may have.
    """
    file = plain_path(file)
    try:
        size = file.stat().st_size
        if size > limit:
            raise InputError(
                f"has {size:,} bytes; at most {limit:,} are read", where=str(file)
            )
        with file.open("rb") as stream:
            return stream.read()
    except OSError as error:
        raise cannot_read(file, error) from None


def parse_json(
    content: bytes,
    where: object,
    *,
    constants: Callable[[str], object] | None = None,
) -> Any:
    """Return what JSON holds, if it is neither too deep nor something else.

    Parameters
    ----------
    content
        In UTF-8.
    where
        What it is of, for messages: a file, or a line of it.
    constants
        What NaN and infinite numbers are read as, which JSON does not have, such as
        `float`; None refuses them.
    """
    if _is_too_deep(content):
        raise InputError(f"is nested more than {DEPTH} deep", where=str(where))

    def refuse(name: str) -> NoReturn:
        raise InputError(
            f"holds {name}, which is not a number of JSON", where=str(where)
        )

    def as_dict(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise InputError(f"holds {twice[:100]!r} twice", where=str(where))
        return found

    try:
        found = json.loads(
            content.decode("utf-8"),
            parse_constant=constants or refuse,
            object_pairs_hook=as_dict,
        )
        if _DOUBTFUL.search(content):
            json.dumps(found, ensure_ascii=False, allow_nan=bool(constants)).encode()
    except InputError:
        raise
    except json.JSONDecodeError as error:
        place = f"line {error.lineno}, column {error.colno}"
        raise InputError(
            f"truncated or not JSON ({error.msg}, {place})", where=str(where)
        ) from None
    except UnicodeError:
        raise InputError(
            "truncated or not JSON (not UTF-8)", where=str(where)
        ) from None
    except ValueError:  # of thousands of digits, or 1e999
        raise InputError("holds a number that is too large", where=str(where)) from None
    return found


def _is_too_deep(content: bytes) -> bool:
    """Return whether lists and objects lie too deep in each other, texts aside."""
    if content.count(b"[") + content.count(b"{") <= DEPTH:
        return False
    signs = np.frombuffer(_STRING.sub(b"", content), dtype=np.uint8)
    opening = (signs == ord("[")) | (signs == ord("{"))
    closing = (signs == ord("]")) | (signs == ord("}"))
    steps = opening.view(np.int8) - closing.view(np.int8)
    return bool(np.cumsum(steps, dtype=np.int64).max(initial=0) > DEPTH)


def decode(kind: type[_T], content: bytes, where: object) -> _T:
    """Return what JSON holds, if it is of a kind.

    Parameters
    ----------
    kind
        The schema.
    content, where
        As of `parse_json`.
    """
    return conform(kind, parse_json(content, where), where)


def conform(kind: type[_T], value: Any, where: object, at: str = "") -> _T:
    """Return a value as a kind, or raise with the field, the rule and what was found.

    Parameters
    ----------
    kind
        The schema.
    value
        Of `parse_json`.
    where
        What it is of, for messages.
    at
        The field that the value is itself, if it is one.

    Examples
    --------
    >>> conform(dict[str, Finite], {"l2": "much"}, "a.json")
    Traceback (most recent call last):
    h2gcn.exceptions.InputError: a.json: l2 must be a number, got 'much'
    """
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        told, _, path = str(error).partition(" - at ")
    steps = re.findall(r"\.(\w+)|\[(\d+|\.\.\.)\]", path)
    field, found = _find(value, [name or index for name, index in steps], told)
    field = ".".join(filter(None, [at, field]))
    raise InputError(_rule(field, told, found), where=str(where))


def _find(value: Any, steps: list[str], told: str) -> tuple[str, Any]:
    """Return the field that an error is of, and what it holds.

    Of a value of an object the path says "..." in place of its name: it is the first
    one of the kind that was found.
    """
    if not steps:
        return "", value
    step, rest = steps[0], steps[1:]
    names: list[Any] = [name for name in value if step in (name, "...")]
    if isinstance(value, list):
        names = [int(step)]
    found: list[tuple[str, Any]] = []
    for name in names:
        try:
            path, inner = _find(value[name], rest, told)
        except (LookupError, TypeError, ValueError):
            continue
        shown_name = f"{name}.{path}" if path else str(name)
        found.append((shown_name, inner))
    got = re.search(r"got `(\w+)`", told)
    fitting = [one for one in found if got and _KINDS.get(type(one[1])) == got[1]]
    return (fitting or found)[0]


def _rule(field: str, told: str, found: Any) -> str:
    """Return what a field must be in words, and what it is."""
    if missing := re.fullmatch(r"Object missing required field `(.*)`", told):
        return f"lacks {'.'.join(filter(None, [field, missing[1]]))}"
    if unknown := re.fullmatch(r"Object contains unknown field `(.*)`", told):
        return f"{field or 'it'} has no field {shown(unknown[1])}"
    rule = re.search(r"Expected `([^`]*)`(.*?)(?:, got .*)?$", told)
    if rule is None:  # a rule of the schema's own, or a value that is none of a few
        told = shorten(told)
        return f"{field}: {told}" if field else told
    kinds = [_WORDS.get(name, name) for name in rule[1].split(" | ")]
    what = f"{' or '.join(kinds)}{rule[2]}"
    return f"{field or 'it'} must be {what}, got {shown(found)}"


def shown(value: Any) -> str:
    """Return a value as a message shows it: in short, whatever it is."""
    if isinstance(value, list | tuple | dict):
        return f"{_WORDS[_KINDS[type(value)]]} of {len(value):,}"
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 10**30:
        return "an integer of more than 30 digits"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
