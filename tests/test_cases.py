"""Cases within one test are as strict as tests of their own."""

from pathlib import Path

import pytest
import torch

from support.cases import each


def test_every_pair_of_values_is_tried() -> None:
    seen = []

    @each("a", [1, 2])
    @each("b, c", [(3, 4), (5, 6)])
    def test(a: int, b: int, c: int) -> None:
        seen.append((a, b, c))

    test()  # type: ignore[call-arg]
    assert seen == [(1, 3, 4), (1, 5, 6), (2, 3, 4), (2, 5, 6)]


def test_a_case_that_fails_is_named_and_the_last() -> None:
    seen = []

    @each("value", [1, 2, 3])
    def test(value: int) -> None:
        seen.append(value)
        assert value != 2

    with pytest.raises(AssertionError) as caught:
        test()  # type: ignore[call-arg]
    assert caught.value.__notes__ == ["Case 2 of 3: value=2"]
    assert seen == [1, 2]


def test_a_case_that_skips_hides_no_failure() -> None:
    @each("value", [1, 2])
    def test(value: int) -> None:
        if value == 1:
            pytest.skip("left out: one")
        assert value == 1

    with pytest.raises(AssertionError):
        test()  # type: ignore[call-arg]


def test_a_case_that_skips_is_told() -> None:
    @each("value", [1, 2])
    def test(value: int) -> None:
        if value == 1:
            pytest.skip("left out: one")

    with pytest.raises(pytest.skip.Exception, match="left out: one"):
        test()  # type: ignore[call-arg]


@each("value", range(3))
def test_each_case_begins_afresh(
    value: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    assert not hasattr(Path, "marked")
    monkeypatch.setattr(Path, "marked", value, raising=False)
    assert not capsys.readouterr().out
    print(value)  # noqa: T201
    state = torch.get_rng_state()
    torch.manual_seed(0)
    assert torch.equal(state, torch.get_rng_state())
    torch.rand(5)


def test_names_must_be_those_of_the_test() -> None:
    with pytest.raises(AssertionError):

        @each("other", [1])
        def test(value: int) -> None: ...
