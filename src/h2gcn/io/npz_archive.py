"""Plain arrays and CSR matrices out of an npz archive that is not trusted."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from h2gcn.exceptions import InputError
from h2gcn.graph import CSR
from h2gcn.io.files import existing_file, one_line

__all__ = ["Archive"]

# What zipfile raises besides: RuntimeError for encrypted members, its subclass
# NotImplementedError for compression that it does not know; MemoryError where a
# shape is damaged.
_DAMAGE = (
    EOFError,
    MemoryError,
    OSError,
    OverflowError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
)


class Archive:
    """The arrays of an npz file, each read when it is asked for.

    Parameters
    ----------
    path
        The file. What is in it is never unpickled.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path = existing_file(path)
        try:
            if not zipfile.is_zipfile(path):
                raise InputError(
                    f"{path}: this is not an npz archive, or it is cut short."
                )
            with np.load(path, allow_pickle=False) as arrays:
                self.keys: list[str] = list(arrays.files)
        except InputError:
            raise
        except (*_DAMAGE, ValueError) as error:
            raise self._broken(error) from None

    def __getitem__(self, key: str) -> NDArray[Any]:
        """Return an array that is there."""
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                array = arrays[key]
        except ValueError as error:
            if "allow_pickle" in str(error):
                raise InputError(
                    f"{self.path}: '{key}' holds pickled Python objects; only plain "
                    "arrays are read."
                ) from None
            raise self._broken(error) from None
        except _DAMAGE as error:
            raise self._broken(error) from None
        if not isinstance(array, np.ndarray):
            raise InputError(f"{self.path}: '{key}' is not an array.")
        return array

    def get(self, key: str) -> NDArray[Any] | None:
        """Return an array, or None where there is none of that name."""
        return self[key] if key in self.keys else None

    def csr(self, prefix: str, shape: tuple[int, ...] | None = None) -> CSR:
        """Return the matrix `<prefix>_*` once nothing of it is taken on trust.

        Parameters
        ----------
        prefix
            How the names of its parts begin.
        shape
            Its shape; by default what `<prefix>_shape` says.
        """
        if shape is None:
            shape = tuple(int(size) for size in self[f"{prefix}_shape"].ravel())
        data, indices, indptr = (
            self[f"{prefix}_{part}"] for part in ("data", "indices", "indptr")
        )
        sound = (
            len(shape) == 2
            and min(shape) >= 0
            and data.ndim == indices.ndim == indptr.ndim == 1
            and data.dtype.kind in "biuf"
            and indices.dtype.kind in "iu"
            and indptr.dtype.kind in "iu"
            and indptr.size == shape[0] + 1
            and indptr[0] == 0
            and bool((indptr[1:] >= indptr[:-1]).all())
            and indptr[-1] == indices.size == data.size
            and int(indices.min(initial=0)) >= 0
            and int(indices.max(initial=-1)) < shape[1]
        )
        if not sound:
            raise InputError(
                f"{self.path}: '{prefix}_*' is not a sound CSR matrix (lengths, index "
                "ranges or types do not fit its shape)."
            )
        return CSR((data, indices, indptr), shape=(shape[0], shape[1]))

    def _broken(self, error: Exception) -> InputError:
        return InputError(
            f"{self.path}: the archive cannot be read ({one_line(error)})."
        )
