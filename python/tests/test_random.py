"""Random arrays: how many different numbers there are, their moments, and keys."""
import math

import numpy as np
import pytest

import freight as fr

COUNT = 1_000_000


@pytest.mark.parametrize("dtype, different", [("float32", 0.96 * COUNT), ("float64", COUNT)])
def test_uniform_numbers_have_the_bits_of_their_type(dtype, different):
    fr.random.seed(1)
    u = fr.random.uniform(COUNT, -2, 6, dtype=dtype).numpy()
    assert u.dtype == dtype and len(np.unique(u)) >= different
    assert -2 <= u.min() and u.max() < 6
    assert abs(u.mean() - 2) < 0.02 and abs(u.var() / (64 / 12) - 1) < 0.01


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers_have_the_moments_and_tails(dtype):
    fr.random.seed(2)
    n = (fr.random.normal(COUNT, 1.0, 2.0, dtype=dtype).numpy() - 1) / 2
    assert n.dtype == dtype
    assert abs(n.mean()) < 5e-3 and abs(n.std() - 1) < 5e-3 and abs((n ** 3).mean()) < 0.02 and abs((n ** 4).mean() - 3) < 0.05
    for x in (1, 2, 3):
        beyond = math.erfc(x / math.sqrt(2))
        assert abs((abs(n) > x).mean() - beyond) < 5 * math.sqrt(beyond / COUNT)


@pytest.mark.parametrize("span", [1, 7, 2 ** 24, 2 ** 24 + 1, 2 ** 40, 2 ** 48])
def test_integers_fill_their_range(span):
    fr.random.seed(3)
    r = fr.random.randint(-5, span - 5, (10_000,)).numpy()
    assert r.min() >= -5 and r.max() < span - 5
    assert abs((r.astype("f8") + 5.5).mean() / span - 0.5) < 0.02 + 0.5 / span
    if span > 2 ** 24:
        assert len(np.unique(r % 2)) == 2 and len(np.unique(r)) > 9_990


def test_a_range_of_more_numbers_is_refused():
    with pytest.raises(ValueError, match=r"1 to 2\^48 numbers, got \[0, 562949953421312\)"):
        fr.random.randint(2 ** 49)


@pytest.mark.parametrize("draw", [lambda key: fr.random.uniform((5,), dtype=fr.float64, key=key), lambda key: fr.random.normal((5,), dtype=fr.float64, key=key),
                                  lambda key: fr.random.randint(2 ** 40, shape=(5,), key=key)], ids=["uniform", "normal", "randint"])
def test_draws_by_a_key_are_equal_in_jit(draw):
    first, second = fr.random.split(fr.random.key(7))
    assert draw(first).tolist() == draw(first).tolist() != draw(second).tolist()
    np.testing.assert_allclose(fr.jit(draw)(first).numpy(), draw(first).numpy(), rtol=1e-15)
