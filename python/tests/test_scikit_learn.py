"""scikit-learn's estimators on Freight's arrays, by the array API: the results are NumPy's to rounding."""
import os

os.environ["SCIPY_ARRAY_API"] = "1"  # read when scipy is imported

import pytest

import freight as f

numpy = pytest.importorskip("numpy")
sklearn = pytest.importorskip("sklearn")
pytest.importorskip("scipy", minversion="1.14")

from sklearn.decomposition import PCA  # noqa: E402
from sklearn.linear_model import Ridge  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402

ESTIMATORS = [
    (lambda: StandardScaler(), "transform", ["mean_", "var_", "scale_"]),
    (lambda: PCA(n_components=3, svd_solver="full"), "transform", ["components_", "explained_variance_", "mean_"]),
    (lambda: PCA(n_components=3, svd_solver="covariance_eigh", whiten=True), "transform", ["components_", "singular_values_"]),
    (lambda: Ridge(alpha=0.5, solver="svd"), "predict", ["coef_", "intercept_"]),
]


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-3), ("float64", 1e-10)])
@pytest.mark.parametrize("make, method, attributes", ESTIMATORS)
def test_estimators_fit_and_apply_as_with_numpy(make, method, attributes, dtype, tolerance):
    random = numpy.random.default_rng(0)
    x = (random.normal(size=(200, 6)) @ random.normal(size=(6, 6)) + 1).astype(dtype)
    y = (x @ numpy.arange(6.0) + random.normal(size=200)).astype(dtype)
    with sklearn.config_context(array_api_dispatch=True):
        plain, own = make().fit(x, y), make().fit(f.asarray(x), f.asarray(y))
        expected, got = getattr(plain, method)(x), getattr(own, method)(f.asarray(x))
    assert isinstance(got, f.Array) and got.dtype.name == dtype
    assert numpy.allclose(got.numpy(), expected, rtol=tolerance, atol=tolerance)
    for name in attributes:
        value = getattr(own, name)
        assert isinstance(value, (f.Array, float)), name
        assert numpy.allclose(numpy.asarray(value), getattr(plain, name), rtol=tolerance, atol=tolerance), name
