"""From records of splits to tables, by figures that can be worked out by hand."""

from typing import Any

import pytest

from h2gcn.exceptions import InputError
from h2gcn.experiments import BENCHMARKS, Cell, Result, check_splits, frontier_result
from h2gcn.experiments.display import markdown_grid
from h2gcn.experiments.frontier.summary import BY_TEST, MEAN_VALIDATION, PER_SPLIT
from support.toy_splits import failed_record, member, split_record


def table_of(result: Result, name: str, row: str = "texas") -> dict[str, Cell]:
    """Return a row of a table."""
    (table,) = (table for table in result.tables if table.name == name)
    return table.row(row)


def test_a_store_without_splits_is_not_run() -> None:
    result = frontier_result([])
    answers, plain, probabilities, members, weights = result.tables
    assert [row.name for row in answers.rows] == [*BENCHMARKS]
    for table in (answers, plain, probabilities):
        assert {cell.verdict for cell in table.cells} == {"not run"}
        assert "not run" in markdown_grid(table)
    assert members.rows == weights.rows == ()


def test_cells_are_mean_and_sample_deviation_over_splits() -> None:
    records = [split_record("texas", i, test) for i, test in enumerate((0.7, 0.9))]
    auto = table_of(frontier_result(records), "frontier")["auto"]
    assert auto.mean == pytest.approx(80)
    assert auto.std == pytest.approx(200**0.5)
    assert (auto.n, auto.runs) == (2, ("split 0", "split 1"))
    assert auto.values == pytest.approx((70, 90))
    one = table_of(frontier_result(records[:1]), "frontier")
    assert (one["auto"].std, one["splits"].mean) == (None, 1)
    assert table_of(frontier_result(records), "frontier", "cora")["auto"].mean is None


def choices(*splits: dict[str, Any]) -> tuple[dict[str, Cell], Result]:
    records = [split_record("texas", i, members=one) for i, one in enumerate(splits)]
    result = frontier_result(records)
    return table_of(result, "frontier"), result


def test_one_member_is_chosen_in_three_ways() -> None:
    row, _ = choices(
        {
            "a": member(0.9, 0.3, 0.5),
            "b": member(0.8, 0.4, 0.6),
            "c": member(0, 9, 0.9),
        },
        {
            "a": member(0.5, 1.0, 0.7),
            "b": member(0.8, 0.5, 0.4),
            "c": member(0, 9, 0.8),
        },
    )
    assert row[PER_SPLIT].values == pytest.approx((50, 40))  # a, then b
    assert row[MEAN_VALIDATION].values == pytest.approx((60, 40))
    assert row[MEAN_VALIDATION].note == "b"  # 0.45 where a has 0.65
    assert row[BY_TEST].values == pytest.approx((90, 80))
    assert row[BY_TEST].note == "c"


def test_the_best_has_the_smallest_log_loss_not_the_most_right() -> None:
    row, _ = choices({"a": member(0.9, 0.6, 0.1), "b": member(0.5, 0.4, 0.2)})
    assert row[PER_SPLIT].mean == pytest.approx(20)
    assert row[MEAN_VALIDATION].note == "b"


def test_where_the_score_is_an_area_it_is_chosen_by() -> None:
    members = {"a": member(0.9, 0.6, 0.1), "b": member(0.5, 0.4, 0.2)}
    result = frontier_result([split_record("tolokers", 0, members=members)])
    row = table_of(result, "frontier", "tolokers")
    assert row[PER_SPLIT].mean == pytest.approx(10)
    assert row[MEAN_VALIDATION].note == "a"


def test_a_member_that_was_not_compared_is_not_chosen_but_by_test() -> None:
    row, _ = choices({"a": member(None, None, 0.9), "b": member(0.5, 0.4, 0.2)})
    assert row[PER_SPLIT].mean == pytest.approx(20)
    assert row[MEAN_VALIDATION].note == "b"
    assert row[BY_TEST].note == "a"


def test_one_member_for_all_splits_must_be_known_on_all() -> None:
    row, result = choices(
        {"a": member(0.9, 0.1, 0.9), "b": member(0.5, 0.4, 0.2)},
        {"b": member(0.5, 0.4, 0.4)},
    )
    assert row[PER_SPLIT].values == pytest.approx((90, 40))
    assert row[MEAN_VALIDATION].note == row[BY_TEST].note == "b"
    cell = table_of(result, "members", "a")["texas"]
    assert (cell.n, cell.note) == (1, "1 of 2 splits")


def test_without_any_member_to_choose_there_is_no_figure() -> None:
    row, _ = choices({"a": member(None, None, None)})
    for way in (PER_SPLIT, MEAN_VALIDATION, BY_TEST):
        assert (row[way].mean, row[way].verdict) == (None, "none")


def test_h2gcn_mlp_and_majority_stand_beside() -> None:
    row = table_of(frontier_result([split_record()]), "frontier")
    names = ("h2gcn-1", "mlp", "majority")
    assert [row[name].mean for name in names] == pytest.approx([85, 75, 55])


def test_scikit_learn_stands_beside() -> None:
    row = table_of(frontier_result([split_record()]), "scikit-learn")
    shown = [cell.mean for cell in row.values()]
    assert shown == pytest.approx([1, 80, 70, 71, 72, 73])


def test_probabilities_are_no_percentages_and_seconds_are_whole() -> None:
    records = [
        split_record("texas", 0, auto_seconds=20.2),
        split_record("texas", 1, coverage=0.8, auto_seconds=21.6),
    ]
    row = table_of(frontier_result(records), "probabilities")
    assert row["calibration error"].mean == pytest.approx(0.02)
    assert row["of it by chance"].mean is None  # records of before are without
    assert row["coverage of 90 % sets"].mean == pytest.approx(0.85)
    assert row["classes in a set"].mean == pytest.approx(1.5)
    assert row["log-loss"].mean == pytest.approx(0.5)
    assert (row["seconds"].mean, row["seconds"].std) == (21, None)
    assert row["time limit, seconds"].mean == 55


def test_calibration_stands_beside_what_chance_makes_of_it() -> None:
    row = table_of(frontier_result([split_record(chance_error=0.015)]), "probabilities")
    assert row["of it by chance"].mean == pytest.approx(0.015)


def test_every_member_has_its_row_of_scores_and_weights() -> None:
    other = {"trees": member(0.5, 0.5, 0.5, 1.0)}
    records = [split_record("cora", 0, members=other), split_record("texas", 0)]
    result = frontier_result(records)
    (members,) = (table for table in result.tables if table.name == "members")
    assert [row.name for row in members.rows] == ["mlp", "h2gcn-1", "logistic", "trees"]
    assert members.columns == BENCHMARKS
    trees = table_of(result, "members", "trees")
    assert trees["cora"].mean == pytest.approx(50)
    assert (trees["texas"].mean, trees["texas"].verdict) == (None, "none")
    assert trees["actor"].verdict == "not run"
    weights = table_of(result, "weights", "logistic")
    assert weights["texas"].mean == pytest.approx(50)


def test_of_two_records_of_a_split_the_later_counts() -> None:
    again = [failed_record("texas", 0), split_record("texas", 0, 0.6)]
    result = frontier_result(again)
    assert table_of(result, "frontier")["auto"].mean == pytest.approx(60)
    assert result.failed == ()


def test_a_split_that_failed_is_named_and_not_counted() -> None:
    result = frontier_result([failed_record("texas", 1), split_record("texas", 0)])
    assert table_of(result, "frontier")["splits"].mean == 1
    (failure,) = result.failed
    assert (failure["dataset"], failure["split"]) == ("texas", 1)
    assert failure["error"] == "ValueError: toy"


def test_the_result_can_be_kept_and_read_again() -> None:
    result = frontier_result([split_record()], {"python": "3"})
    assert Result.from_json(result.to_json()) == result


# --------------------------------------------------------------- what is not a split


def test_a_record_of_something_else_is_refused() -> None:
    record = split_record()
    del record["coverage"], record["plain"]
    with pytest.raises(InputError, match=r"^here, record '\w+': lacks plain$"):
        check_splits("here", [record])


def test_a_split_that_failed_has_no_more_than_that() -> None:
    check_splits("here", [failed_record(), split_record()])
