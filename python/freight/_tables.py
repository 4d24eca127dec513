# mypy: disable-error-code="import-not-found,import-untyped"
"""Tables in memory for the learners of tables: NumPy arrays, pandas' frames, and all that has the Arrow PyCapsule protocol
(polars, PyArrow, DuckDB). Values are read where they are, as a CSV file with them is read."""
import numpy

from . import _core

PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
EXACT = 2**53  # integers up to here are floating-point numbers


def is_pandas(x):
    return hasattr(x, "iloc") and hasattr(x, "dtypes") and hasattr(x, "columns")


def is_frame(x):
    """True for what has columns of different types. One column, a pandas or polars Series, is refused as scikit-learn refuses 1D arrays."""
    if hasattr(x, "to_frame"):
        raise ValueError(f"Expected 2D array, got 1D {type(x).__name__} {getattr(x, 'name', None)!r} instead: of one feature series.to_frame(), "
                         "of one sample frame.iloc[[row]]")
    return is_pandas(x) or hasattr(x, "__arrow_c_stream__")


def _add_pandas_column(table, name, column):
    dtype = column.dtype
    if hasattr(dtype, "categories"):
        table.add_codes(name, column.cat.codes.to_numpy(), [str(c) for c in dtype.categories])
    elif not isinstance(dtype, numpy.dtype) and getattr(dtype, "kind", "O") in "iuf" and not hasattr(dtype, "pyarrow_dtype"):
        exact = dtype.kind == "f" or column.isna().all() or column.abs().max() <= EXACT
        _add_pandas_column(table, name, column.astype("float64" if exact else object))
    elif dtype.kind in "iu" and len(column) and max(int(column.max()), -int(column.min())) > EXACT:
        table.add_texts(name, [str(v) for v in column.tolist()])
    elif isinstance(dtype, numpy.dtype) and dtype.kind in "iuf":
        numbers = column.to_numpy()
        table.add_numbers(name, numbers if numbers.dtype.isnative and numbers.itemsize in (1, 2, 4, 8) and dtype != "float16"
                          else numbers.astype("float64"))
    elif dtype.kind == "M" and isinstance(dtype, numpy.dtype):
        unit = numpy.datetime_data(dtype)[0]
        table.add_times(name, column.to_numpy().view("int64"), PER_SECOND[unit])
    elif dtype.kind == "M" and not hasattr(dtype, "pyarrow_dtype"):  # times of a zone
        _add_pandas_column(table, name, column.dt.tz_convert("UTC").dt.tz_localize(None))
    elif dtype == bool:
        table.add_codes(name, column.to_numpy().view("uint8"), ["False", "True"])
    elif not isinstance(dtype, numpy.dtype) and _in_arrow(dtype):
        table.add_arrow(column.__arrow_c_stream__(), name)
    else:
        missing = column.isna().to_numpy()
        texts = column.tolist()
        if missing.any() or not all(type(t) is str for t in texts):
            texts = [None if gone else t if type(t) is str else str(t) for t, gone in zip(texts, missing)]
        table.add_texts(name, texts)


def _in_arrow(dtype):
    return hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", "") == "pyarrow"


def table_of(x, names=None, title="X"):
    """The table of a frame, or of a two-dimensional array of float64 with these names."""
    table = _core.Table(title)
    if is_pandas(x):
        for k, name in enumerate(x.columns):
            _add_pandas_column(table, str(name), x.iloc[:, k])
    elif names is None:
        table.add_arrow(x.__arrow_c_stream__(), title)
    else:
        table.add_matrix(names, x)
    return table


def categorical_columns(x):
    """The columns of a frame whose type is that of categories, whatever these look like: zip codes are no amounts."""
    if is_pandas(x):
        return [str(name) for k, name in enumerate(x.columns) if hasattr(x.iloc[:, k].dtype, "categories")]
    schema = getattr(x, "schema", None)  # of polars by name, of PyArrow fields
    if hasattr(schema, "items"):
        return [name for name, dtype in schema.items() if str(dtype).split("(")[0] in ("Categorical", "Enum")]
    return [field.name for field in schema if hasattr(field.type, "index_type")] if hasattr(schema, "field") else []


def as_counts(x, y, weights):
    """Rows and their weights if the rows repeat, twice or more on average: each row once, in sorted order. A weight of 2
    and a row that is there twice are then the same for all models, those that sample rows, too. None for other tables."""
    if weights is not None and (weights % 1).any():
        return None
    total = len(y) if weights is None else weights.sum()
    kept = slice(None) if weights is None or weights.all() else weights > 0
    mixed = numpy.uint64(0)  # a hash of each row
    for column in (*x.T, y):
        mixed = (mixed ^ (column[kept] + 0.0).view("uint64")) * numpy.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> numpy.uint64(32)
    seen = numpy.zeros(4 * len(mixed) + 1, bool)  # distinct hashes are at least these
    seen[mixed % numpy.uint64(len(seen))] = True
    if 2 * numpy.count_nonzero(seen) > total or 2 * len(numpy.unique(mixed)) > total:
        return None
    distinct, place = numpy.unique(numpy.column_stack([x, y])[kept], axis=0, return_inverse=True)
    counts = numpy.bincount(place.ravel(), None if weights is None else weights[kept]).astype("float64")
    return numpy.ascontiguousarray(distinct[:, :-1]), distinct[:, -1], counts
