# SPDX-License-Identifier: Apache-2.0
"""The command line: the arguments of each command, read from ``commands.txt``, and what is said of a mistyped one."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import SimpleNamespace

from .._typing import Any, NoReturn
from . import console
from .commands import ABOUT, COMMANDS, EXAMPLES
from .console import OK, UsageError

# Each kind of number: the words for it, the least and the most. Some options have a range of their own.
_NUMBERS: dict[str, tuple[str, float, float]] = {
    "N": ("a whole number", 1, 1 << 30),
    "PID": ("a process ID, as gpuconf ps lists them", 1, 1 << 31),
    "PORT": ("a port", 0, 65535),
    "SECONDS": ("a number of seconds", 0, 1e9 - 1),
    "T1": ("a number of seconds", 0, 1e9 - 1),
    "T2": ("a number of seconds", 0, 1e9 - 1),
    "--contexts": ("a number of processes", 1, 1 << 16),
    "--gpus": ("a whole number (CUDA_VISIBLE_DEVICES chooses which GPUs)", 1, 1 << 30),
    "--idle": ("a number of seconds", 10, 1e9 - 1),  # the least of gocore/lease/turns, as of --slice
    "--interval": ("a number of seconds", 0.1, 3600),
    "--seconds": ("a number of seconds", 0.1, 1e6),
    "--slice": ("a number of seconds", 60, 1e9 - 1),
    "--timeout": ("a number of seconds (without --timeout the wait has no limit)", 0, 1e9 - 1),
}
_SAMPLES = {
    "SIZE": "10GiB",
    "N": "2",
    "SECONDS": "60",
    "SPEC": "2xT4",
    "MODEL": "A10",
    "CARDS": "8xT4",
    "PORT": "9401",
    "--between": "0 2.5",
    "--json-report": "report.json",
    "NAME": "training",
}
_UNITS = {"s": 1, "m": 60, "min": 60, "h": 3600}

# What people write who know other tools, or gpuconf's other commands, and what they mean by it.
_MEANT = {
    "": {"-v": "--version", "-version": "--version", "-?": "--help"},
    "config": {
        "limit": "GPUCONF_LIMIT=6GiB before the command, or limit in gpuconf.toml",
        "set": "a variable such as GPUCONF_LIMIT=6GiB, or gpuconf.toml",
        "--set": "a variable such as GPUCONF_LIMIT=6GiB, or gpuconf.toml",
    },
    "env": {"--limit": "--memory", "--gpus": "gpuconf run --gpus", "--num-gpus": "gpuconf run --gpus"},
    "lease": {"--limit": "--memory", "--num-gpus": "--gpus"},
    "ledger check": {"--ledger": "--folder"},
    "ledger list": {"--ledger": "--folder"},
    "plan": {"--memory": "--limit"},
    "ps": {"--watch": "gpuconf top", "-w": "gpuconf top", "--pid": "gpuconf stats --pid"},
    "run": {"--limit": "--memory", "--num-gpus": "--gpus", "-n": "--gpus"},
    "simulate": {"--list": "--models"},
    "stats": {"--watch": "gpuconf top"},
    "top": {"--once": "--iterations 1", "-n": "--iterations", "-d": "--interval"},
}


class Argument:
    """One argument of a command, from its line in the table."""

    def __init__(self, form: str, text: str) -> None:
        words = form.replace("[=", " [=").split()
        self.form, self.help = form, text
        self.names = [word.rstrip(",") for word in words if word.startswith("-")]
        self.values = [word.strip("[]=") for word in words if not word.startswith("-") and word != "..."]
        self.choices = self.values[0][1:-1].split(",") if self.values and self.values[0].startswith("{") else []
        self.after_equals = "[=" in form
        self.optional = form.startswith("[") or " [" in form
        self.more = words[-1] == "..."
        self.rest = self.more and not (self.names and self.names[0][2:])  # of the words
        self.is_option = bool(self.names and self.names != ["--"])
        self.needs = text.partition("needs --")[2].rstrip(")")  # another option
        self.required = "(required)" in text or not (self.is_option or self.optional or self.more)
        name = self.names[0] if self.is_option else self.values[0]
        self.attribute = "words" if name == "COMMAND" else name.lstrip("-").replace("-", "_").lower()
        self.default = None if self.values or len(self.names) > 1 else False

    def given(self, options: Options) -> bool:
        """Report whether a command line has the argument, and not its --no- form."""
        value = getattr(options, self.attribute)
        return value is not None and value is not False


class Options(SimpleNamespace):
    """A parsed command line: an attribute for each argument, None or False where it is missing."""

    command: str
    arguments: list[Argument]  # of the command

    def refuse(self, names: str, why: str) -> None:
        """Raise UsageError if one of these arguments is given: ``why``, where the first ``{}`` stands for its name."""
        known = {each.attribute: each for each in self.arguments}
        for argument in (known[name] for name in names.split()):
            if argument.given(self):
                raise UsageError(why.replace("{}", argument.names[0] if argument.names else argument.values[0], 1))


def paragraphs(command: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a command's text: ``summary``, ``usage``, ``text``, ``arguments`` or ``example``, and it."""
    kind, described = "summary", COMMANDS[command][1]
    if "{policies}" in described:
        from ..plans.generated.policies import POLICIES

        described = described.replace("{policies}", f"{{{','.join(POLICIES)}}}")
    for part in described.split("\n\n"):
        if part.startswith("usage: "):
            yield "usage", part.removeprefix("usage: ")
        elif part.startswith("example:\n"):
            yield "example", part.removeprefix("example:\n")
        else:
            is_arguments = "  " in part.partition("\n")[0]
            yield "arguments" if is_arguments else kind, part if is_arguments else part.replace("\n", " ")
        kind = "text"


def arguments_of(part: str) -> list[Argument]:
    """Return the arguments that a paragraph lists."""
    lines = part.replace("\n  ", " ").splitlines()
    return [Argument(form, text.strip()) for form, _, text in (line.partition("  ") for line in lines)]


HELP = Argument("-h, --help", "show this help and exit")


def arguments(command: str) -> list[Argument]:
    """Return all arguments of a command."""
    if not COMMANDS[command][0]:  # it has commands of its own
        return [HELP]
    lists = [arguments_of(part) for kind, part in paragraphs(command) if kind == "arguments"]
    return [*(argument for some in lists for argument in some), HELP]


def parsed(words: Sequence[str]) -> Options:
    """Parse a command line. Raises SystemExit after help, and UsageError, which names the command in ``command``."""
    command, rest = _command(words)
    try:
        return _Parsing(command, rest).run()
    except UsageError as error:
        error.command = f"gpuconf {command}"
        raise


def _command(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    name = words[0]
    if name in ("-h", "--help"):
        _show(words[1] if len(words) > 1 and words[1] in COMMANDS else "")
    if name.startswith("-"):
        having = [command for command in ("run", *COMMANDS) if name.partition("=")[0] in _options(command)]
        if having:
            raise UsageError(f"{name} is an option of a command: write gpuconf {having[0]} {name} ...")
        raise UsageError(_refused(name, ["--help", "--version"]))
    if name not in COMMANDS or " " in name:
        guess = did_you_mean(name, ["version", *COMMANDS]).replace(" version?", " gpuconf --version?")
        names = ", ".join(command for command in COMMANDS if " " not in command)
        raise UsageError(f"there is no command {name!r}.{guess} The commands are {names}")
    actions = [command for command in COMMANDS if command.startswith(f"{name} ")]
    if not actions or words[1:2] in (["-h"], ["--help"]):
        return name, words[1:]
    action = f"{name} {words[1] if len(words) > 1 else ''}"
    if action not in actions:
        if len(words) == 1:
            raise UsageError(f"name what to do: {', '.join(f'gpuconf {each}' for each in actions)}")
        raise UsageError(
            f"there is no command {action!r}.{did_you_mean(action, actions)} There are {', '.join(actions)}"
        )
    return action, words[2:]


def function(command: str) -> Any:
    """Return the function that runs a command. Only its module is imported, since gpuconf run starts other programs."""
    module, _, name = COMMANDS[command][0].partition(":")
    return getattr(__import__(f"{__package__}.{module}", fromlist=[name]), name)


class _Parsing:
    """One pass over the words of a command."""

    def __init__(self, command: str, words: Sequence[str]) -> None:
        self.command, self.words = command, list(words)
        self.all = arguments(command)
        self.named = {name: argument for argument in self.all if argument.is_option for name in argument.names}
        self.places = [argument for argument in self.all if not argument.names]
        self.runs_program = any(place.rest for place in self.places)
        self.options = Options()
        self.options.command, self.options.arguments = command, self.all
        for argument in self.all:
            setattr(self.options, argument.attribute, [] if argument.rest and not argument.names else argument.default)

    def run(self) -> Options:
        while self.words:
            word = self.words.pop(0)
            if word == "--":
                self._after_dashes()
            elif len(word) > 1 and word[0] == "-" and not word[1].isdigit():
                self._option(word)
            else:
                self._place(word)
        for argument in self.all:
            needed = self.named.get(f"--{argument.needs}")
            if needed and argument.given(self.options) and not needed.given(self.options):
                raise UsageError(f"{argument.names[0]} needs {needed.names[0]}")
            if argument.required and not argument.given(self.options):
                name = argument.names[0] if argument.is_option else argument.values[0]
                raise UsageError(f"{name} is missing: {argument.help.removesuffix(' (required)')}")
        return self.options

    def _after_dashes(self) -> None:
        if any(argument.names == ["--"] for argument in self.all):
            self.options.program, self.words = self.words, []
        while self.words:
            self._place(self.words.pop(0))

    def _place(self, word: str) -> None:
        if not self.places:
            self._unexpected(word)
        place = self.places[0]
        if place.rest:
            setattr(self.options, place.attribute, [word, *self.words])
            self.words = []
            return
        del self.places[0]
        kind = place.values[0]
        setattr(self.options, place.attribute, _value(place, kind, kind, self._not_the_program("", kind, word)))

    def _option(self, word: str) -> None:
        name, equals, value = word.partition("=")
        argument = self.named.get(name)
        if argument is None and not word.startswith("--") and f"-{name}" not in self.named:
            glued = self.named.get(word[:2])
            if glued is not None and glued.rest:  # -mtimeit
                argument, equals, value = glued, "=", word[2:]
        if argument is None:
            whole = [option for option in self.named if option.startswith(name) and name.startswith("--")]
            if len({id(self.named[option]) for option in whole}) != 1 or self.runs_program:
                raise UsageError(_refused(name, self.named, self.command))
            name, argument = whole[0], self.named[whole[0]]
        if argument is HELP:
            _show(self.command)
        if not argument.values:
            if equals:
                raise UsageError(f"{name} takes no value, but got {value!r}")
            setattr(self.options, argument.attribute, not name.startswith("--no-"))
        elif argument.rest:
            setattr(self.options, argument.attribute, [*([value] if equals else []), *self.words])
            self.words = []
        else:
            self._take(argument, name, [value] if equals else [])

    def _take(self, argument: Argument, name: str, given: list[str]) -> None:
        """Set an option to its values: those after an equals sign, or the next words."""
        if not given and argument.after_equals:
            setattr(self.options, argument.attribute, True)
            return
        if not given and argument.optional and (not self.words or self.words[0].startswith("-")):
            self.words = self.words[1:] if self.words[:1] == ["-"] else self.words
            given = ["-"]
        for kind in argument.values[len(given) :]:
            if not self.words or self.words[0].startswith("--") or self.words[0] in self.named:
                sample = _SAMPLES.get(kind) or _SAMPLES.get(name)
                sample = f", such as {name} {sample}" if sample else ""
                raise UsageError(f"{name} needs {' and '.join(argument.values)}{sample}: {argument.help}")
            given.append(self._not_the_program(name, kind, self.words.pop(0)))
        if argument.values == ["FILE"] and not (argument.optional and given == ["-"]) and name != "--message":
            _check_output(name, given[0])
        values = [_value(argument, name, kind, text) for kind, text in zip(argument.values, given, strict=True)]
        value: Any = values if len(values) > 1 else values[0]
        if argument.more:
            value = [*(getattr(self.options, argument.attribute) or ()), value]
        setattr(self.options, argument.attribute, value)

    def _not_the_program(self, name: str, kind: str, word: str) -> str:
        """Return a value. Raises UsageError if it is missing, and the program stands in its place."""
        sample = _SAMPLES.get(kind) or _SAMPLES.get(name)
        if not self.runs_program or sample is None or not word[:1].isalpha():
            return word
        from ..jobs.execute import PYTHONS, is_one_of, which

        if is_one_of(PYTHONS, word) if kind == "NAME" else which(word) or word.endswith(".py"):
            needs = f"{name} needs {kind}, such as {name}" if name else f"{kind} comes first, such as"
            raise UsageError(f"{needs} {sample}, but got {word!r}, which is a program")
        return word

    def _unexpected(self, word: str) -> NoReturn:
        guess = _MEANT.get(self.command, {}).get(word)
        if guess is None and word.isdigit() and "--pid" in _MEANT.get(self.command, {}):
            guess = f"gpuconf stats --pid {word}"
        if guess is None and self.command == "plan":
            guess = "gpuconf plan --gpu CARDS -- PROGRAM ..."
            if os.path.isfile(self.options.trace) and not word.endswith(".py"):
                guess = f"gpuconf diff {self.options.trace} {word}"
        if guess is None and self.command == "env":
            guess = f"gpuconf run --memory {self.options.memory} {word} ..."
        if guess is None and self.command == "visible":
            guess = f"gpuconf visible {','.join([self.options.value, word, *self.words])}"
        if guess is None and "--folder" in self.named:
            guess = f"--folder {word}"
        if guess is None and self.command == "config":
            guess = _MEANT["config"]["set"]
        question = f". Did you mean {guess}?" if guess else f": see gpuconf {self.command} --help"
        raise UsageError(f"unexpected argument {word!r}{question}")


def _check_output(name: str, path: str) -> None:
    """Refuse a file that cannot be written, or must not be: better now than at the end of a long program."""
    if not path:  # as of a variable that is not set
        raise UsageError(f"{name} needs the name of a file, but got ''")
    if path == "-":
        raise UsageError(f"{name} writes a file, and not to standard output: name one")
    folder = os.path.dirname(path) or os.curdir
    if not os.path.isdir(folder):
        raise UsageError(f"{name}: there is no folder {folder}")
    if os.path.isdir(path) and name != "--record":
        raise UsageError(f"{name}: {path} is a folder")
    if path.endswith((".py", ".ipynb")):
        raise UsageError(f"{name} writes a file, and {path!r} is a program: name another")


def _value(argument: Argument, name: str, kind: str, text: str) -> Any:
    """Return what the text of an option, or of an argument, means."""
    if kind == "FOLDER" and not text:  # as of a variable that is not set
        raise UsageError(f"{name or kind} needs the name of a folder, but got ''")
    if argument.choices:
        if text not in argument.choices:
            guess = did_you_mean(text, argument.choices)
            if argument.more and "," in text:
                guess = f" Repeat it instead: {name} {f' {name} '.join(text.split(','))}"
            raise UsageError(
                f"{name} must be one of {', '.join(argument.choices)}, but got {text!r}{guess and '.'}{guess}"
            )
        return text
    if kind not in _NUMBERS:
        return text
    what, least, most = _NUMBERS.get(name, _NUMBERS[kind])
    whole = kind in ("N", "PID", "PORT")
    try:
        number = int(text) if whole else float(text)
    except ValueError:
        number = -1.0
    if least <= number <= most:
        return number
    unit = text.lstrip("0123456789.")
    seconds = f"; did you mean {float(text[: -len(unit)]) * _UNITS[unit]:g}?" if _is_time(text, unit, whole) else ""
    upper = f" to {most:.0f}" if most < 1e6 or number > most else " or more"
    raise UsageError(f"{name} must be {what}, {least:g}{upper}, but got {text!r}{seconds}")


def _is_time(text: str, unit: str, whole: bool) -> bool:
    return not whole and unit in _UNITS and text[: -len(unit)].replace(".", "", 1).isdigit()


def _refused(name: str, known: Iterable[str], command: str = "") -> str:
    """Return the message for an unknown option."""
    meant = _MEANT.get(command, {}).get(name)
    guess = f" Did you mean {meant}?" if meant else did_you_mean(name, known)
    return f"there is no option {name!r}.{guess or f' gpuconf {command} --help lists the options'.replace('  ', ' ')}"


def _options(command: str) -> list[str]:
    return [name for argument in arguments(command) if argument.is_option for name in argument.names]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a question for the word that comes closest to a mistyped one, or an empty text."""
    from .._missing import closest

    known = list(known)
    best = f"-{word}" if f"-{word}" in known else closest(word, known)
    return best and f" Did you mean {best}?"


# Help.


def show_help(options: Options) -> int:
    """Run ``gpuconf help``."""
    _show(_command([*options.words, "--help"])[0] if options.words else "")


def _show(command: str) -> NoReturn:
    text = help_of(command) if command else overview()
    print(text) if sys.stdout is not None else console.complain(text)
    raise SystemExit(OK)


def overview() -> str:
    """Return the help of ``gpuconf`` itself."""
    listed = [(name, next(paragraphs(name))[1]) for name in COMMANDS if " " not in name]
    options = [("-h, --help", "show this help and exit"), ("-V, --version", "show gpuconf's version and exit")]
    lines = ["usage: gpuconf [-h] [-V] COMMAND ...", "", *_filled(ABOUT, 0)]
    example = [f"  {line}" for line in EXAMPLES.splitlines()]
    for title, part in (("commands", _columns(listed)), ("options", _columns(options)), ("example", example)):
        lines += ["", f"{title}:", *part]
    return "\n".join(lines)


def usage(command: str) -> str:
    """Return how a command is called."""
    for kind, part in paragraphs(command):
        if kind == "usage":
            return part
    options = [argument for argument in arguments(command) if argument.is_option]
    forms = ["[-h]", *(each.form if each.required else f"[{each.form}]" for each in options if each is not HELP)]
    forms += [f"[{each.form}]" if each.more else each.form for each in arguments(command) if not each.is_option]
    lines = [f"gpuconf {command}"]
    for form in (form.replace(", --", " | --") for form in forms):
        if len(lines[-1]) + len(form) > _WIDTH - 10:
            lines.append(" " * len(f"gpuconf {command}"))
        lines[-1] += f" {form}"
    return "\n       ".join(lines)


def help_of(command: str) -> str:
    """Return the help of a command."""
    lines = [f"usage: {usage(command)}"]
    headed = False
    for kind, part in paragraphs(command):
        if kind == "text":
            lines += ["", *_filled(part, 0)]
            headed = part.endswith(":")
        elif kind == "arguments":
            listed = arguments_of(part)
            if headed:
                lines += _columns([(each.form, each.help) for each in listed])
            for heading, some in (
                ("arguments:", [each for each in listed if not each.is_option and not headed]),
                ("options:", [HELP, *(each for each in listed if each.is_option)] if not headed else []),
            ):
                lines += ["", heading, *_columns([(each.form, each.help) for each in some])] if some else []
        elif kind == "example":
            lines += ["", "example:", *(f"  {line}" for line in part.splitlines())]
    return "\n".join(lines)


_WIDTH, _NAMES = 80, 24  # columns of a line, and of the arguments' names


def _filled(text: str, indent: int) -> list[str]:
    import textwrap

    from .output import terminal_width

    blank = " " * indent
    width = max(40, min(_WIDTH, terminal_width()))
    return textwrap.wrap(
        text, width, initial_indent=blank, subsequent_indent=blank, break_on_hyphens=False, break_long_words=False
    )


def _columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return two columns: a name that is too long for the first has a line of its own."""
    lines = []
    for name, text in rows:
        name, choices = _short(name)
        first, *more = _filled(text if not choices else f"{text}; {choices}", _NAMES)
        if len(name) + 4 > _NAMES:
            lines += [f"  {name}", first, *more]
        else:
            lines += [f"  {name:<{_NAMES - 2}}{first.lstrip()}", *more]
    return lines


def _short(form: str) -> tuple[str, str]:
    """Return the form of an argument, without choices that are wider than a line, and these."""
    if len(form) < _WIDTH - 2 or "{" not in form:
        return form, ""
    before, _, choices = form.partition("{")
    return f"{before}NAME", "one of " + choices.partition("}")[0].replace(",", ", ")
