"""Where the time of an epoch goes: torch's profiler on ours and on the literal one.

Each operation counts for the outermost thing that it belongs to: a sparse product
forwards, the same backwards, a dense product, dropout, the loss, the optimiser; all
else, and what Python does between the operations, is the rest. Beside the shares stands
how many operations of torch an epoch asks for. The profiler slows short
operations down: on small graphs the shares say more than the milliseconds.

    python benchmarks/epoch_profile.py cora pubmed --models h2gcn-2 --operations 12
"""

import itertools
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any
from unittest.mock import patch

import torch
from cases import MODELS, Case, load
from common import parser, publish
from literal import LAYOUTS
from torch import Tensor
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from h2gcn.sparse import operator, rounds
from h2gcn.sparse.dropping import Draw
from h2gcn.sparse.operator import Products

GROUPS = {
    "sparse forward": r"sparse product|aten::_sparse_mm",
    "sparse backward": r"sparse product, transposed|Sparse\w*Backward\d",
    "dropout": r"(aten::)?dropout|(\w*Dropout|Mul)Backward0?",
    "dense products": r"aten::(mm|addmm|bmm|matmul)|(Mm|Addmm|Bmm)Backward0",
    "loss": r"aten::cross_entropy_loss|(NllLoss|LogSoftmax)Backward0|_CrossEntropy\w*",
    "optimiser": r"Optimizer\..*|aten::_fused_adam_|aten::_foreach_add_",
}
"""Which names of operations make a group. Our dropout is the draw alone: its products
with W_c are dense ones."""
PREFIX = "autograd::engine::evaluate_function: "
MICROSECONDS = 1e3


def main() -> None:
    """Profile every combination and publish the shares."""
    options = parser(__doc__)
    options.add_argument("graphs", nargs="*", default=["cora", "chameleon", "pubmed"])
    options.add_argument("--models", nargs="+", default=MODELS)
    options.add_argument("--dropout", type=float, nargs="+", default=(0.5, 0.0))
    options.add_argument("--threads", type=int, default=1)
    options.add_argument("--epochs", type=int, default=5)
    options.add_argument("--layout", choices=LAYOUTS, default="csr")
    options.add_argument(
        "--operations", type=int, default=0, help="also list so many of torch's own"
    )
    chosen = options.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(chosen.threads)
    rows = []
    for name in chosen.graphs:
        graph = load(name)
        for model, dropout in itertools.product(chosen.models, chosen.dropout):
            case = Case(graph, model, dropout, chosen.layout)
            programs = {"ours": case.our_epoch, "literal": case.literal_epoch}
            for program, epoch in programs.items():
                with named_parts():
                    profiler = profiled(epoch, chosen.epochs)
                if chosen.operations:
                    print(f"{name}, {model}, dropout {dropout}, {program}")
                    print(operations(profiler, chosen.operations))
                row = {"graph": name, "model": model, "dropout": dropout}
                events = list(profiler.events())
                spent = milliseconds(events, chosen.epochs)
                calls = sum(map(is_call, events)) // chosen.epochs
                rows.append(
                    row | {"program": program} | shares(spent) | {"calls": calls}
                )
    publish("epoch_profile", rows, folder=chosen.out, threads=chosen.threads)


@contextmanager
def named_parts() -> Iterator[None]:
    """Give our sparse products and our dropout a name that the profiler shows."""
    back, multiplied, draw = rounds._ByHand.backward, operator._multiplied, Draw._drop
    write, turning = Products.write, False

    def written(*given: Any, **named: Any) -> None:
        with record_function(f"sparse product{', transposed' if turning else ''}"):
            write(*given, **named)

    def by_hand(ctx: Any, *grads: Tensor) -> Any:
        nonlocal turning
        turning = True
        try:
            return back(ctx, *grads)
        finally:
            turning = False

    def backward(ctx: Any, grad: Tensor) -> tuple[None, None, Tensor]:
        with record_function("sparse product, transposed"):
            return None, None, multiplied(ctx.transpose(), grad)

    forward = _recorded("sparse product", multiplied)
    with (
        patch.object(Products, "write", written),
        patch.object(rounds._ByHand, "backward", staticmethod(by_hand)),
        patch.object(operator, "_multiplied", forward),
        patch.object(operator._CsrProduct, "backward", staticmethod(backward)),
        patch.object(Draw, "_drop", _recorded("dropout", draw)),
    ):
        yield


def _recorded(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        with record_function(name):
            return function(*arguments, **named)

    return call


def profiled(epoch: Callable[[], Any], epochs: int) -> profile:
    """Return what the profiler saw of some epochs, after two that do not count."""
    epoch()
    epoch()
    profiler = profile(activities=[ProfilerActivity.CPU])
    with profiler:
        for _ in range(epochs):
            with record_function("epoch"):
                epoch()
    return profiler


def milliseconds(events: list[FunctionEvent], epochs: int) -> dict[str, float]:
    """Return the time an epoch spends in each group."""
    spent: dict[str, float] = defaultdict(float)
    for event in events:
        spent[group_of(event)] += event.self_cpu_time_total / MICROSECONDS / epochs
    return spent


def is_call(event: FunctionEvent) -> bool:
    """Return whether an event is an operation of torch that no other one asked for."""
    above = event.cpu_parent
    inside = above is not None and above.name.startswith("aten::")
    return event.name.startswith("aten::") and not inside


def group_of(event: FunctionEvent) -> str:
    """Return the group of the outermost operation around an event that has one."""
    line, ancestor = [event], event.cpu_parent
    while ancestor is not None:
        line.append(ancestor)
        ancestor = ancestor.cpu_parent
    for around in reversed(line):
        name = around.name.removeprefix(PREFIX)
        for group, names in GROUPS.items():
            if re.fullmatch(names, name):
                return group
    return "rest"


def shares(spent: dict[str, float]) -> dict[str, Any]:
    """Return the whole time and the share of each group."""
    total = sum(spent.values())
    parts = {f"{group} %": 100 * spent[group] / total for group in (*GROUPS, "rest")}
    return {"ms": total, **parts}


def operations(profiler: profile, count: int) -> str:
    """Return torch's table of the operations that take longest by themselves."""
    averages = profiler.key_averages()
    table: str = averages.table(sort_by="self_cpu_time_total", row_limit=count)
    return table


if __name__ == "__main__":
    main()
