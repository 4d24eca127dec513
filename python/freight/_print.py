"""Arrays as text, in NumPy's form."""
from . import _core

_options = {"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 75, "suppress": False}


def set_printoptions(*, precision=None, threshold=None, edgeitems=None, linewidth=None, suppress=None):
    """How arrays are printed, as NumPy's function of this name: digits after the point, the size from which only edges are
    shown, how many of these, characters per line, and whether small numbers are never written with exponents."""
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth,
             "suppress": suppress}
    _options.update({k: v for k, v in given.items() if v is not None})


def get_printoptions():
    """The options of set_printoptions."""
    return dict(_options)


def _trimmed(x, edge):
    """The elements that are shown: those at the edges of long axes."""
    for a in range(x.ndim):
        if x.shape[a] > 2 * edge:
            before = (slice(None),) * a
            x = _core.concat([x[before + (slice(0, edge),)], x[before + (slice(-edge, None),)]], a)
    return x


def _shortest(value, single):
    """The fewest digits that give the number again, at most as many as the options allow."""
    if single:
        for digits in range(1, 10):
            text = f"{value:.{digits}g}"
            if float(_core.full((), float(text), _core.float32).item()) == value:
                return float(text)
    return value


def _float_texts(values, single):
    finite = [v for v in values if v == v and v not in (float("inf"), float("-inf"))]
    shown = [_shortest(v, single) for v in finite]
    sizes = [abs(v) for v in finite if v != 0]
    precision = _options["precision"]
    exponents = bool(sizes) and not _options["suppress"] and (
        max(sizes) >= 1e8 or min(sizes) < 1e-4 or max(sizes) / min(sizes) > 1e3 and max(sizes) / min(sizes) > 1e12)
    if exponents:
        digits = max([len(repr(f"{v:.{precision}e}".split("e")[0]).strip("'").rstrip("0").split(".")[-1]) for v in shown] or [0])
        form = f"{{:.{min(digits, precision)}e}}"
    else:
        digits = 0
        for v in shown:
            text = f"{v:.{precision}f}".rstrip("0")
            digits = max(digits, len(text.split(".")[1]))
        form = f"{{:.{digits}f}}"
    out = []
    for v in values:
        if v != v:
            out.append("nan")
        elif v in (float("inf"), float("-inf")):
            out.append("inf" if v > 0 else "-inf")
        else:
            text = form.format(_shortest(v, single))
            out.append(text + "." if "." not in text and "e" not in text else text)
    return out


def _texts(values, dtype):
    if dtype == _core.bool:
        return ["True" if v else "False" for v in values]
    if isinstance(values[0], complex):
        single = dtype == _core.complex64
        re = _float_texts([v.real for v in values], single)
        im = _float_texts([v.imag for v in values], single)
        width = max(len(t) for t in re)
        return [f"{r:>{width}}{'' if i.startswith('-') else '+'}{i}j" for r, i in zip(re, im)]
    if isinstance(values[0], float):
        return _float_texts(values, dtype != _core.float64)
    return [str(v) for v in values]


def array_text(x, name=""):
    """str(x), or repr(x) where a name is given."""
    if not x._on_host and _core.compiling():
        return f"{name or 'Array'}(shape={x.shape}, dtype={x.dtype})"
    dtype = x.dtype
    suffix = f", dtype={dtype})" if name else ""
    prefix = f"{name}(" if name else ""
    host = _core.to_host(x)
    if host.size == 0:
        body = "[]" if host.ndim == 1 else f"{host.tolist()}"
        return f"{prefix}{body}, shape={host.shape}{suffix}" if name else body
    edge = _options["edgeitems"]
    cut = host.size > _options["threshold"]
    shown = _trimmed(host, edge) if cut else host
    texts = _texts(_core.reshape(shown, (-1,), None).tolist(), dtype)
    width = max(len(t) for t in texts)
    texts = iter([t.rjust(width) for t in texts] if host.ndim else texts)

    def rows(axis, indent):
        if axis == host.ndim:
            return next(texts)
        n = host.shape[axis]
        dots = cut and n > 2 * edge
        parts = [rows(axis + 1, indent + 1) for _ in range(2 * edge if dots else n)]
        if dots:
            parts.insert(edge, "...")
        if axis < host.ndim - 1:
            gap = "," if name else ""
            return "[" + (gap + "\n" * (host.ndim - axis - 1) + " " * indent).join(parts) + "]"
        lines, line = [], ""
        for i, part in enumerate(parts):
            piece = part + (("," if name else "") if i + 1 < n and i + 1 < len(parts) else "")
            if line and indent + len(line) + 1 + len(piece) > _options["linewidth"]:
                lines.append(line)
                line = piece
            else:
                line = f"{line} {piece}" if line else piece
        lines.append(line)
        return "[" + ("\n" + " " * indent).join(lines) + "]"

    return f"{prefix}{rows(0, len(prefix) + 1)}{suffix}"
