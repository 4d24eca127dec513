"""Gradients within jit and within other gradients: what was computed outside of the differentiated function is a constant of it,
though it was computed from the same arrays or parameters."""
import numpy as np
import pytest

import freight as fr
from freight import nn

X = np.array([2.0, 3.0], "f4")
W = np.array([[1.0, 2.0]], "f4")


def through(how, function, *arguments):
    """The result of the function: called, compiled, or as the sum whose gradient by a factor of 1 it is."""
    if how == "called":
        return function(*arguments).numpy()
    if how == "compiled":
        return fr.jit(function)(*arguments).numpy()
    shape = function(*arguments).shape
    return fr.grad(lambda factors: fr.sum(factors * function(*arguments)))(fr.ones(shape)).numpy()


HOW = pytest.mark.parametrize("how", ["called", "compiled", "within a gradient"])


def by_itself(x):
    return fr.grad(lambda y: fr.sum(y ** 3 * x))(x)  # 3 x^3


def by_one_of_two(x):
    return fr.grad(lambda y, z: fr.sum(y ** 3 * z))(x, x)


def by_both(x):
    first, second = fr.grad(lambda y, z: fr.sum(y ** 3 * z), argnums=(0, 1))(x, x)
    return first + 100 * second  # 3 x^3 + 100 x^3


def by_values_before(x):
    z = x * 3
    return fr.grad(lambda y: fr.sum(y * z))(x)


def by_a_dict(x):
    return fr.grad(lambda part: fr.sum(part["y"] * x))({"y": x})["y"]


def hessian_times_itself(x):
    return fr.grad(lambda y: fr.sum(fr.grad(lambda p: fr.sum(p ** 3))(y) * x))(x)  # 6 x x


def in_place(x):
    def function(y):
        y += x
        return fr.sum(y * y)

    return fr.grad(function)(x)  # 2 (x + x)


CASES = {by_itself: 3 * X ** 3, by_one_of_two: 3 * X ** 3, by_both: 103 * X ** 3, by_values_before: 3 * X, by_a_dict: X, hessian_times_itself: 6 * X * X,
         in_place: 4 * X}


@HOW
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_arrays_of_the_outer_function_are_constants(how, function):
    np.testing.assert_allclose(through(how, function, fr.asarray(X)), CASES[function], rtol=1e-6)


def network():
    net = nn.Linear(2, 1)
    net.weight, net.bias = fr.asarray(W), fr.asarray([0.5])
    return net


def of_a_target(net, x):
    target = 2 * net(x[None])
    return fr.value_and_grad(lambda net: fr.sum((net(x[None]) - target) ** 2))(net)[1]["weight"]  # 2 (f - 2 f) x = -17 x


def of_held_weights(net, x):
    held = net.weight
    return fr.grad(lambda net: fr.sum(net.weight * held) * 2)(net)["weight"]


def of_a_list(net, x):
    target = 2 * net(x[None])
    return fr.grad(lambda parts: fr.sum((parts[0](x[None]) - target) ** 2))([net])[0]["weight"]


def of_closure(net, x):
    return fr.grad(lambda other: fr.sum(other(x[None]) * net(x[None])))(net)["weight"]  # the same parameters: 2 f x


def of_an_assignment(net, x):
    def function(net):
        net.weight = net.weight * 1
        return fr.sum(net(x[None]) ** 2)

    return fr.grad(function)(net)["weight"]  # 2 f x


MODULES = {of_a_target: -17 * X[None], of_held_weights: 2 * W, of_a_list: -17 * X[None], of_closure: 17 * X[None], of_an_assignment: 17 * X[None]}


@HOW
@pytest.mark.parametrize("function", MODULES, ids=lambda f: f.__name__)
def test_what_a_module_computed_before_is_a_constant(how, function):
    if how == "within a gradient" and function is of_an_assignment:
        pytest.skip("a recorded assignment takes effect outside of the gradient too")
    np.testing.assert_allclose(through(how, function, network(), fr.asarray(X)), MODULES[function], rtol=1e-6)


def test_outer_gradients_pass_inner_ones_of_the_same_module():
    def outer(net):
        return fr.sum(of_a_target(net, fr.asarray(X)))  # -2 f (x0 + x1), whose gradient is -10 x

    net = network()
    for found in (fr.grad(outer)(net), fr.jit(fr.grad(outer))(net)):
        np.testing.assert_allclose(found["weight"].numpy(), -10 * X[None], rtol=1e-6)
        np.testing.assert_allclose(found["bias"].numpy(), [-10], rtol=1e-6)


def test_errors_leave_no_values_behind():
    net, x = network(), fr.asarray(X)

    def failing(net):
        raise KeyError("inside")

    def function(x):
        for bad in (lambda: fr.grad(failing)(net), lambda: fr.grad(lambda net: fr.sum(net(x[None])), argnums=3)(net)):
            with pytest.raises((KeyError, TypeError)):
                bad()
        return of_a_target(net, x)

    np.testing.assert_allclose(fr.jit(function)(x).numpy(), -17 * X[None], rtol=1e-6)
