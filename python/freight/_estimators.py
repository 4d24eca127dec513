# mypy: disable-error-code="import-not-found,import-untyped"
"""FreightClassifier and FreightRegressor: the learners of tables as scikit-learn's estimators."""
import ctypes
import inspect
import json
import keyword
import os
import re
import shutil
import tempfile
import warnings

try:
    import numpy
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.class_weight import compute_sample_weight
    from sklearn.utils.metaestimators import available_if
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import _check_sample_weight, _check_y, check_array, check_is_fitted, validate_data
except ImportError as error:
    raise type(error)(f"FreightClassifier and FreightRegressor need scikit-learn 1.6 or newer: pip install scikit-learn ({error})",
                      name=error.name) from error

from . import _core, _estimators_module, _fit, _hints, _stored
from ._tables import as_counts, categorical_columns, is_frame, is_pandas, table_of


def _one_thread():
    """The threads of OpenMP's pools are not in a forked child, which would wait for them: it computes with its one thread.
    XGBoost's package has a copy of OpenMP's library of its own."""
    with open("/proc/self/maps") as maps:
        for path in {line.split()[-1] for line in maps if "/libgomp" in line}:
            ctypes.CDLL(path, os.RTLD_NOLOAD | os.RTLD_NOW).omp_set_num_threads(1)


os.register_at_fork(after_in_child=_one_thread)


def _name(flag):
    """The parameter of a flag: --lambda is reg_lambda and --seed random_state, as in scikit-learn and XGBoost."""
    name = flag[2:].replace("-", "_")
    return "random_state" if name == "seed" else "reg_" + name if keyword.iskeyword(name) else name


FLAGS = {_name(flag): flag for flag, _ in _core.table_settings()}
OWN = {"model": "gbdt", "handle_unknown": "error", "fit_settings": None}
DOC = """{what} on a table: a NumPy array, or a frame of numbers, categories, dates and missing values.

    model: gbdt, forest, linear (of classes logistic regression), mlp, auto (the best of them by cross-validation), baseline, or
        another model of `freight train --help`. Or a network: a freight.nn.Module, of which fit trains a copy, or a class or function that
        makes one and may have parameters n_features and n_outputs. X are then numbers, of any shape (N, ...).
    handle_unknown: error, or ignore for categories at prediction that fit did not see, such as rare ones in cross-validation.
    fit_settings: a dict of further keywords of Module.fit for a network: {{"optimizer": "adam", "callbacks": [...]}}.

    The others are flags of `freight train`; None is the command's default.

    {settings}
    """


def _with_parameters(cls):
    """Gives a class a constructor with the settings of the learners, which are what get_params finds."""
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY),
           inspect.Parameter("model", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=OWN["model"])]
    others = {**{n: v for n, v in OWN.items() if n != "model"}, **dict.fromkeys(FLAGS)}
    signature = inspect.Signature(own + [inspect.Parameter(n, kind, default=v) for n, v in others.items()])

    def __init__(self, *arguments, **keywords):
        for name in keywords.keys() - signature.parameters.keys():
            raise _hints.unknown_setting(cls.__name__, name, signature.parameters)
        bound = signature.bind(self, *arguments, **keywords)
        bound.apply_defaults()
        for name, value in list(bound.arguments.items())[1:]:
            setattr(self, name, value)

    __init__.__signature__ = signature
    cls.__init__ = __init__
    cls.__doc__ = DOC.format(what=cls.__doc__, settings="\n    ".join(f"{_name(f)}: {doc}" for f, doc in _core.table_settings()))
    return cls


# A number as the files of the command have it as a class: labels such as 007 and 1_0 are none.
_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?(e[+-]?[0-9]+)?")


def _classes_of(names, kind):
    """The classes of a file: of the NumPy type that fit had them in, where the file has it; else numbers where all names are."""
    if kind is None and not all(map(_NUMBER.fullmatch, names)):
        return numpy.array(names)
    if kind is None:
        numbers = numpy.array([float(n) for n in names])
        return numbers.astype("int64") if (numbers == numpy.round(numbers)).all() else numbers
    dtype = numpy.dtype(kind)
    if dtype.kind == "b":
        return numpy.array([n == "True" for n in names])
    if dtype.kind in "iu":  # large ones are written as 1.5e+18
        return numpy.array([int(n) if n.lstrip("-").isdigit() else int(float(n)) for n in names], dtype)
    return numpy.array(names, dtype if dtype.kind in "fO" else str)


def _are_numbers(classes):
    """Whether classes are numbers that differ in a table, too."""
    return classes.dtype.kind in "iuf" and len(numpy.unique(classes.astype("float64"))) == len(classes)


def _need_weights(sample_weight, y):
    weights = _check_sample_weight(sample_weight, y, dtype=numpy.float64)
    if not weights.any():
        raise ValueError("sample_weight: expected at least one weight that is not zero")
    return weights


def _validation_parts(eval_set, sizes, expected):
    """What eval_set holds, which may be a list of one such set."""
    if isinstance(eval_set, list) and len(eval_set) == 1:
        eval_set = eval_set[0]
    if not isinstance(eval_set, (tuple, list)) or len(eval_set) not in sizes:
        held = f" of {len(eval_set)}" if isinstance(eval_set, (tuple, list)) else ""
        raise ValueError(f"eval_set: expected {expected}, got {type(eval_set).__name__}{held}")
    return eval_set


class _Estimator(BaseEstimator):
    _from_file = False

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = not self._is_network()
        tags.input_tags.three_d_array = self._is_network()
        return tags

    def _is_network(self):
        return _estimators_module.is_network(self.model)

    def _arrays(self, x, y="no_validation", reset=False):
        """Checks x, and y in fit, for a network; returns arrays."""
        arguments = {"dtype": "numeric", "allow_nd": True, "reset": reset}
        if isinstance(y, str):
            return validate_data(self, x, **arguments)
        shape = (getattr(y, "shape", None) or numpy.asarray(y).shape) if self._regression and y is not None else ()
        several = len(shape) == 2 and shape[1] > 1  # values per row
        x, y = validate_data(self, x, y, y_numeric=self._regression, multi_output=several, **arguments)
        return x, _check_y(y, multi_output=several, y_numeric=self._regression, estimator=self)

    def _fit_network(self, X, y, sample_weight, eval_set):
        x, y = self._arrays(X, y, reset=True)
        weights = None if sample_weight is None else _need_weights(sample_weight, y)
        settings = self._settings()
        if isinstance(self.threshold, str):
            raise ValueError(f"threshold: expected a number for a network, which keeps none that is chosen, got {self.threshold!r}")
        if settings.get("--class-weight") is not None:
            by_class = compute_sample_weight(settings.pop("--class-weight"), y)
            weights = by_class if weights is None else weights * by_class
        codes = self._codes(y, weights)
        seed = settings.pop("--seed", 0)
        network = _estimators_module.made(self.model, x.shape[1], self._outputs(), x, seed)
        if x.ndim == 2 and codes.ndim == 1 and x.dtype.kind == "f":
            x, codes, weights = _estimators_module.repeated(x.astype("float64"), codes.astype("float64"), weights)
        validation = None
        if eval_set is not None:
            other, other_y = self._arrays(*_validation_parts(eval_set, (2,), "(X, y) for a network"))
            validation = _estimators_module.inputs_of(network, other), self._codes_again(other_y)
        self.history_ = _estimators_module.fitted(
            network, _estimators_module.inputs_of(network, x), codes, classes=None if self._regression else self._outputs(),
            weights=weights, validation=validation,
            settings={**(self.fit_settings or {}), "seed": seed, **{flag[2:].replace("-", "_"): v for flag, v in settings.items()}})
        self.module_, self.n_iter_ = network, len(self.history_.epoch)
        return self

    def _network_outputs(self, X):
        check_is_fitted(self)
        x = _estimators_module.inputs_of(self.module_, self._arrays(X))
        outputs = self.module_.predict(x).numpy()
        return outputs.reshape(len(outputs), -1)

    def _table(self, x, y="no_validation", reset=False, title="X"):
        """Checks x, and y in fit; returns the table and what scikit-learn makes of both."""
        if is_frame(x):
            if is_pandas(x) and not self._from_file:  # a file has the columns that the model reads, in any order
                checked = validate_data(self, x, y, reset=reset, skip_check_array=True)
                y = checked[1] if isinstance(checked, tuple) else y
            table = table_of(x, title=title)
            if reset:  # a category that pandas' type has is known, though no row of fit may have it
                self._declared = {str(name): [str(c) for c in x[name].dtype.categories] for name in x.columns
                                  if hasattr(x[name].dtype, "categories")} if is_pandas(x) else {}
            if table.rows == 0:
                raise ValueError(f"{title}: found 0 sample(s), expected at least one row")
            if reset and not is_pandas(x):
                self.feature_names_in_ = numpy.array(table.names, object)
                self.n_features_in_ = len(table.names)
            return table, None, y
        arguments = {"dtype": "float64", "ensure_all_finite": "allow-nan", "reset": reset}
        if self._from_file and not reset:
            x = check_array(x, dtype="float64", ensure_all_finite="allow-nan")
            return table_of(x, [f"x{k}" for k in range(x.shape[1])], title), x, y
        if isinstance(y, str):
            x = validate_data(self, x, **arguments)
        else:
            x, y = validate_data(self, x, y, y_numeric=self._regression, **arguments)
        names = getattr(self, "feature_names_in_", [f"x{k}" for k in range(x.shape[1])])
        return table_of(x, list(names), title), x, y

    def _settings(self):
        found = {flag: getattr(self, name) for name, flag in FLAGS.items() if getattr(self, name) is not None}
        if "--seed" in found and not isinstance(self.random_state, (int, numpy.integer)):
            found["--seed"] = int(check_random_state(self.random_state).randint(2**31 - 1))
        if isinstance(self.types, dict):
            found["--types"] = ",".join(f"{k}={v}" for k, v in self.types.items())
        if isinstance(self.monotone, dict):
            found["--monotone"] = ",".join(f"{k}={v}" for k, v in self.monotone.items())
        return {flag: v.item() if isinstance(v, numpy.generic) else v for flag, v in found.items()}

    @staticmethod
    def _types_with(settings, columns):
        """The setting of types that also says of these columns that they are categories, unless it says something else."""
        given = [one for one in settings.get("--types", "").split(",") if one]
        named = {one.rpartition("=")[0] for one in given}
        found = given + [f"{name}=category" for name in columns if name not in named and not set(name) & set(",=")]
        return {"--types": ",".join(found)} if found else {}

    @classmethod
    def load(cls, path):
        """The estimator of a model that save, `freight train` on a table, or Module.save has written; it predicts frames with the columns
        of the table by their names, and arrays where these are x0, x1, ... Classes have the type that they had in
        fit; those of the command are numbers where all of their names are."""
        with open(path, "rb") as file:
            content = file.read()
        found = _core.TableModel(content)
        if found.is_network:
            module = _fit.load(path)
            own = module._task.get("estimator") or {"classes": ["0", "1"] if module._task["loss"] == "multilabel" and len(module.classes) == 1 else module.classes}
            self = cls(module, threshold=own.get("threshold"))
            self.module_, names, regresses = module, own["classes"], module._task["loss"] in ("mse", "mae", "huber")
            kind = own.get("type", module._task.get("class_type"))
        else:
            notes = _stored.notes_in(path)
            self = cls("linear" if found.learner == "logistic" else found.learner, handle_unknown=notes.get("handle_unknown", OWN["handle_unknown"]))
            self.model_bytes_, self.notes_, names, regresses = content, [], found.classes, not found.classes
            kind = notes.get("class_type")
            self.feature_names_in_, self._declared = numpy.array(found.sources, object), notes.get("categories", {})
        if regresses != cls._regression:
            raise ValueError(f"{cls.__name__}.load: {path} predicts {'values' if regresses else 'classes'}: expected Freight{'Regressor' if regresses else 'Classifier'}")
        self._from_file = True
        self._take_classes(names, kind)
        if not self._is_network():
            self._load()
        return self

    def fit(self, X, y, sample_weight=None, eval_set=None):
        """Fits the model. eval_set: (X, y) of validation rows, which end boosting where the metric does not improve any
        more, and training of a network with early_stop; without them gbdt holds out a fifth of the rows (val_split)."""
        self._from_file = False
        if self._is_network():
            return self._fit_network(X, y, sample_weight, eval_set)
        if self.fit_settings is not None:
            raise ValueError(f"fit_settings: expected None for a model of tables, which has no such keywords, got {self.fit_settings!r}: they "
                             "are for networks (model= a module)")
        name = getattr(y, "name", None)
        self._declared = {}
        table, x, y = self._table(X, y, reset=True)
        y = _check_y(y, y_numeric=self._regression, estimator=self)
        if len(y) != table.rows:
            raise ValueError(f"Found input variables with inconsistent numbers of samples: X has {table.rows} rows, y {len(y)}")
        weights = None if sample_weight is None else _need_weights(sample_weight, y)
        if table.rows < 2:
            raise ValueError("Found 1 sample in X, expected at least two")
        used = y if weights is None else y[weights > 0]
        if self._regression and eval_set is None and (used == used[0]).all():
            warnings.warn(f"y has one value, {used[0]!r}, in all rows: the model predicts it", stacklevel=2)
        settings = self._settings()
        if is_frame(X):
            settings |= self._types_with(settings, categorical_columns(X))
        if settings.get("--class-weight") is not None and self._model_name() not in ("gbdt", "forest", "auto"):
            by_class = compute_sample_weight(settings.pop("--class-weight"), y)  # the other models have no such setting
            weights = by_class if weights is None else weights * by_class
        y = self._encoded(y, weights, settings)
        counts = None if x is None or eval_set is not None or y.dtype.kind not in "iuf" else as_counts(x, y, weights)
        if counts is not None:
            x, y, weights = counts
            table = table_of(x, table.names)
        names = table.names
        target = name if isinstance(name, str) and name else "target"
        added = {"target": target, "weight": "sample_weight", "part": "validation"}
        for role in added:
            while added[role] in names:
                added[role] += "_"
            names = [*names, added[role]]
        self._add_target(table, added["target"], y)
        if weights is not None:
            table.add_numbers(added["weight"], weights)
            settings["--weight-column"] = added["weight"]
        chosen = self._chosen_threshold()
        if chosen == "threshold" and settings.get("--val-split") == 0 and eval_set is None:
            raise ValueError(f"threshold: {self.threshold} chooses it by held-out rows: expected val_split above 0, such as 0.2, or None, got 0")
        if self._model_name() != "gbdt" and not chosen:
            settings.setdefault("--val-split", 0.0)
        if eval_set is not None:
            table = self._with_validation(table, eval_set, added, weights is not None, settings)
        settings["--task"] = "values" if self._regression else "classes"
        scratch = tempfile.mkdtemp(prefix="freight-fit-", dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
        try:
            self.model_bytes_, self.notes_, self.n_iter_ = _core.fit_table(
                self._model_name(), table, added["target"], settings, os.path.join(scratch, "run"), self._names_of_places(),
                _stored.noted(self._notes()))
        except Exception as error:
            _hints.keywords_for_flags(error, {flag: name for name, flag in FLAGS.items()})
            raise
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._load()
        if eval_set is None and settings.get("--val-split") != 0:  # categories that held-out rows alone have were seen, too
            for column, words in self._model.unknown(table).items():
                self._declared[column] = [*self._declared.get(column, ()), *words]
        return self

    def _with_validation(self, table, eval_set, added, weighted, settings):
        if self._model_name() != "gbdt":
            raise ValueError(f"eval_set: ends the boosting of model='gbdt', got model={self.model!r}")
        eval_set = _validation_parts(eval_set, (2, 3), "(X, y) or (X, y, sample_weight)")
        other, _, y = self._table(eval_set[0], eval_set[1], title="eval_set")
        y = _check_y(y, y_numeric=self._regression, estimator=self)
        if len(y) != other.rows:
            raise ValueError(f"eval_set: X has {other.rows} rows, y {len(y)}")
        self._add_target(other, added["target"], self._encoded_again(y))
        if weighted:
            weights = eval_set[2] if len(eval_set) == 3 else None
            other.add_numbers(added["weight"], _check_sample_weight(weights, y, dtype=numpy.float64))
        fitted = table.rows
        for part, t in enumerate((table, other)):
            t.add_numbers(added["part"], numpy.full(t.rows, float(part)))
        table.append(other)
        settings.update({"--split-by": added["part"], "--drop": added["part"], "--val-split": other.rows / (fitted + other.rows)})
        return table

    def _model_name(self):
        return "logistic" if self.model == "linear" and not self._regression else self.model

    def _load(self):
        self._model = _core.TableModel(self.model_bytes_)

    def _take_classes(self, names, kind):
        """Takes the classes of a model from a file, and the type that they had."""

    def _names_of_places(self):
        """The names of classes, where the table has their places."""
        return []

    def _notes(self):
        """What the file of a model of tables says to load alone."""
        return {}

    def _chosen_threshold(self):
        """The setting by which fit chooses the threshold of a class by held-out rows, of which the command keeps some; "" where none does."""
        return ""

    def __getstate__(self):
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_model"}

    def __setstate__(self, state):
        super().__setstate__(state)
        if "model_bytes_" in self.__dict__:
            self._load()

    def _predictions(self, X, margins=False):
        check_is_fitted(self)
        if self.handle_unknown not in ("error", "ignore"):
            raise ValueError(f"handle_unknown: expected error or ignore, got {self.handle_unknown!r}")
        table, *_ = self._table(X)
        compute = self._model.margins if margins else self._model.predict
        return compute(table, self.handle_unknown == "error", getattr(self, "_declared", {}))

    @property
    def feature_importances_(self):
        """The gain of each column, as fractions of the sum; of trees."""
        check_is_fitted(self)
        gains = None if self._is_network() else self._model.importance()
        if not gains:
            raise AttributeError(f"model={'a network' if self._is_network() else repr(self.model)} has no feature_importances_: expected trees")
        by_name = dict(zip(self._model.sources, gains))
        found = numpy.array([by_name.get(n, 0.0) for n in self._names])
        return found / (found.sum() or 1.0)

    @property
    def _names(self):
        names = getattr(self, "feature_names_in_", None)
        return [str(n) for n in ([f"x{k}" for k in range(self.n_features_in_)] if names is None else names)]

    def _coefficients(self):
        """(f64 (sums, features), f64 (sums)) of model="linear": sums = intercepts + X @ coefficients.T."""
        check_is_fitted(self)
        found = None if self._is_network() else self._model.linear()
        if found is None:
            raise AttributeError(f"model={'a network' if self._is_network() else repr(self.model)} has no coef_ and intercept_: expected linear")
        weights, intercepts, terms = found
        intercepts, names = numpy.array(intercepts), self._names
        coefficients = numpy.zeros((len(intercepts), len(names)))
        for (name, level, mean, scale), w in zip(terms, numpy.array(weights).reshape(len(intercepts), len(terms)).T):
            if level >= 0:
                raise AttributeError(f"coef_ and intercept_ are for columns of numbers, and column {name!r} has categories or dates, of which each "
                                     "has a number: freight models show lists them")
            if level == -1:  # the others mark missing values
                coefficients[:, names.index(name)] = w / scale
            intercepts = intercepts - w * mean / scale
        return coefficients, intercepts

    def save(self, path):
        """Writes the model as a file that `freight predict`, `serve` and the other commands take."""
        check_is_fitted(self)
        if self._is_network():
            task = self.module_.__dict__.get("_task")
            if task and not self._regression:  # an output per class, or one for the second
                names = [str(c) for c in self.classes_]
                self.module_.classes = names[-1:] if task["loss"] == "multilabel" else names
                task["estimator"] = {"classes": names, "threshold": self.threshold, "type": self.classes_.dtype.str}
            self.module_.save(path)
            return
        notes = {"categories": self._declared} if self._declared else {}  # that are known, though the model has not learned from them
        if self.handle_unknown != OWN["handle_unknown"]:
            notes["handle_unknown"] = self.handle_unknown
        if notes:
            _core.save_noted(self.model_bytes_, _stored.noted({**self._notes(), **notes}), os.fspath(path))
            return
        with open(f"{path}.new", "wb") as file:
            file.write(self.model_bytes_)
            file.flush()
            os.fsync(file.fileno())
        os.replace(f"{path}.new", path)


@_with_parameters
class FreightClassifier(ClassifierMixin, _Estimator):
    """Classification"""

    _regression = False

    def _codes(self, y, weights):
        """The numbers of the labels in classes_."""
        check_classification_targets(y)
        used = y if weights is None else y[weights > 0]
        if len(numpy.unique(used)) < 2:
            raise ValueError(f"y has one class ({used[0]!r}), expected at least two classes")
        self.classes_, codes = numpy.unique(y, return_inverse=True)
        return codes.ravel()

    def _outputs(self):
        return len(self.classes_)

    def _encoded(self, y, weights, settings):
        """The labels for the learner: themselves where a CSV file has them as they are, else their places in classes_."""
        codes = self._codes(y, weights)
        if _are_numbers(self.classes_):
            self._texts = self._words = None
        else:
            self._texts = [str(c) for c in self.classes_]
            self._words = self._texts if all(map(_core.is_plain_word, self._texts)) else [str(k) for k in range(len(self._texts))]
        if isinstance(settings.get("--class-weight"), dict):
            names = [str(c) for c in self.classes_] if self._texts is None else self._words
            settings["--class-weight"] = json.dumps({n: float(self.class_weight.get(c, 1)) for n, c in zip(names, self.classes_.tolist())})
        return y.astype("float64") if self._texts is None else codes

    def _codes_again(self, y):
        unknown = set(numpy.unique(y).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"eval_set: y has classes that the y of fit has not: {sorted(unknown, key=str)}")
        return numpy.searchsorted(self.classes_, y)

    def _take_classes(self, names, kind):
        if self._is_network() and not names:
            raise ValueError("FreightClassifier.load: the network has no names of classes: assign module.classes, and save it again")
        self.classes_ = _classes_of(names, kind)
        order = list(range(len(names)) if self._is_network() else numpy.argsort(self.classes_))
        self._texts, self.classes_ = [names[k] for k in order], self.classes_[order]
        if _are_numbers(self.classes_):
            self._texts = None

    def _encoded_again(self, y):
        codes = self._codes_again(y)
        return y.astype("float64") if self._texts is None else codes

    def _chosen_threshold(self):
        if isinstance(self.threshold, str):
            return "threshold"
        compares = self.metric in ("f1", "accuracy", "balanced_accuracy", "mcc") and self.threshold is None and self.model != "auto"
        return "metric" if compares and len(self.classes_) == 2 else ""

    def _add_target(self, table, name, y):
        if self._texts is None:
            table.add_numbers(name, y)
        else:
            table.add_codes(name, y.astype("int64"), self._words)

    def _names_of_places(self):
        return self._texts if self._words != self._texts else []

    def _notes(self):
        return {"class_type": self.classes_.dtype.str}

    def _load(self):
        super()._load()
        # Classes that have only rows of weight 0 are not in the model.
        names = self._model.classes
        if self._texts is None:
            at = {float(n): k for k, n in enumerate(names)}
            self._order = [at.get(float(c), -1) for c in self.classes_]
        else:
            self._order = [names.index(t) if t in names else -1 for t in self._texts]

    def _coefficients(self):
        coefficients, intercepts = super()._coefficients()
        if -1 in self._order:
            raise AttributeError("coef_ and intercept_ are for classes that all have rows of a weight above 0")
        if len(intercepts) == 1:  # of the second class against the first
            return (coefficients, intercepts) if self._order == [0, 1] else (-coefficients, -intercepts)
        return coefficients[self._order], intercepts[self._order]

    @property
    def coef_(self):
        """float64 (1, features) of two classes, or (classes, features): the weights of the columns of model="linear"."""
        return self._coefficients()[0]

    @property
    def intercept_(self):
        """float64 (1) of two classes, or (classes)."""
        return self._coefficients()[1]

    def predict_proba(self, X):
        """float32 (rows, classes): the probability of each class, in the order of classes_."""
        if self._is_network():
            return _estimators_module.probabilities(self._network_outputs(X))
        found = self._predictions(X)
        if self._order == list(range(found.shape[1])):
            return found
        return numpy.column_stack([found[:, k] if k >= 0 else numpy.zeros(len(found), found.dtype) for k in self._order])

    def predict_log_proba(self, X):
        """float64 (rows, classes): the logarithm of predict_proba, in whose type unequal probabilities would become equal."""
        with numpy.errstate(divide="ignore"):
            return numpy.log(self.predict_proba(X).astype("float64"))

    @available_if(lambda self: self.model in ("gbdt", "linear"))
    def decision_function(self, X):
        """float64, of model="gbdt" and "linear": of two classes (rows), the log odds of the second; of more (rows, classes), sums whose
        softmax is predict_proba."""
        found = self._predictions(X, margins=True)
        if found.shape[1] == 1:
            if len(self.classes_) == 2:
                return found[:, 0] if self._order == [0, 1] else -found[:, 0]
            found = numpy.column_stack([numpy.zeros(len(found)), found[:, 0]])
        return numpy.column_stack([found[:, k] if k >= 0 else numpy.full(len(found), -numpy.inf) for k in self._order])

    def predict(self, X):
        """The most probable class of each row; of two classes the second where it is above the threshold."""
        found = self.predict_proba(X)
        threshold = self.threshold if self._is_network() else self._model.threshold
        if threshold is not None and len(self.classes_) == 2:
            return self.classes_[(found[:, 1].astype("float64") > threshold).astype(int)]
        return self.classes_[found.argmax(axis=1)]


@_with_parameters
class FreightRegressor(RegressorMixin, _Estimator):
    """Regression"""

    _regression = True

    def _codes(self, y, weights):
        self.n_outputs_ = 1 if y.ndim == 1 else y.shape[1]
        return y.astype("float64")

    def _outputs(self):
        return self.n_outputs_

    def _encoded(self, y, weights, settings):
        return y.astype("float64")

    def _codes_again(self, y):
        return y.astype("float64")

    _encoded_again = _codes_again

    def _add_target(self, table, name, y):
        table.add_numbers(name, y)

    @property
    def coef_(self):
        """float64 (features): the weights of the columns of model="linear"."""
        return self._coefficients()[0][0]

    @property
    def intercept_(self):
        """A float: the value of a row of zeros."""
        return self._coefficients()[1][0]

    def predict(self, X):
        """float32 (rows): the value of each row; of a network that was fitted to several values per row (rows, values)."""
        found = self._network_outputs(X) if self._is_network() else self._predictions(X)
        return found if found.shape[1] > 1 else found[:, 0]
