"""The library's arguments as the command line's flags."""

import pytest
import typer

from h2gcn.cli import app
from h2gcn.cli.console import flags_of, in_flags

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
TRAIN = flags_of(COMMANDS["train"])


@pytest.mark.parametrize(
    ("said", "typed", "shown"),
    [
        ("use ring_cap=64.", [], "use --ring-cap 64."),
        ("add fill_missing=True, or mend it", [], "add --fill-missing, or mend it"),
        ("name it with 'id_column'", [], "name it with --id-column"),
        ("make it categorical=['plan']", [], "make it --categorical plan"),
        ("feature_columns=['a', 'b']", [], "--feature-column a,b"),
        ("'edge_features' takes it", [], "--edge-feature takes it"),
        ("edge_categorical=['k']", [], "--edge-categorical k"),
        (
            "model='h2gcn-s1' and batch_size=256",
            [],
            "--model h2gcn-s1 and --batch-size 256",
        ),
        ("ring_store=… keeps it", [], "--ring-store … keeps it"),
        (
            "The 'ring_cap' and 'ring_store' parameters of NodeClassifier: one",
            [],
            "--ring-cap and --ring-store: one",
        ),
        (
            "The 'heads' parameter of GAT must",
            ["--option", "heads=0"],
            "--option heads must",
        ),
        (
            "The 'l2' parameter of NodeClassifier must",
            ["--settings", "s.json"],
            "'l2' of --settings must",
        ),
        ("The 'l2' parameter of X must", ["--settings", "s", "--l2=3"], "--l2 must"),
    ],
)
def test_arguments_become_flags(said: str, typed: list[str], shown: str) -> None:
    assert in_flags(said, TRAIN, typed) == shown


@pytest.mark.parametrize(
    "said",
    [
        "column 'epochs' holds text",  # a user's own word
        "2 features are missing: 'model=a', 'split=b'",
        "patience=None trains to the end",
        "set nosuch=3",
        "h = 0.3, l2 == 5",
        "The 'nosuch' parameter of H2GCN must",
    ],
)
def test_what_is_no_argument_stays(said: str) -> None:
    assert in_flags(said, TRAIN, []) == said


def test_only_flags_of_the_command_that_runs_are_named() -> None:
    assert (
        in_flags("use ring_cap=64", flags_of(COMMANDS["diagnose"]), [])
        == "use ring_cap=64"
    )
    assert flags_of(None) == {}
