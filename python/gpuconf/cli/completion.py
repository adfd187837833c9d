# SPDX-License-Identifier: Apache-2.0
"""``gpuconf completion``: the scripts are made from the table of commands."""

from __future__ import annotations

from collections.abc import Iterator

from .commands import COMMANDS
from .console import OK, UsageError
from .parser import Argument, Options, arguments, did_you_mean, paragraphs


def completion(options: Options) -> int:
    """Run the command."""
    if options.shell not in SHELLS:
        guess = did_you_mean(options.shell, SHELLS)
        raise UsageError(f"SHELL must be one of {', '.join(SHELLS)}, but got {options.shell!r}{guess and '.'}{guess}")
    print(*SHELLS[options.shell](), sep="\n")
    return OK


def _options() -> Iterator[tuple[str, list[Argument]]]:
    """Yield each command with its options."""
    for command in COMMANDS:
        yield command, [argument for argument in arguments(command) if argument.is_option]


_FIRST = [command for command in COMMANDS if " " not in command]
_SHELLS = "bash zsh fish tcsh"
_LEDGER = " ".join(command.split()[1] for command in COMMANDS if command.startswith("ledger "))

# The words that follow a command, where they are not options.
_FIRST_WORDS = {"ledger": _LEDGER, "completion": _SHELLS, "help": " ".join(_FIRST)}


def _bash() -> Iterator[str]:
    yield "# What bash completes for gpuconf."
    yield "_gpuconf() {"
    yield "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]} words="
    yield '    [[ $command == ledger && $COMP_CWORD -gt 2 ]] && command="ledger ${COMP_WORDS[2]}"'
    yield "    case $COMP_CWORD,$command in"
    yield f'        1,*) words="{" ".join(_FIRST)} --help --version" ;;'
    for command, words in _FIRST_WORDS.items():
        yield f'        2,{command}) words="{words} --help" ;;'
    for command, options in _options():
        yield f'        *,"{command}") words="{" ".join(name for each in options for name in each.names)}" ;;'
    yield "    esac"
    yield '    case "$command $before" in'
    for command, options in _options():
        for each in options:
            if each.values and not each.after_equals:
                yield f'        "{command} {each.names[0]}") words="{" ".join(each.choices)}" ;;'
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _gpuconf gpuconf"  # file names, where no word matches


def _zsh() -> Iterator[str]:
    yield "#compdef gpuconf"
    yield "local -a commands=("
    for command in _FIRST:
        yield f"    {_quoted(f'{command}:{_line(command)}')}"
    yield ")"
    yield "if (( CURRENT == 2 )); then _describe command commands; return; fi"
    yield "local command=$words[2]; shift words; (( CURRENT-- ))"
    yield "if [[ $command == ledger ]] && (( CURRENT > 2 )); then"
    yield '    command+=" $words[2]"; shift words; (( CURRENT-- ))'
    yield "fi"
    yield "case $command in"
    for command, options in _options():
        yield f"    {_quoted(command)}) _arguments -S \\"
        for each in options:
            text = each.help.replace("[", "(").replace("]", ")").replace(":", ",")
            value = (
                f":{each.values[0].strip('{}')}:{_zsh_values(each)}" if each.values and not each.after_equals else ""
            )
            for name in each.names:
                yield f"        {_quoted(f'{name}[{text}]{value}')} \\"
        words = _FIRST_WORDS.get(command)
        yield f"        {_quoted(f'1:word:({words})' if words else '*::program:_default')} ;;"
    yield "esac"


def _zsh_values(argument: Argument) -> str:
    return f"({' '.join(argument.choices)})" if argument.choices else "_files"


def _fish() -> Iterator[str]:
    for command in _FIRST:
        yield f"complete -c gpuconf -f -n __fish_use_subcommand -a {command} -d {_quoted(_line(command))}"
    for command, words in _FIRST_WORDS.items():
        yield f"complete -c gpuconf -f -n '__fish_seen_subcommand_from {command}' -a {_quoted(words)}"
    for command, options in _options():
        seen = " && ".join(f"__fish_seen_subcommand_from {word}" for word in command.split())
        for each in options:
            takes = " -r" if each.values and not each.after_equals else ""
            takes = f" -x -a {_quoted(' '.join(each.choices))}" if takes and each.choices else takes
            for name in each.names:
                letter = f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}"
                yield f"complete -c gpuconf -n '{seen}' {letter}{takes} -d {_quoted(each.help)}"


def _tcsh() -> Iterator[str]:
    names = dict.fromkeys(name for _, options in _options() for each in options for name in each.names)
    choices = {each.names[0]: each.choices for _, options in _options() for each in options if each.choices}
    parts = [f"'c/--/({' '.join(name[2:] for name in names if name.startswith('--'))})/'"]
    parts += [f"'n/{name}/({' '.join(some)})/'" for name, some in choices.items()]
    parts += [f"'n/{command}/({words})/'" for command, words in _FIRST_WORDS.items()]
    yield f"complete gpuconf {' '.join(parts)} 'p/1/({' '.join(_FIRST)})/' 'p/*/f/'"


def _line(command: str) -> str:
    return next(paragraphs(command))[1]


def _quoted(text: str) -> str:
    """Return a text as one word of bash, zsh and fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "'\\''") + "'"


SHELLS = {"bash": _bash, "zsh": _zsh, "fish": _fish, "tcsh": _tcsh}
