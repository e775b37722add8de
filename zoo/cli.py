"""The command ``zoo``: one table of verbs. The work is imported inside the verb, so that help is instant."""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from zoo import __version__
from zoo.errors import ZooError, did_you_mean

_INTERRUPTED = 130
_PIPE_CLOSED = 141  # as a shell reports a process that SIGPIPE ended


class _Parser(argparse.ArgumentParser):
    """Argparse that offers the nearest name for a wrong verb or choice."""

    def __init__(self, **kwargs: Any) -> None:
        # An abbreviated flag would change its meaning when a longer one is added.
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            what = "command" if action.dest == "verb" else "value"
            hint = did_you_mean(str(value), names)
            raise argparse.ArgumentError(action, f"unknown {what} {value!r}.{hint} Known: {', '.join(names)}.")

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"zoo: {message}\n{self.prog} --help shows how it is called.\n")


@dataclass(frozen=True)
class _Verb:
    """One row of the table: what it does, who does it, what it takes."""

    summary: str
    run: str
    """``module:function``; the function takes the parsed arguments and returns the exit code."""
    arguments: Callable[[argparse.ArgumentParser], None]
    check: Callable[[argparse.Namespace], str | None] = lambda _: None
    """Returns what is wrong with a combination of arguments, or None."""


def _list_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = ("tasks", "datasets", "models")
    parser.add_argument("kind", nargs="?", choices=kinds, metavar="KIND", help=f"{', '.join(kinds)}; default: all")
    parser.add_argument("--domain", metavar="NAME", help="only this domain, for example molecules")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _show_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what", nargs="+", metavar="[task|dataset|model] NAME", help="the name, with its kind if need be"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _check_show(args: argparse.Namespace) -> str | None:
    if len(args.what) > 2:
        return "show takes one name, with its kind before it if need be: zoo show dataset freesolv"
    return None


def _validate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="tasks, data sets or models")
    parser.add_argument("--all", action="store_true", help="everything in the catalogue")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _check_validate(args: argparse.Namespace) -> str | None:
    if bool(args.names) == args.all:
        return "validate takes names, or --all for everything in the catalogue"
    return None


def _train_arguments(parser: argparse.ArgumentParser) -> None:
    _what_arguments(parser)
    parser.add_argument("--model", metavar="ARCH", help="architecture; `zoo show TASK` lists those allowed")


def _finetune_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "start", nargs="?", metavar="MODEL", help="a trained model: its folder, or a name (`zoo list models`)"
    )
    how = parser.add_argument_group("what of the model is trained")
    how.add_argument(
        "--mode", choices=("full", "head", "lora"), help="everything (default); new heads alone; adapters and heads"
    )
    how.add_argument(
        "--layer", type=_layer, metavar="N|best", help="put the heads after this layer; best: chosen on validation"
    )
    how.add_argument("--merge", action="store_const", const=True, help="with lora: also write the merged bundle")
    _what_arguments(parser)


def _layer(text: str) -> int | str:
    if text == "best":
        return text
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor 'best'") from None


def _what_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("task", nargs="?", metavar="TASK", help="a task by name (`zoo list tasks`)")
    own = parser.add_argument_group("your own data, instead of a task")
    own.add_argument("--data", type=Path, metavar="FILE", help="a CSV, TSV or FASTA file")
    own.add_argument("--labels", type=Path, metavar="FILE", help="labels in another file of its folder, joined by id")
    own.add_argument("--target", action="append", metavar="COL", help="column to predict; repeat for several")
    own.add_argument("--kind", choices=("regression", "binary", "multiclass"), help="kind of target; else inferred")
    own.add_argument("--input", metavar="COL", help="column of the inputs, for example SMILES; else inferred")
    split = parser.add_argument_group("split")
    split.add_argument("--split", metavar="METHOD", help="scaffold, random, cluster, column or file")
    split.add_argument("--split-column", metavar="COL", help="column that holds train, val, test")
    split.add_argument("--split-file", type=Path, metavar="FILE", help="CSV with the columns row and part")
    split.add_argument("--split-seed", type=int, metavar="N", help="seed of the split (--seed is that of the training)")
    run = parser.add_argument_group("training")
    run.add_argument("--epochs", type=int, metavar="N", help="passes over the training rows")
    run.add_argument("--batch-size", type=int, metavar="N", help="items per optimiser step, over all ranks")
    run.add_argument("--seed", type=int, metavar="N", help="seed of initialisation and order")
    run.add_argument("--budget", metavar="TIME", help="stop after 90s, 5m, 1h30m of training")
    run.add_argument(
        "--precision", choices=("32", "64", "bf16", "fp16"), help="bits of the computation; losses are in at least 32"
    )
    # None where it is not given, so that a task's own recipe counts.
    run.add_argument("--compile", action="store_const", const=True, help="compile the network; pays for large ones")
    run.add_argument(
        "--on-invalid", choices=("error", "skip"), help="rows that cannot be used; default: skip and report"
    )
    run.add_argument("--no-baseline", action="store_true", help="do not fit the baselines for comparison")
    run.add_argument("--out", type=Path, metavar="DIR", help="run folder; default runs/<task>-<model>-seed<seed>")
    run.add_argument("--resume", action="store_true", help="go on with the run in --out from its last checkpoint")
    _device_arguments(run)
    run.add_argument("--devices", type=int, metavar="N", help="processes that share each step, one per GPU if any")
    settings = parser.add_argument_group("every other setting")
    settings.add_argument("--config", type=Path, metavar="FILE", help="YAML file of settings")
    settings.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one setting, as train.lr=0.001"
    )
    settings.add_argument("--print-config", action="store_true", help="print every setting with its origin, and stop")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def _check_train(args: argparse.Namespace) -> str | None:
    if args.task and args.data:
        return f"give a task or --data, not both: {args.task!r} and {args.data}"
    if args.resume and args.out and not args.task and not args.data:
        return _check_again(args)
    if not args.task and not args.data:
        return "name a task (`zoo list tasks` shows them), or give --data FILE --target COL"
    only = [f"--{name}" for name in ("labels", "target", "kind", "input") if getattr(args, name)]
    if args.task and only:
        return f"{' and '.join(only)} go with --data; the task {args.task!r} has its own"
    return None


def _check_finetune(args: argparse.Namespace) -> str | None:
    if not args.start and not (args.resume and args.out):
        return "name the model to start from (`zoo list models`), then a task or --data FILE --target COL"
    return _check_train(args)


def _check_again(args: argparse.Namespace) -> str | None:
    """Return what cannot go with a run that is resumed from its folder alone."""
    only = [f"--{name}" for name in ("config", "labels", "target", "kind", "input") if getattr(args, name)]
    return (
        f"{' and '.join(only)}: the run in {args.out} has its own; leave them out, or name its task" if only else None
    )


def _evaluate_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="BUNDLE", help="a trained model: its folder, or a zoo model's name")
    on = parser.add_mutually_exclusive_group()
    on.add_argument("--task", metavar="TASK", help="score on this task; default: the one it was trained on")
    on.add_argument("--data", type=Path, metavar="FILE", help="score on this labelled file")
    parser.add_argument(
        "--labels", type=Path, metavar="FILE", help="with --data: labels in another file of its folder, joined by id"
    )
    parts = ("train", "val", "calibration", "test")
    parser.add_argument("--input", metavar="COL", help="with --data: column of the inputs; default: as in training")
    parser.add_argument("--part", choices=parts, help="part of the split; default: test")
    parser.add_argument("--batch-size", type=int, metavar="N", help="items per batch")
    parser.add_argument("--json", action="store_true", help="print JSON")


def _predict_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("bundle", metavar="BUNDLE", help="a trained model: its folder, or a zoo model's name")
    parser.add_argument("file", type=Path, metavar="FILE", help="CSV, TSV or FASTA file of inputs")
    parser.add_argument("-o", "--out", type=Path, metavar="OUT", required=True, help="CSV file to write")
    parser.add_argument("--input", metavar="COL", help="column of the inputs; default: that of the training data")
    parser.add_argument(
        "--on-invalid",
        choices=("error", "skip", "null"),
        default="null",
        help="rows without a prediction: stop, leave them out, or keep them empty with the reason (default)",
    )
    parser.add_argument("--batch-size", type=int, metavar="N", help="items per batch")
    _device_arguments(parser)


def _embed_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a trained model: its folder, or a name (esm2-8m ... esm2-15b)")
    parser.add_argument("file", type=Path, metavar="FILE", help="CSV, TSV or FASTA file of inputs")
    parser.add_argument(
        "-o", "--out", type=Path, metavar="OUT", required=True, help="file to write: .npz, .safetensors or .parquet"
    )
    parser.add_argument(
        "--level", metavar="LEVEL", help="sequence (or molecule), residue (or atom), pair; default: whole"
    )
    parser.add_argument(
        "--layer", type=int, metavar="N", help="after which layer, 0 being the embedding; default: last"
    )
    parser.add_argument("--input", metavar="COL", help="column of the inputs; default: that of the training data")
    parser.add_argument("--ids", metavar="COL", help="column of their names; default: id, if there is one")
    parser.add_argument("--dtype", choices=("float32", "float16"), default="float32", help="of the numbers written")
    parser.add_argument(
        "--on-invalid", choices=("error", "skip"), default="skip", help="inputs that cannot be read; default: skip"
    )
    _device_arguments(parser)


def _verify_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="TASK|BUNDLE", help="a task by name, or a trained model: its folder or name")
    parser.add_argument("--model", metavar="ARCH", help="architecture of a task; default: the task's own")
    parser.add_argument(
        "--rung",
        type=int,
        action="append",
        choices=range(1, 11),
        metavar="N",
        help="only this rung; repeat for several",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="one setting of a task, as train.lr=0.001"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")


def _device_arguments(parser: argparse._ActionsContainer) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), help="default: auto")
    parser.add_argument("--threads", type=int, metavar="N", help="threads on the CPU")


VERBS: dict[str, _Verb] = {
    "list": _Verb("what there is: tasks, data sets, models", "zoo.workflows.catalog:list_command", _list_arguments),
    "show": _Verb(
        "one task, data set or model in full", "zoo.workflows.show:show_command", _show_arguments, _check_show
    ),
    "validate": _Verb(
        "check tasks, data sets and models",
        "zoo.workflows.validate:validate_command",
        _validate_arguments,
        _check_validate,
    ),
    "train": _Verb(
        "train on a task, or on your own file", "zoo.workflows.train:train_command", _train_arguments, _check_train
    ),
    "finetune": _Verb(
        "go on from a trained model, on a task or your own file",
        "zoo.workflows.train:train_command",
        _finetune_arguments,
        _check_finetune,
    ),
    "evaluate": _Verb("score a trained model", "zoo.workflows.evaluate:evaluate_command", _evaluate_arguments),
    "predict": _Verb(
        "predict a file with a trained model", "zoo.workflows.predict:predict_command", _predict_arguments
    ),
    "embed": _Verb(
        "features of every input of a file, in one file", "zoo.workflows.embed:embed_command", _embed_arguments
    ),
    "verify": _Verb(
        "prove that a task's model, or a trained one, keeps the contract",
        "zoo.workflows.verify:verify_command",
        _verify_arguments,
    ),
}


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(prog="zoo", description="A model zoo for scientific machine learning.")
    parser.add_argument("--version", action="version", version=f"scizoo {__version__}")
    verbs = parser.add_subparsers(dest="verb", metavar="COMMAND", required=True)
    for name, verb in VERBS.items():
        sub = verbs.add_parser(name, help=verb.summary, description=verb.summary[0].upper() + verb.summary[1:] + ".")
        verb.arguments(sub)
        _common_arguments(sub)
        sub.set_defaults(parser=sub)
    return parser


def _common_arguments(parser: argparse.ArgumentParser) -> None:
    common = parser.add_argument_group("everywhere")
    common.add_argument(
        "--include",
        type=Path,
        action="append",
        default=[],
        metavar="DIR",
        help="folder with more tasks, data sets, cards",
    )
    common.add_argument("--mirror", type=Path, metavar="DIR", help="folder with copies of files that have a url")
    common.add_argument("--quiet", action="store_true", help="no progress and no notes")
    common.add_argument("--debug", action="store_true", help="show where an error came from")


def _parse(argv: Sequence[str]) -> argparse.Namespace:
    parser = build_parser()
    args, rest = parser.parse_known_args(_common_last(argv))
    if rest:
        flags = [flag for action in args.parser._actions for flag in action.option_strings]  # noqa: SLF001 - no other way
        hint = did_you_mean(rest[0].split("=")[0], flags)
        args.parser.error(f"unknown argument {rest[0]!r}.{hint}")
    problem = VERBS[args.verb].check(args)
    if problem:
        args.parser.error(problem)
    return args


def _common_last(argv: Sequence[str]) -> list[str]:
    """Move flags that stand before the verb behind it: ``zoo --debug train`` is ``zoo train --debug``."""
    if not argv or not argv[0].startswith("-"):
        return list(argv)
    verb = next((i for i, word in enumerate(argv) if word in VERBS), len(argv))
    return [*argv[verb : verb + 1], *argv[verb + 1 :], *argv[:verb]]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code: 0 done, 1 the work failed, 2 the input is wrong."""
    args = _parse(sys.argv[1:] if argv is None else argv)
    _show_notes(quiet=args.quiet)
    module, _, function = VERBS[args.verb].run.partition(":")
    try:
        code: int = getattr(importlib.import_module(module), function)(args)
        sys.stdout.flush()  # a closed pipe shows here, not when the interpreter ends
    except BrokenPipeError:
        # The reader has left (`zoo list | head`): nothing more can be said, and the flush at exit must not try.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _PIPE_CLOSED
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last resort: no traceback reaches a user
        if args.debug:
            traceback.print_exc()
        message, code = _explain(error)
        sys.stderr.write(f"zoo: {message}\n")
    return code


def _show_notes(*, quiet: bool) -> None:
    """Send the notes of the zoo (a download, a file that was skipped) to stderr as they are."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    log = logging.getLogger("zoo")
    log.handlers[:] = [handler]
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    log.propagate = False


def _explain(error: BaseException) -> tuple[str, int]:
    """Return what to tell the user, and the exit code."""
    if isinstance(error, ZooError):
        return str(error), error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "stopped by Ctrl-C.", _INTERRUPTED
    if isinstance(error, OSError) and error.strerror:  # a full disk, a folder that may not be written
        return f"{error.strerror}{f': {error.filename}' if error.filename else ''}.", 1
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text} (an error of the zoo; run again with --debug to see where)", 1
