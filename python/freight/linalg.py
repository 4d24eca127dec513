"""Linear algebra: the standard's linalg extension."""
from ._linalg import (LinAlgError, cholesky, cross, det, diagonal, eig, eigh, eigvals, eigvalsh, inv, matmul,  # noqa: F401
                      matrix_norm, matrix_power, matrix_rank, matrix_transpose, outer, pinv, qr, slogdet, solve, svd,
                      svdvals, tensordot, trace, vecdot, vector_norm)
