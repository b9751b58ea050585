"""Records of splits as `h2gcn reproduce frontier` keeps them, without any training."""

from typing import Any

from h2gcn.experiments import Run, plan_splits

MEMBERS = ("mlp", "h2gcn-1", "logistic")


def member(
    validation: float | None,
    log_loss: float | None,
    test: float | None,
    weight: float = 0.0,
) -> dict[str, Any]:
    """Return what a record tells of a member."""
    return {
        "validation": validation,
        "log_loss": log_loss,
        "test": test,
        "weight": weight,
        "seconds": 1.0,
        "note": "",
    }


def split_run(dataset: str = "texas", split: int = 0) -> Run:
    """Return the run of a split."""
    return plan_splits([dataset], [split])[0]


def split_record(
    dataset: str = "texas",
    split: int = 0,
    test: float = 0.8,
    members: dict[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the record of a split; what is not given is plausible."""
    run = split_run(dataset, split)
    metric = run.config["metric"]
    known = {
        "mlp": member(0.7, 0.9, 0.75),
        "h2gcn-1": member(0.8, 0.6, 0.85, 0.5),
        "logistic": member(0.8, 0.5, 0.82, 0.5),
    }
    plain = {
        "logistic regression, own features": {"test": 0.7, "seconds": 0.1},
        "boosted trees, own features": {"test": 0.71, "seconds": 0.2},
        "logistic regression, neighbours' means, degree": {"test": 0.72, "seconds": 1},
        "boosted trees, neighbours' means, degree": {"test": 0.73, "seconds": 2},
    }
    record = {
        "key": run.key,
        **run.to_json(),
        "version": "0.1.0",
        "seconds": 30.0,
        "metric": metric,
        "time_limit": 55.0,
        "auto_seconds": 20.0,
        "chosen_by": "log_loss" if metric == "accuracy" else metric,
        "folds": 5,
        "held_out": 146,
        "validation": 0.81,
        "test": test,
        "log_loss": 0.5,
        "calibration_error": 0.02,
        "coverage": 0.9,
        "set_size": 1.5,
        "members": known if members is None else members,
        "majority": 0.55,
        "plain": plain,
        "checksum": f"checksum of {dataset}",
    }
    return record | more


def failed_record(
    dataset: str = "texas", split: int = 0, error: str = "ValueError: toy"
) -> dict[str, Any]:
    """Return the record of a split that failed."""
    run = split_run(dataset, split)
    return {
        "key": run.key,
        **run.to_json(),
        "version": "0.1.0",
        "seconds": 3.0,
        "error": f"Traceback:\n{error}",
    }
