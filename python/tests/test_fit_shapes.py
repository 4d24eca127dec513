"""Forms of outputs, samples and targets that fit, evaluate and predict take, and names of settings."""
import copy
import pickle

import numpy as np
import pytest

import freight as fr
from freight import callbacks, nn
from freight.nn import functional as F

RNG = np.random.default_rng(0)
X = RNG.normal(size=(128, 4)).astype("f4")
Y = (X[:, 0] > 0).astype(int)


class Several(nn.Module):
    """Forward gives two results in a form."""

    def __init__(self, form):
        super().__init__()
        self.form, self.a, self.b = form, nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x):
        return self.form(self.a(x), self.b(x))


FORMS = {
    "tuple": (lambda a, b: (a, b), lambda o: (o[0], o[1])), "list": (lambda a, b: [a, b], lambda o: (o[0], o[1])),
    "dict": (lambda a, b: {"a": a, "b": b}, lambda o: (o["a"], o["b"])), "nested": (lambda a, b: (a, {"b": (b,)}), lambda o: (o[0], o[1]["b"][0])),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("settings", [{}, {"precision": "bf16"}, {"shards": 2, "devices": 2}, {"grad_accum": 2}], ids=str)
def test_a_loss_and_a_metric_get_what_forward_returned(name, settings):
    form, parts = FORMS[name]

    def loss(outputs, targets):
        a, b = parts(outputs)
        return fr.mse_loss(a, targets) + fr.mean(b**2)

    def worst(outputs, targets):
        return fr.mean(abs(parts(outputs)[1]))

    fr.random.seed(1)
    net = Several(form)
    history = net.fit(X, X, validation_data=(X, X), loss=loss, metric=worst, epochs=8, lr=0.1, verbose=0, batch_size=32, **settings)
    assert history.history["loss"][-1] < history.history["loss"][0] / 2
    figures = net.evaluate(X, X, loss=loss, metric=worst)
    a, b = parts(net.predict(X))
    assert a.shape == (128, 4) and b.shape == (128, 2)
    assert figures["loss"] == pytest.approx(float(fr.mse_loss(a, X) + fr.mean(b**2)), rel=1e-4)
    assert figures["worst"] == pytest.approx(float(fr.mean(abs(b))), rel=1e-4)
    assert net.evaluate(X, X)["loss"] == figures["loss"]  # of the loss that fit had
    assert type(net.predict(X)) is type(form(a, b))


def test_a_module_is_copied_while_it_is_trained_and_is_as_before_behind_it():
    copies = []

    class Copies(callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            copies.append((copy.deepcopy(self.model), pickle.loads(pickle.dumps(self.model)), self.model(X)))

    net = Several(tuple_of)
    net.fit(X, X, loss=squares, verbose=0, callbacks=[Copies()], sample_weight=np.ones(128))
    assert "forward" not in net.__dict__
    for made in copies[0][:2]:
        assert "forward" not in made.__dict__
        np.testing.assert_array_equal(made.predict(X)[0], net.predict(X)[0])


def tuple_of(a, b):
    return a, b


def squares(outputs, targets):
    return (outputs[0] - targets) ** 2 + fr.mean(outputs[1])


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(10, 8), nn.Linear(8, 2)

    def forward(self, tokens):
        return self.head(fr.mean(self.embed(tokens), axis=1))


def images():
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2))


@pytest.mark.parametrize("make, train, other", [
    (Tokens, RNG.integers(1, 10, (64, 5)), RNG.integers(1, 10, (30, 9))), (images, RNG.normal(size=(64, 1, 8, 8)).astype("f4"), RNG.normal(size=(30, 1, 12, 10)).astype("f4")),
    (images, RNG.integers(0, 256, (64, 1, 8, 8)).astype("u1"), RNG.integers(0, 256, (30, 1, 12, 10)).astype("u1"))], ids=["tokens", "images", "pixels"])
def test_samples_of_all_shapes_that_forward_takes_are_predicted_evaluated_and_validated(make, train, other):
    y, z = np.arange(64) % 2, np.arange(30) % 2
    fr.random.seed(3)
    net = make()
    history = net.fit(train, y, validation_data=(other, z), epochs=2, verbose=0)
    for x in (train, other):
        expected = net.eval()(x / np.float32(255) if x.dtype == np.uint8 else x)
        np.testing.assert_allclose(np.asarray(net.predict(x)), np.asarray(expected), rtol=1e-5, atol=1e-6)
    figures = net.evaluate(other, z)
    assert figures["loss"] == pytest.approx(history.history["val_loss"][-1], rel=1e-5)
    assert figures["accuracy"] == pytest.approx(history.history["val_accuracy"][-1])


def test_a_shape_that_forward_refuses_is_named_beside_that_of_fit():
    net = nn.Sequential(nn.Linear(4, 2))
    net.fit(X, Y, verbose=0)
    with pytest.raises(ValueError, match=r"predict: forward takes no samples of shape \(3,\), fit had \(4,\): .*inner dimensions differ"):
        net.predict(X[:, :3])


def test_targets_of_probabilities_train_like_classes():
    hot = np.eye(2)[Y]
    nets = []
    for y in (Y, hot, hot.astype("f4")):
        fr.random.seed(1)
        nets.append(nn.Linear(4, 2))
        history = nets[-1].fit(X, y, validation_data=(X[:40], y[:40]), loss="cross_entropy", epochs=3, lr=0.1, verbose=0)
        assert history.history["val_accuracy"][-1] > 0.85
        figures = nets[-1].evaluate(X, y)
        assert figures["accuracy"] == pytest.approx(float(np.mean(np.argmax(nets[-1].predict(X), 1) == Y)))
        assert figures == pytest.approx(nets[0].evaluate(X, Y), rel=1e-4)
    for net in nets[1:]:
        np.testing.assert_allclose(np.asarray(net.weight), np.asarray(nets[0].weight), rtol=1e-4, atol=1e-6)
    weights = np.where(Y, 2.0, 1.0)
    pair = []
    for y in (Y, hot):
        fr.random.seed(1)
        pair.append(nn.Linear(4, 2))
        pair[-1].fit(X, y, loss="cross_entropy", sample_weight=weights, epochs=2, lr=0.1, verbose=0)
    np.testing.assert_allclose(np.asarray(pair[0].weight), np.asarray(pair[1].weight), rtol=1e-4, atol=1e-6)
    soft = hot * 0.8 + 0.1
    net = nn.Linear(4, 2)
    assert net.fit(X, soft, loss="cross_entropy", epochs=5, lr=0.1, verbose=0).history["loss"][-1] > 0.3
    for bad, message in ((soft * 2, "expected probabilities whose sum is 1 in each row"), (X[:, 0], r"expected classes as integers, or probabilities \(N, K\)")):
        with pytest.raises((ValueError, TypeError), match="fit: y: " + message):
            nn.Linear(4, 2).fit(X, bad, loss="cross_entropy", verbose=0)


@pytest.mark.parametrize("settings, kind, message", [
    ({"learning_rate": 0.1}, TypeError, "fit has no setting 'learning_rate': use lr"), ({"wd": 0.1}, TypeError, "fit has no setting 'wd': use weight_decay"),
    ({"patience": 3}, TypeError, "fit has no setting 'patience': use early_stop"),
    ({"shard_optimizer": True}, TypeError, "fit: shard_optimizer is a flag of the command that fit does not take: use freight.train"),
    ({"elastic": "1"}, TypeError, "fit: elastic is a flag of the command"),
    ({"early_stop": "none"}, TypeError, "fit: early_stop: expected a whole number of evaluations, 0 for none, got 'none'"),
    ({"callbacks": [callbacks.EarlyStopping(patience=1.5)]}, TypeError, "EarlyStopping: early_stop: expected a whole number"),
    ({"allow_unused": True}, ValueError, "unknown setting 'allow_unused'")], ids=str)
def test_settings_that_fit_lacks_are_refused_with_what_to_use(settings, kind, message):
    with pytest.raises(kind, match=message):
        nn.Linear(4, 2).fit(X, Y, validation_data=(X, Y), verbose=0, **settings)


@pytest.mark.parametrize("kind", ["floats", "pixels"])
def test_without_shuffling_batches_have_the_order_of_the_arrays(kind):
    x = np.repeat(np.arange(24, dtype="u1"), 4).reshape(24, 4) if kind == "pixels" else np.repeat(np.arange(24, dtype="f4") / 255, 4).reshape(24, 4)
    y = np.arange(24) % 2

    def fitted(**settings):
        fr.random.seed(1)
        net = nn.Sequential(nn.Linear(4, 2))
        net.fit(x, y, validation_data=(x, y), epochs=2, batch_size=8, lr=0.1, verbose=0, **settings)
        return np.asarray(net[0].weight)

    fr.random.seed(1)
    net = nn.Sequential(nn.Linear(4, 2))
    batches = [(np.asarray(x[i:i + 8]), y[i:i + 8]) for i in (0, 8, 16)]

    class Loader:
        def __len__(self):
            return 3

        def __iter__(self):
            return iter(batches)

    net.fit(Loader(), epochs=2, lr=0.1, verbose=0)
    np.testing.assert_array_equal(fitted(shuffle=False), np.asarray(net[0].weight))
    assert not np.array_equal(fitted(), np.asarray(net[0].weight))
    with pytest.raises(ValueError, match="shuffle=False is for arrays and batches"):
        net.fit("photos", shuffle=False, input_shape=(4,), verbose=0)


def test_a_loss_and_a_metric_may_have_several_numbers_per_sample():
    t = X[:, :2]
    net = nn.Sequential([nn.Linear(4, 2)])
    fr.random.seed(1)
    history = net.fit(X, t, validation_data=(X, t), loss=lambda o, t: (o - t) ** 2, metric=lambda o, t: abs(o - t), epochs=3, lr=0.1, verbose=0)
    assert net.evaluate(X, t)["loss"] == pytest.approx(float(fr.mean((net.predict(X) - t) ** 2)), rel=1e-4)
    assert history.history["val_metric"][-1] == pytest.approx(float(fr.mean(abs(net.predict(X) - t))), rel=1e-3)


def test_a_fit_that_is_refused_leaves_what_the_model_is_for():
    net = nn.Sequential(nn.Linear(4, 2))
    with pytest.raises(ValueError, match="shapes differ"):
        net.fit(X, X[:, :1], loss=nn.BCEWithLogitsLoss(), verbose=0)
    assert net.evaluate(X, Y, verbose=0)["accuracy"] >= 0 and net.predict(X, verbose=0).shape == (128, 2)
    net.fit(X, Y, verbose=0)
    with pytest.raises(ValueError, match="shapes differ"):
        net.fit(X, X[:, :1], loss=nn.BCEWithLogitsLoss(), verbose=0)
    assert net.evaluate(X, Y)["accuracy"] >= 0


def test_losses_and_metrics_of_ones_own_over_tokens_are_means_in_evaluations():
    ids = np.random.default_rng(0).integers(0, 20, (64, 9))
    x, y = ids[:, :-1], np.where(np.arange(8) < 6, ids[:, 1:], -100)
    net = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))

    def loss(outputs, targets):
        return nn.functional.cross_entropy(fr.reshape(outputs, (-1, 20)), fr.reshape(targets, (-1,)))

    def metric(outputs, targets):
        return fr.mean(fr.astype(fr.argmax(outputs, axis=-1) == targets, fr.float32))

    history = net.fit(x, y, validation_data=(x, y), loss=loss, metric=metric, lr=1e-9, epochs=1, verbose=0).history
    found = net.evaluate(x, y)
    by_hand = fr.asarray(net.predict(x))
    assert float(loss(by_hand, fr.asarray(y))) == pytest.approx(found["loss"], rel=1e-5)
    assert history["val_loss"] == pytest.approx(history["loss"], rel=1e-5) == [found["loss"]]
    assert float(metric(by_hand, fr.asarray(y))) == pytest.approx(found["metric"], abs=1e-6) == history["val_metric"][0]


class Pair(nn.Module):
    """Of two inputs, one of them tokens."""

    def __init__(self):
        super().__init__()
        self.e, self.f = nn.Embedding(10, 4), nn.Linear(3, 4)

    def forward(self, user, context):
        return fr.sum(self.e(user) * self.f(context), axis=-1, keepdims=True)


USERS, CONTEXTS, SCORES = np.arange(64) % 10, RNG.normal(size=(64, 3)).astype("f4"), np.ones(64, "f4")


def numbers(found):
    """All numbers in what a command returned."""
    if isinstance(found, (dict, list)):
        return [n for part in (found.values() if isinstance(found, dict) else found) for n in numbers(part)]
    return [found] if isinstance(found, float) else []


def test_a_net_of_several_inputs_is_saved_with_them_side_by_side(tmp_path):
    net, x = Pair(), {"user": USERS, "context": CONTEXTS}
    for shapes in (((), (3,)), {"user": (), "context": (3,)}):
        assert net.save(tmp_path / "a.safetensors", input_shape=shapes)
        assert np.array_equal(fr.load(tmp_path / "a.safetensors").predict((USERS, CONTEXTS)), Pair().load_weights(tmp_path / "a.safetensors").predict(x))
    net.fit(x, SCORES, verbose=0)
    assert net.save(tmp_path / "a.safetensors")
    assert np.array_equal(Pair().load_weights(tmp_path / "a.safetensors").predict(x), net.predict(x))
    loaded = fr.load(tmp_path / "a.safetensors")
    assert list(loaded.state_dict()) == list(net.state_dict())
    for form in (x, dict(reversed(x.items())), (USERS, CONTEXTS), [USERS, CONTEXTS]):
        assert np.array_equal(loaded.predict(form), net.predict(x)) and loaded.evaluate(form, SCORES) == net.evaluate(x, SCORES)
    arrays = fr.asarray(USERS), fr.asarray(CONTEXTS)
    assert np.array_equal(loaded(*arrays), loaded(context=arrays[1], user=arrays[0]))
    with pytest.raises(TypeError, match=r"forward: expected the inputs user int32\[\], context float32\[3\], got 1"):
        loaded(arrays[0])
    rows = np.concatenate([USERS[:, None], CONTEXTS], axis=1).astype("f4")
    np.save(tmp_path / "row.npy", rows[7])
    found = fr.predict(str(tmp_path / "a.safetensors"), str(tmp_path / "row.npy"))
    assert float(np.asarray(net.predict(x))[7, 0]) in [pytest.approx(v, rel=1e-4) for v in numbers(found)]
    start = copy.deepcopy(net)
    histories = [n.fit(x, SCORES, epochs=2, verbose=0).history for n in (loaded, start)]
    assert histories[0]["loss"] == pytest.approx(histories[1]["loss"], rel=1e-6)
    assert loaded.save(tmp_path / "b.safetensors")
    assert np.array_equal(fr.load(tmp_path / "b.safetensors").predict(x), loaded.predict(x))


def test_names_of_outputs_that_were_given_before_fit_are_stored(tmp_path):
    for make in (lambda: nn.Linear(4, 3), lambda: Several(lambda a, b: a)):
        net, names = make(), [f"kind {i}" for i in range(3 if isinstance(make(), nn.Linear) else 4)]
        net.classes = names
        net.save(tmp_path / "a.safetensors", input_shape=(4,))
        assert fr.load(tmp_path / "a.safetensors").classes == names
        assert net.classes == names


def test_a_loaded_model_asks_for_a_loss_that_was_a_function(tmp_path):
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.f = nn.Linear(3, 1)

        def forward(self, x):
            return self.f(x) * 2

    for net in (nn.Linear(3, 1), Own()):
        net.fit(CONTEXTS, SCORES, loss=lambda o, t: fr.mean(abs(o[:, 0] - t)), verbose=0)
        net.save(tmp_path / "a.safetensors")
        loaded = fr.load(tmp_path / "a.safetensors")
        with pytest.raises(ValueError, match="evaluate: loss: .* a loss function of its program, which its file does not have: expected it as loss="):
            loaded.evaluate(CONTEXTS, SCORES)
        assert loaded.evaluate(CONTEXTS, SCORES, loss=lambda o, t: fr.mean(abs(o[:, 0] - t))) == net.evaluate(CONTEXTS, SCORES)


def test_batches_of_several_inputs_train_as_the_arrays_do(tmp_path):
    x, start = {"user": USERS, "context": CONTEXTS}, Pair()
    parts = [slice(i, i + 16) for i in range(0, 64, 16)]
    named = [({"user": USERS[p], "context": CONTEXTS[p]}, SCORES[p]) for p in parts]
    ordered = [((USERS[p], CONTEXTS[p]), SCORES[p]) for p in parts]

    def trained(*data, **settings):
        net = copy.deepcopy(start)
        return net.fit(*data, epochs=2, verbose=0, **settings).history, net

    expected, net = trained(x, SCORES, batch_size=16, shuffle=False, validation_data=(x, SCORES))
    assert net.evaluate(named) == net.evaluate(x, SCORES)
    for data, settings in ((named, {}), (ordered, {}), (iter(ordered * 2), {"steps_per_epoch": 4}), (named, {"validation_data": (x, SCORES)}),
                           (ordered, {"validation_data": ordered})):
        found, _ = trained(data, **settings)
        assert all(found[k] == pytest.approx(expected[k], rel=1e-5) for k in found)
    found, _ = trained(x, SCORES, batch_size=16, shuffle=False, validation_data=named)
    assert found["val_loss"] == pytest.approx(expected["val_loss"], rel=1e-5)
    other = [named[0], ({"user": USERS[:16], "context": CONTEXTS[:16, :2]}, SCORES[:16])]
    with pytest.raises(ValueError, match=r"a batch of x: expected inputs user .*, context float32\[3\] as in the first batch, got .* context float32\[2\]"):
        start.fit(other, verbose=0)


def test_a_list_of_batches_is_a_loader():
    net = nn.Linear(4, 2)
    history = net.fit([(X[:64], Y[:64]), (X[64:], Y[64:])], epochs=3, verbose=0)
    assert history.steps == 6 and net.evaluate([(X[:64], Y[:64]), (X[64:], Y[64:])]) == net.evaluate(X, Y)
    with pytest.raises(TypeError, match=r"batch 0 of x: expected \(x, y\), got tuple of 4"):
        net.fit([(X, Y, np.ones(128), np.ones(128))] * 2, verbose=0)


def test_a_network_of_tokens_is_saved_by_the_shape_of_a_sample(tmp_path):
    class Mean(nn.Module):
        def __init__(self):
            super().__init__()
            self.e, self.f = nn.Embedding(20, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.f(fr.mean(self.e(x), axis=1))

    tokens, path = RNG.integers(0, 20, (9, 7)), tmp_path / "tokens.safetensors"
    fresh, called = Mean(), Mean()
    expected = called.predict(tokens)
    assert fresh.save(path, input_shape=(7,)) and fr.load(path).predict(tokens).shape == (9, 3)
    assert called.save(path, input_shape=(7,)) and np.allclose(fr.load(path).predict(tokens), expected, atol=1e-6)


def test_labels_in_a_given_order_and_in_batches_train_as_shuffled_ones():
    labels, start = RNG.random((128, 3)) > 0.5, nn.Linear(4, 3)

    def trained(*data, **settings):
        net = copy.deepcopy(start)
        return net.fit(*data, epochs=2, verbose=0, **settings).history["loss"], net

    expected, _ = trained(X, labels.astype("f4"), loss="bce", batch_size=128)
    ordered, net = trained(X, labels.astype("f4"), loss="bce", batch_size=128, shuffle=False, validation_data=(X, labels))
    assert ordered == pytest.approx(expected, rel=1e-6)
    assert trained(X, labels, batch_size=128, shuffle=False)[0] == pytest.approx(expected, rel=1e-6)
    assert trained([(X, labels)], loss="bce")[0] == pytest.approx(expected, rel=1e-6)
    right = F.binary_cross_entropy_with_logits(net(X), labels.astype("f4")).item()
    assert net.evaluate(X, labels)["loss"] == pytest.approx(right, rel=1e-5)


IMAGES = RNG.random((32, 1, 6, 6)).astype("f4")


@pytest.mark.parametrize("loss, right", [("auto", F.mse_loss), ("mse", F.mse_loss), ("mae", F.l1_loss), ("huber", F.huber_loss),
                                         ("bce", F.binary_cross_entropy_with_logits)])
def test_values_may_have_several_axes(loss, right):
    targets = (IMAGES > 0.5).astype("f4") if loss == "bce" else IMAGES
    net = nn.Conv2d(1, 1, 3, padding=1)
    history = net.fit(IMAGES, targets, validation_data=(IMAGES, targets), loss=loss, lr=1e-9, verbose=0).history
    expected = right(net(IMAGES), targets).item()
    assert history["loss"][0] == pytest.approx(expected, rel=1e-4) and history["val_loss"][0] == pytest.approx(expected, rel=1e-4)
    assert net.evaluate(IMAGES, targets)["loss"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("settings", [{}, {"loss": "cross_entropy"}, {"loss": F.cross_entropy}, {"loss": nn.CrossEntropyLoss()}, {"metric": "accuracy"},
                                      {"callbacks": [callbacks.EarlyStopping("val_accuracy", patience=2)]}], ids=str)
def test_classes_of_pixels_have_a_loss_and_an_accuracy(settings):
    x, y = RNG.normal(size=(16, 3, 6, 6)).astype("f4"), RNG.integers(0, 4, (16, 6, 6))
    net = nn.Conv2d(3, 4, 1)
    history = net.fit(x, y, validation_data=(x, y), lr=1e-9, verbose=0, **settings).history
    outputs = net(x)
    loss, accuracy = F.cross_entropy(outputs, y).item(), np.mean(np.argmax(np.asarray(outputs), axis=1) == y)
    figures = net.evaluate(x, y)
    assert [history["loss"][0], history["val_loss"][0], figures["loss"]] == pytest.approx([loss] * 3, rel=1e-4)
    assert [history["accuracy"][0], history["val_accuracy"][0], figures["accuracy"]] == pytest.approx([accuracy] * 3, abs=1e-4)


def test_a_loss_of_the_program_takes_classes_of_any_outputs():
    tokens = RNG.integers(0, 20, (64, 9))
    net = nn.Sequential(nn.Embedding(20, 8), nn.Linear(8, 20))
    own = lambda o, t: F.cross_entropy(o.reshape(-1, 20), t.reshape(-1))  # noqa: E731
    found = net.fit(tokens[:, :-1], tokens[:, 1:], loss=own, lr=1e-9, verbose=0).history
    assert found["loss"][0] == pytest.approx(float(own(net(tokens[:, :-1]), fr.asarray(tokens[:, 1:]))), rel=1e-4)
    one = nn.Sequential(nn.Linear(4, 1), nn.Flatten(0))
    logistic = lambda o, t: F.binary_cross_entropy_with_logits(o.reshape(-1), t.astype(fr.float32))  # noqa: E731
    history = one.fit(X, Y, loss=logistic, epochs=20, lr=0.1, verbose=0).history
    assert history["loss"][-1] < 0.5 < history["loss"][0] + 0.3


class OfTokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(9, 6), nn.Linear(6, 4)

    def forward(self, x):
        return self.out(self.table(x))


DENSE = {"images": (lambda: nn.Conv2d(3, 4, 1), (3, 6, 5), (6, 5), 1), "series": (lambda: nn.Conv1d(3, 4, 1), (3, 7), (7,), 1),
         "tokens": (OfTokens, (7,), (7,), 2)}


@pytest.mark.parametrize("kind", DENSE)
@pytest.mark.parametrize("settings", [{}, {"loss": "cross_entropy"}, {"loss": "focal"}, {"label_smoothing": 0.2}, {"sample_weight": True},
                                      {"sample_weight": True, "loss": "focal"}, {"sample_weight": True, "label_smoothing": 0.2}], ids=str)
def test_losses_of_classes_at_places_are_what_their_names_say(kind, settings):
    """Places without a class, -1, do not count. All were the cross-entropy."""
    torch = pytest.importorskip("torch")
    make, shape, places, axis = DENSE[kind]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 9, (24, *shape)).astype("i4") if kind == "tokens" else rng.normal(size=(24, *shape)).astype("f4")
    y = rng.integers(-1, 4, (24, *places))
    fr.random.seed(1)
    net = make()
    o = torch.movedim(torch.tensor(np.asarray(net.predict(x))).double(), axis, 1)
    t = torch.tensor(np.where(y < 0, -100, y))

    def of_places(smoothing=0.0):
        each = torch.nn.functional.cross_entropy(o, t, reduction="none", label_smoothing=smoothing)
        return ((1 - torch.exp(-each)) ** 2 * each if settings.get("loss") == "focal" else each).numpy()

    weights = rng.uniform(0, 2, 24) if "sample_weight" in settings else None
    given = {**settings, **({"sample_weight": weights} if weights is not None else {})}

    def mean(each):
        factors = 1 if weights is None else weights / weights.mean()
        return (each.reshape(24, -1).sum(1) * factors).sum() / (y >= 0).sum()

    validation = (x, y) if weights is None else (x, y, weights)
    history = net.fit(x, y, validation_data=validation, epochs=1, batch_size=24, lr=0.0, verbose=0, **given).history
    assert history["loss"][0] == pytest.approx(mean(of_places(settings.get("label_smoothing", 0.0))), rel=1e-4)
    assert history["val_loss"][0] == pytest.approx(mean(of_places()), rel=1e-4)
    found = net.evaluate(x, y, sample_weight=weights)
    assert found["loss"] == pytest.approx(mean(of_places()), rel=1e-4)
    assert found["accuracy"] == pytest.approx(mean(((o.argmax(1).numpy() == y) & (y >= 0)).astype("f8")), rel=1e-4) == history["val_accuracy"][0]


def test_other_losses_of_classes_at_places_are_refused():
    x, y = np.zeros((8, 3, 6, 5), "f4"), np.arange(240).reshape(8, 6, 5) % 4
    for loss, text in (("bce", "y: expected 0 and 1 for the loss bce, got other numbers"), ("mse", "shapes differ")):
        with pytest.raises(ValueError, match=text):
            nn.Conv2d(3, 4, 1).fit(x, y, loss=loss, verbose=0)
    with pytest.raises(ValueError, match="label_smoothing: is for cross_entropy"):
        nn.Conv2d(3, 4, 1).fit(x, y, loss="focal", label_smoothing=0.1, verbose=0)


def test_labels_at_places_train_by_bce(tmp_path):
    """0 and 1 of any type, for outputs of the same shape."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(24, 3, 6, 5)).astype("f4"), rng.integers(0, 2, (24, 1, 6, 5))
    for dtype in ("?", "u1", "i8", "f4"):
        fr.random.seed(1)
        net = nn.Conv2d(3, 1, 1)
        o = net.predict(x).numpy().astype("f8")
        history = net.fit(x, labels.astype(dtype), loss="bce", epochs=1, batch_size=24, lr=0.0, verbose=0).history
        assert history["loss"][0] == pytest.approx(np.mean(np.maximum(o, 0) - o * labels + np.log1p(np.exp(-np.abs(o)))), rel=1e-4)
