"""Sparse matrices that multiply dense ones, quickly in both directions.

Entries are constant, but for weights of edges that are learnt (`row_softmax`,
`weighted_sums`): there an `Operator` gives the pattern alone, and the values on it are
tensors [k, nnz], one row for each of k heads, in the order of the operator's entries.
Both are differentiable in these values.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from h2gcn._validation import check_integer
from h2gcn.graph import CSR, Features
from h2gcn.sparse.dropping import dropout
from h2gcn.sparse.large import RowSums, Whole
from h2gcn.sparse.rows import (
    SHARED,
    count_threads,
    equal_parts,
    share_out,
    sorted_csr,
    take_columns,
    take_rows,
)

if TYPE_CHECKING:
    from h2gcn.sparse.tiles import Groups

__all__ = [
    "FOUR",
    "LARGE",
    "DroppedOperator",
    "LargeMatrix",
    "LinearMap",
    "Matrix",
    "Multiplies",
    "Operator",
    "Products",
    "SampledOperator",
    "Target",
    "TiledMatrix",
    "Triplets",
    "csr_tensor",
    "multiplier",
    "product",
    "row_norms",
    "row_softmax",
    "selection",
    "sums_by_column",
    "to_matrix",
    "to_tensor",
    "weighted_sums",
    "with_values",
]

warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")

CSR_DEVICES = ("cpu", "cuda")
"""Where torch has a product of CSR tensors."""


@dataclass(frozen=True)
class Triplets:
    """A sparse matrix as plain tensors, for devices without a CSR product.

    Parameters
    ----------
    rows, columns, entries
        Of each stored entry, [nnz].
    n_rows
        Number of rows of the matrix.
    """

    rows: Tensor
    columns: Tensor
    entries: Tensor
    n_rows: int

    def values(self) -> Tensor:
        """Return the entries, as CSR tensors call them."""
        return self.entries

    def __matmul__(self, dense: Tensor) -> Tensor:
        terms = dense[self.columns] * self.entries[:, None]
        return dense.new_zeros(self.n_rows, dense.shape[1]).index_add_(
            0, self.rows, terms
        )


Matrix = Tensor | Triplets


class Multiplies(Protocol):
    """Whatever has a product with a dense matrix."""

    def __matmul__(self, dense: Tensor, /) -> Tensor:
        """Return the product."""
        ...


FOUR, EIGHT = 4, 8
"""Columns that a processor multiplies together: three take longer than these."""
LONG = 16
"""Entries of a row, on average, from which on it pays to fill up to eight columns."""


def _multiplied(matrix: Multiplies, dense: Tensor) -> Tensor:
    """Return matrix·dense, without the zeros that torch writes and copies before."""
    if not isinstance(matrix, Tensor) or matrix.device.type != "cpu":
        return matrix @ dense.contiguous()
    if not (dense.numel() and matrix._nnz()):  # torch would write nothing
        return matrix @ dense.contiguous()
    rows, width = matrix.shape[0], dense.shape[1]
    if not _at_once(matrix, dense):
        filled = dense.new_zeros(len(dense), width + -width % EIGHT)
        filled[:, :width] = dense
        found = filled.new_empty(rows, filled.shape[1])
        return found.addmm_(matrix, filled, beta=0)[:, :width].contiguous()
    found = dense.new_empty(rows, width)
    return found.addmm_(matrix, dense.contiguous(), beta=0)


def _at_once(matrix: Tensor, dense: Tensor) -> bool:
    """Return whether it is quickest to multiply as it is, without further columns."""
    width, entries = dense.shape[1], matrix._nnz()
    if not (dense.numel() and entries):
        return False
    few = width % FOUR and width < EIGHT * EIGHT
    return not few or entries <= LONG * sum(matrix.shape)


class _CsrProduct(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, matrix: Multiplies, transpose: Callable[[], Multiplies], dense: Tensor
    ) -> Tensor:
        ctx.transpose = transpose
        return _multiplied(matrix, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, None, Tensor]:
        return None, None, _multiplied(ctx.transpose(), grads[0])


def product(
    matrix: Multiplies, transpose: Callable[[], Multiplies], dense: Tensor
) -> Tensor:
    """Return matrix·dense; the gradient asks for the transpose when it needs it."""
    result: Tensor = _CsrProduct.apply(matrix, transpose, dense)  # type: ignore[no-untyped-call]
    return result


def to_matrix(matrix: CSR, device: torch.device) -> Matrix:
    """Return a scipy matrix on a device: CSR where torch can multiply that."""
    matrix = with_sorted_rows(matrix)
    values = torch.from_numpy(matrix.data.astype(np.float32, copy=False))
    if device.type in CSR_DEVICES:
        return csr_tensor(
            torch.from_numpy(matrix.indptr),
            torch.from_numpy(matrix.indices),
            values,
            matrix.shape,
        ).to(device)
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    return Triplets(
        torch.from_numpy(rows).to(device),
        torch.from_numpy(matrix.indices.astype(np.int64)).to(device),
        values.to(device),
        matrix.shape[0],
    )


def with_sorted_rows(matrix: CSR) -> CSR:
    """Return a matrix with sorted rows; the caller's own is not changed."""
    return matrix if matrix.has_sorted_indices else CSR(matrix.sorted_indices())


def narrow_indices(matrix: CSR) -> CSR:
    """Return a matrix with indices of 32 bits, if they fit; values are not copied.

    torch would narrow others anew at every product.
    """
    indices, starts = matrix.indices, matrix.indptr
    most = max(matrix.nnz, *matrix.shape)
    if indices.dtype == starts.dtype == np.int32 or most > np.iinfo(np.int32).max:
        return matrix
    narrow = indices.astype(np.int32), starts.astype(np.int32)
    return CSR((matrix.data, *narrow), shape=matrix.shape)


def with_values(matrix: Matrix, values: Tensor) -> Matrix:
    """Return a matrix of the same pattern with other values, [nnz]."""
    if isinstance(matrix, Triplets):
        return Triplets(matrix.rows, matrix.columns, values, matrix.n_rows)
    return csr_tensor(matrix.crow_indices(), matrix.col_indices(), values, matrix.shape)


def row_norms(matrix: Matrix, columns: int) -> Tensor:
    """Return the Euclidean length of each row, [m], of a matrix [m, columns]."""
    squares = matrix.values().square()
    sums = with_values(matrix, squares) @ squares.new_ones(columns, 1)
    return sums[:, 0].sqrt()


def csr_tensor(
    starts: Tensor, columns: Tensor, values: Tensor, shape: Sequence[int]
) -> Tensor:
    """Return a CSR tensor of its parts: row starts, columns and values."""
    # What comes from scipy is sorted and in range: nothing to check at every step.
    return torch.sparse_csr_tensor(
        starts, columns, values, size=tuple(shape), check_invariants=False
    )


SOME = 2**14
"""Entries from which our kernel is quicker."""
LARGE = 2**16
"""Columns from which the dense side, 64 wide, is larger than most caches."""
WIDE = 8
"""Columns of a large dense matrix from which our kernel is quicker than torch's."""
GROUPED = 64
"""Entries of a row, on average, from which rows may be worth grouping."""
MOST_GROUPED = 2**24
"""Entries up to which they are: groups are a second form, up to 3.2 bytes for each."""
ALIKE = 2.5
"""Rows of four that have an entry of their group, where groups are worth it."""


def sums_by_column(n_columns: int, width: int) -> bool:
    """Return whether each column of a product is summed as if it were alone.

    Our own kernel does so: a product may be cut into products of some columns, to the
    same bits. What torch does, it does not say.

    Parameters
    ----------
    n_columns
        Of the sparse matrix, on the processor.
    width
        Columns of the dense one.
    """
    return n_columns >= LARGE and width >= WIDE


def multiplier(matrix: Matrix) -> Multiplies:
    """Return what multiplies like the matrix, quickly also with large dense ones."""
    if not isinstance(matrix, Tensor) or matrix.device.type != "cpu":
        return matrix
    if matrix.dtype != torch.float32:
        return matrix
    if matrix.shape[1] >= LARGE:
        return LargeMatrix(matrix)
    tiles = TiledMatrix.can(matrix) and matrix._nnz() >= SOME
    return TiledMatrix(matrix) if tiles else matrix


class TiledMatrix:
    """A sparse matrix that is multiplied with dense ones that a cache holds.

    Parameters
    ----------
    matrix
        A CSR tensor of 32-bit floats and indices on the processor, [m, n].
    grouped
        Whether its rows are grouped where they are alike.
    """

    def __init__(self, matrix: Tensor, *, grouped: bool = True) -> None:
        self.matrix, self.entries = matrix, matrix._nnz()
        self.shape, self._grouped = matrix.shape, grouped

    def __reduce__(self) -> tuple[Callable[[Tensor], TiledMatrix], tuple[Tensor]]:
        # A copy is somewhere else.
        return partial(TiledMatrix, grouped=self._grouped), (self.matrix,)

    @staticmethod
    def can(matrix: Matrix) -> bool:
        """Return whether a matrix can be one."""
        return (
            isinstance(matrix, Tensor)
            and matrix.device.type == "cpu"
            and matrix.dtype == torch.float32
            and matrix.col_indices().dtype == torch.int32
        )

    @cached_property
    def groups(self) -> Groups | None:
        """Its rows in groups that are alike, if they are and it is worth it."""
        worth = max(1, GROUPED * self.shape[0]) <= self.entries <= MOST_GROUPED
        if not (self._grouped and worth):
            return None
        from h2gcn.sparse.tiles import group_rows

        matrix = self.matrix
        return group_rows(
            matrix.crow_indices().numpy(),
            matrix.col_indices().numpy(),
            matrix.values().numpy(),
            matrix.shape[1],
            ALIKE,
        )

    @cached_property
    def addresses(self) -> tuple[int, ...]:
        """Of where rows or groups begin, of columns and of values."""
        matrix = self.matrix
        if self.groups is not None:
            return tuple(array.ctypes.data for array in self.groups[:3])
        parts = matrix.crow_indices(), matrix.col_indices(), matrix.values()
        return tuple(part.data_ptr() for part in parts)

    @cached_property
    def parts(self) -> list[slice]:
        """Its rows, or groups of them, cut for threads to take."""
        if self.groups is not None:
            return equal_parts(self.groups.starts)
        return equal_parts(self.matrix.crow_indices().numpy())

    @cached_property
    def _product(self) -> Products:
        return Products([(self, None, None)])

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix [n, c], [m, c]."""
        tiles = dense.dtype == torch.float32 and dense.shape[1] % TILE == 0
        if not (tiles and dense.numel()):
            return _multiplied(self.matrix, dense)
        out = dense.new_empty(self.shape[0], dense.shape[1])
        self._product.write(dense.shape[1], dense.contiguous(), out)
        return out


class Products:
    """Products that are written to where they belong, all of them in one call.

    Addresses are looked up once, however often they are written.

    Parameters
    ----------
    products
        A matrix [m, n_k], what it is multiplied with, [n_k, c], and the place of the
        product, [m, c], both with every row in one piece. Those with the same place are
        added up there. What is None is given each time.
    add
        Whether they are added to what is there.
    """

    def __init__(
        self,
        products: Sequence[_Product],
        *,
        add: bool = False,
    ) -> None:
        # Rows of a group are apart from each other: who writes it writes no others.
        found: dict[int, list[_Product]] = {}
        for part in sorted(products, key=lambda part: part[0].groups is not None):
            kind = 0 if part[0].groups is None else id(part[0])
            found.setdefault(kind, []).append(part)
        seen: set[tuple[int, int]] = set()
        self._batches = [_Batch(parts, seen, add) for parts in found.values()]

    def write(
        self, width: int, dense: Tensor | None = None, out: Tensor | None = None
    ) -> None:
        """Write them all.

        Parameters
        ----------
        width
            Columns c of each.
        dense, out
            Those that were left open.
        """
        for batch in self._batches:
            batch.write(width, dense, out)


_Product = tuple[TiledMatrix, Tensor | None, Tensor | None]


class _Batch:
    """Products of which each thread can write some rows, whoever writes the others.

    Parameters
    ----------
    products
        Of `Products`: of matrices without groups, or all of one matrix.
    seen
        Places that were written to before, to which these are added.
    add
        As of `Products`.
    """

    def __init__(
        self, products: Sequence[_Product], seen: set[tuple[int, int]], add: bool
    ) -> None:
        rows = []
        for matrix, dense, out in products:
            to = _address(out)
            rows.append((*matrix.addresses, *_address(dense), *to, add or to in seen))
            seen.add(to)
        self._table = np.array(rows, dtype=np.int64)
        self._read, self._written = (
            np.array([part[side] is None for part in products]) for side in (1, 2)
        )
        entries = [matrix.entries for matrix, _, _ in products]
        self._longest, self._work = products[int(np.argmax(entries))][0], sum(entries)
        self._held = products  # what is at these addresses stays there

    def write(self, width: int, dense: Tensor | None, out: Tensor | None) -> None:
        """Write them, as `Products.write`."""
        from h2gcn.sparse.tiles import write_rows

        table = self._table
        if dense is not None or out is not None:
            table = table.copy()  # other threads may be given others
        if dense is not None:
            table[self._read, 3:5] = _address(dense)
        if out is not None:
            table[self._written, 5:7] = _address(out)
        if self._longest.groups is not None:
            self._write_groups(self._longest.groups, table, width, dense)
            return

        def work(rows: slice) -> None:
            write_rows(table, rows.start, rows.stop, width)

        self._share_out(work, self._work * width)

    def _write_groups(
        self,
        groups: Groups,
        table: NDArray[np.int64],
        width: int,
        given: Tensor | None,
    ) -> None:
        """Write them group by group.

        What is wider than there are registers for is cut into slices, one after the
        other: a slice of rows that are far apart would use a part of the cache alone.
        """
        from h2gcn.sparse.tiles import columns_at_once, write_groups

        each = groups.rows.ctypes.data, groups.factors.ctypes.data
        most = columns_at_once()

        def write(products: NDArray[np.int64], slice_to: int) -> None:
            def work(rows: slice) -> None:
                bounds = rows.start, rows.stop
                write_groups(products, *each, *bounds, width, most, slice_to)

            self._share_out(work, self._work * width * len(products) // len(table))

        if width <= most:
            write(table, 4 * most)
            return
        slices = torch.empty(-(-width // most), self._longest.shape[1], most)
        for (_, held, _), product in zip(self._held, table, strict=True):
            dense = given if held is None else held
            assert dense is not None
            for place, columns in zip(slices, dense.split(most, 1), strict=True):
                place[:, : columns.shape[1]] = columns
            cut = product[None].copy()
            cut[0, 3:5] = _address(slices[0])
            write(cut, 4 * slices.stride(0))

    def _share_out(self, work: Callable[[slice], None], cost: int) -> None:
        """Have threads take parts of the rows, or of the groups, where it is worth it.

        Parameters
        ----------
        work
            Writes a part.
        cost
            Entries times columns.
        """
        parts, threads = self._longest.parts, count_threads()
        if threads == 1 or cost < SHARED * threads:
            work(slice(0, parts[-1].stop))
        else:
            share_out(work, parts, threads)


def _address(rows: Tensor | None) -> tuple[int, int]:
    """Return where rows are, and the bytes from one to the next."""
    return (0, 0) if rows is None else (rows.data_ptr(), 4 * rows.stride(0))


TILE = 16
"""Columns that our kernel sums together, at least."""
STRIP = 2048
"""Columns of a strip: 64 wide, the rows of the dense matrix for it fit in a cache."""
STRIP_ENTRIES = 32
"""Entries that a row has in a strip, on average, where strips are worth it."""


class Strips:
    """A sparse matrix with few long rows, cut into strips of columns.

    A row would be multiplied with rows from all over the dense matrix, and the next one
    again. Strip by strip, all rows are multiplied with those that are in the cache.

    Parameters
    ----------
    strips
        Matrices [m, n] that are to be added up, each with the entries of some columns.
    """

    def __init__(self, strips: Sequence[TiledMatrix]) -> None:
        self._strips = tuple(strips)

    def __reduce__(self) -> tuple[type[Strips], tuple[Sequence[TiledMatrix]]]:
        return Strips, (self._strips,)  # a copy is somewhere else

    @classmethod
    def of_transposed(cls, matrix: CSR) -> Strips | None:
        """Return the transpose of a matrix in strips, if they are worth it."""
        rows, columns = matrix.shape
        n_strips = -(-rows // STRIP)
        if n_strips < 2 or matrix.nnz < STRIP_ENTRIES * n_strips * columns:
            return None
        found = []
        for first in range(0, rows, STRIP):
            part = CSR(matrix[first : first + STRIP].T)
            part.sort_indices()
            places = (part.indices + first).astype(np.int32)
            starts = part.indptr.astype(np.int32)
            of_all = sorted_csr(part.data, places, starts, (columns, rows))
            strip = to_matrix(of_all, torch.device("cpu"))
            if isinstance(strip, Tensor):
                found.append(TiledMatrix(strip, grouped=False))
        return cls(found)

    @cached_property
    def _products(self) -> Products:
        return Products([(strip, None, None) for strip in self._strips])

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix [n, c], [m, c]."""
        result = dense.new_empty(self._strips[0].shape[0], dense.shape[1])
        self._products.write(dense.shape[1], dense.contiguous(), result)
        return result


class LargeMatrix:
    """A sparse matrix that is multiplied with large dense ones.

    Parameters
    ----------
    matrix
        A CSR tensor of 32-bit floats on the processor, [m, n].
    """

    def __init__(self, matrix: Tensor) -> None:
        self._matrix = matrix
        values, columns = matrix.values().numpy(), matrix.col_indices().numpy()
        starts, (m, n) = matrix.crow_indices().numpy(), matrix.shape
        self._rows = RowSums(sorted_csr(values, columns, starts, (m, n)))

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Return the product with a dense matrix [n, c], [m, c]."""
        if dense.dtype != torch.float32:
            return self._matrix @ dense
        if dense.shape[1] < WIDE:
            return _multiplied(self._matrix, dense)
        return self._rows.times(Whole.of(dense))


class LinearMap(Protocol):
    """What every operator can do, wherever its entries are."""

    device: torch.device

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def __matmul__(self, dense: Tensor, /) -> Tensor:
        """Return the product with a dense matrix."""
        ...

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return some rows as a matrix."""
        ...

    def rows(self, index: NDArray[np.int64]) -> LinearMap:
        """Return some rows as an operator of their own."""
        ...


KEYS = 2**31
"""How many random numbers there are to sort the entries of a row by."""


class Operator:
    """A sparse matrix S of which only products S·B with dense B are taken.

    S itself is never differentiated. The gradient with respect to B is Sᵀ·G, for
    which torch would transpose S at every step; here the transpose is built once,
    on first use, and a symmetric S is its own.

    Parameters
    ----------
    matrix
        The matrix, [m, n].
    symmetric
        Whether S = Sᵀ.
    device
        Where it lives.
    turned
        Returns the transpose, where it is quicker found than by transposing.
    """

    def __init__(
        self,
        matrix: CSR,
        *,
        symmetric: bool = False,
        device: torch.device | str = "cpu",
        turned: Callable[[], CSR] | None = None,
    ) -> None:
        # Its entries are in the order of those of `matrix`, which is sorted.
        self.scipy = with_sorted_rows(narrow_indices(matrix))
        self.symmetric = symmetric
        self.device = torch.device(device)
        self._turned = turned
        self.matrix = to_matrix(self.scipy, self.device)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return self.scipy.shape

    @cached_property
    def transposed(self) -> Matrix:
        """The transpose, in the same form."""
        if self.symmetric:
            return self.matrix
        found = CSR(self.scipy.T) if self._turned is None else self._turned()
        self._turned = None  # and what it holds, which may be a larger matrix
        return to_matrix(found, self.device)

    @cached_property
    def transposed_order(self) -> Tensor:
        """Where each entry of the transpose stands in the matrix, [nnz]."""
        places = np.arange(self.scipy.nnz)
        numbered = CSR((places, self.scipy.indices, self.scipy.indptr), self.shape)
        order = CSR(numbered.T).data
        return torch.from_numpy(order).to(self.device)

    @cached_property
    def edges(self) -> tuple[Tensor, Tensor]:
        """The row and the column of each stored entry, [nnz] each."""
        rows = np.repeat(np.arange(self.shape[0]), np.diff(self.scipy.indptr))
        columns = self.scipy.indices.astype(np.int64)
        return (
            torch.from_numpy(rows).to(self.device),
            torch.from_numpy(columns).to(self.device),
        )

    @cached_property
    def places(self) -> tuple[Tensor, Tensor]:
        """Each entry's place in its row, and the row's length, [nnz] each."""
        lengths = np.diff(self.scipy.indptr).astype(np.int64)
        starts = np.repeat(self.scipy.indptr[:-1], lengths)
        within = np.arange(len(starts)) - starts
        place, length = (
            torch.from_numpy(numbers.astype(np.int64)).to(self.device)
            for numbers in (within, np.repeat(lengths, lengths))
        )
        return place, length

    @cached_property
    def _forward(self) -> Multiplies:
        return multiplier(self.matrix)

    @cached_property
    def _backward(self) -> Multiplies:
        if self.symmetric:
            return self._forward
        strips = None
        if self.device.type == "cpu" and self.scipy.dtype == np.float32:
            strips = Strips.of_transposed(self.scipy)
        return multiplier(self.transposed) if strips is None else strips

    @cached_property
    def tiles(self) -> TiledMatrix | None:
        """The matrix as our own products take it, if they do."""
        matrix = self.matrix
        if not (isinstance(matrix, Tensor) and TiledMatrix.can(matrix)):
            return None
        return TiledMatrix(matrix)

    @cached_property
    def turned_tiles(self) -> TiledMatrix:
        """The transpose of `tiles`."""
        if self.symmetric and self.tiles is not None:
            return self.tiles
        assert isinstance(self.transposed, Tensor)  # as the matrix is
        return TiledMatrix(self.transposed)

    def __matmul__(self, dense: Tensor) -> Tensor:
        return product(self._forward, lambda: self._backward, dense)

    def gradient(self, grad: Tensor) -> Tensor:
        """Return Sᵀ·G, [n, c], of the gradient G of a product, [m, c]."""
        return _multiplied(self._backward, grad)

    def take(self, index: NDArray[np.int64]) -> CSR:
        """Return the rows `index` as a matrix, [len(index), n]."""
        return take_rows(self.scipy, index)

    def rows(self, index: NDArray[np.int64]) -> Operator:
        """Return the rows `index` as an operator of their own, [len(index), n]."""
        turned = None
        if self.symmetric and (index[1:] > index[:-1]).all():
            turned = partial(take_columns, self.scipy, index)
        return Operator(self.take(index), device=self.device, turned=turned)

    def dropout(self, probability: float) -> DroppedOperator:
        """Return the operator with each entry dropped at random, the rest scaled."""
        return DroppedOperator(self, probability)

    def row_norms(self) -> Tensor:
        """Return the Euclidean length of each row, [m]."""
        return row_norms(self.matrix, self.shape[1])

    def sample(self, k: int) -> SampledOperator:
        """Return the operator with at most `k` entries of each row, drawn at random."""
        check_integer("k", k, 1)
        return SampledOperator(self, min(k, self.shape[1]))


class DroppedOperator:
    """An operator some of whose entries were dropped; lives for one step."""

    def __init__(self, operator: Operator, probability: float) -> None:
        self._operator = operator
        values = operator.matrix.values()
        self._values = dropout(values, probability)
        self.shape = operator.shape

    def __matmul__(self, dense: Tensor) -> Tensor:
        matrix = with_values(self._operator.matrix, self._values)
        return product(matrix, self._transpose, dense)

    def row_norms(self) -> Tensor:
        """Return the Euclidean length of each row as it was dropped, [m]."""
        matrix = with_values(self._operator.matrix, self._values)
        return row_norms(matrix, self.shape[1])

    def _transpose(self) -> Matrix:
        order = self._operator.transposed_order
        return with_values(
            self._operator.transposed, self._values.index_select(0, order)
        )


class SampledOperator(DroppedOperator):
    """An operator with at most k entries of each row; lives for one step.

    In a row of d > k entries, k are drawn without replacement, all alike, and scaled
    by d/k; the others become zero. So each row's product is right on average, and
    where all entries of a row are 1/d, as in a mean over neighbors, those drawn are
    1/k: the mean over the sample. Rows of at most k entries stay as they are.

    Parameters
    ----------
    operator
        The operator, [m, n].
    k
        How many entries a row keeps.
    """

    def __init__(self, operator: Operator, k: int) -> None:
        self._operator = operator
        self.shape = operator.shape
        values = operator.matrix.values()
        row, (place, length) = operator.edges[0], operator.places
        keys = torch.randint(KEYS, row.shape, device=row.device)
        # The rows are whole numbers of KEYS apart: what is sorted stays in its row,
        # and the entry that comes p-th there is drawn if p < k.
        order = (row * KEYS + keys).argsort()
        drawn = torch.zeros_like(values)
        drawn[order] = (place < k).to(values.dtype)
        self._values = values * drawn * (length / length.clamp(max=k))


@dataclass(frozen=True)
class Target:
    """The nodes whose logits are wanted, and the operators' rows for them.

    Parameters
    ----------
    index
        The nodes, [m].
    operators
        The rows of each operator, [m, n].
    nodes
        Which nodes of the whole graph they are, where `index` numbers those of a part
        of it, [m]; None where the two are the same.
    """

    index: Tensor
    operators: tuple[LinearMap, ...]
    nodes: Tensor | None = None

    @property
    def names(self) -> Tensor:
        """The nodes as numbers of the whole graph, [m]."""
        return self.index if self.nodes is None else self.nodes

    @cached_property
    def own(self) -> Operator:
        """What has the nodes' own rows as its product, [m, n]."""
        return selection(self.index.cpu().numpy(), self.operators[0].shape[1])

    @classmethod
    def of(
        cls,
        operators: Sequence[LinearMap],
        index: NDArray[np.int64],
        device: torch.device | str = "cpu",
    ) -> Target:
        """Cut the rows `index` out of each operator."""
        rows = tuple(op.rows(index) for op in operators)
        return cls(torch.from_numpy(index).to(device), rows)


def selection(index: NDArray[np.int64], n_columns: int) -> Operator:
    """Return some rows of the identity, [len(index), n_columns]."""
    ones, starts = np.ones(len(index), dtype=np.float32), np.arange(len(index) + 1)
    return Operator(CSR((ones, index, starts), shape=(len(index), n_columns)))


def to_tensor(x: Features, device: torch.device | str = "cpu") -> Tensor | Operator:
    """Return features as what `x @ weight` works on: a tensor or an operator."""
    if isinstance(x, np.ndarray):
        return torch.from_numpy(x).to(device)
    return Operator(x, device=device)


def row_softmax(operator: Operator, scores: Tensor) -> Tensor:
    """Return the softmax of scores over the entries of each row.

    The largest score of a row is subtracted first, so that none is too large for
    the exponential.

    Parameters
    ----------
    operator
        The pattern, [m, n].
    scores
        Of each entry, [k, nnz].
    """
    row = operator.edges[0].expand_as(scores)
    shape = len(scores), operator.shape[0]
    with torch.no_grad():
        top = scores.new_full(shape, -math.inf).scatter_reduce(1, row, scores, "amax")
    powers = torch.exp(scores - top.gather(1, row))
    total = scores.new_zeros(shape).scatter_add(1, row, powers)
    return powers / total.gather(1, row)


def weighted_sums(operator: Operator, weights: Tensor, dense: Tensor) -> Tensor:
    r"""Return the sums over each row of what its columns hold, head by head.

    .. math::
        \text{out}_{ih} = \sum_j w_{hij}\, b_{jh}

    With the CSR pattern this is one sparse product a head, its gradient two: with
    the transposed pattern for `dense`, and dot products at the entries alone for
    `weights`. Nothing of size [nnz, d] is made.

    Parameters
    ----------
    operator
        The pattern, [m, n].
    weights
        Of each entry, [k, nnz].
    dense
        What is summed, [n, k, d].

    Returns
    -------
    Tensor
        [m, k, d].
    """
    if isinstance(operator.matrix, Triplets):
        rows, columns = operator.edges
        terms = dense[columns] * weights.T[:, :, None]
        sums = dense.new_zeros(operator.shape[0], *dense.shape[1:])
        return sums.index_add(0, rows, terms)
    result: Tensor = _WeightedSums.apply(operator, weights, dense)  # type: ignore[no-untyped-call]
    return result


class _WeightedSums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, operator: Operator, weights: Tensor, dense: Tensor) -> Tensor:
        ctx.operator = operator
        ctx.save_for_backward(weights, dense)
        return _products(operator.matrix, weights, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, Tensor]:
        operator: Operator = ctx.operator
        weights, dense = ctx.saved_tensors
        turned = weights.index_select(1, operator.transposed_order)
        for_dense = _products(operator.transposed, turned, grads[0])
        for_weights = torch.stack(
            [
                torch.sparse.sampled_addmm(operator.matrix, g, b.T, beta=0.0).values()
                for g, b in zip(grads[0].unbind(1), dense.unbind(1), strict=True)
            ]
        )
        return None, for_weights, for_dense


def _products(pattern: Matrix, weights: Tensor, dense: Tensor) -> Tensor:
    """Return a sparse product for each head, side by side."""
    return torch.stack(
        [
            with_values(pattern, values) @ block
            for values, block in zip(weights, dense.unbind(1), strict=True)
        ],
        dim=1,
    )
