"""Linear algebra: the standard's linalg extension, and NumPy's functions that it lacks."""
from . import _hints
from ._functions import kron  # noqa: F401
from ._linalg import (LinAlgError, cholesky, cond, cross, det, diagonal, eig, eigh, eigvals, eigvalsh, expm, inv, lstsq, matmul,  # noqa: F401
                      matrix_norm, matrix_power, matrix_rank, matrix_transpose, norm, outer, pinv, qr, slogdet, solve, svd,
                      svdvals, tensordot, trace, vecdot, vector_norm)
from ._manipulation import _converted

_hints.explained(globals(), __name__, ("x",), _converted)


def __getattr__(name):
    import freight

    raise _hints.missing("module 'freight.linalg'", name, {name: f"freight.{name}"} if hasattr(freight, name) else {})
