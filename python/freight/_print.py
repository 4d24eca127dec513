"""Arrays as text, in NumPy's form."""
import struct
from decimal import Decimal

from . import _core

_options = {"precision": 8, "threshold": 1000, "edgeitems": 3, "linewidth": 75, "suppress": False}
_IMPLIED = (_core.bool, _core.int64, _core.float64, _core.complex128)  # types that repr does not name, as NumPy's


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


def _to_bfloat16(v):
    return _core.full((), v, _core.bfloat16).item()


# A number in the nearest one of the element type, and the most digits that are needed to tell its numbers apart.
_ROUNDED = {
    _core.float16: (lambda v: struct.unpack("e", struct.pack("e", v))[0], 5),
    _core.bfloat16: (_to_bfloat16, 5),
    _core.float32: (lambda v: struct.unpack("f", struct.pack("f", v))[0], 9),
}
_PART = {_core.complex64: _core.float32, _core.complex128: _core.float64}


def _shortest(value, dtype):
    """The fewest digits that give the number again, as text with an exponent."""
    if dtype in _ROUNDED and value == value and abs(value) != float("inf"):
        rounded, most = _ROUNDED[dtype]
        for digits in range(most):
            text = f"{value:.{digits}e}"
            try:
                if rounded(float(text)) == value:
                    return text
            except OverflowError:  # rounded up beyond the largest number
                pass
    return repr(value)


class _Floats:
    """How the numbers of an array are written: all with the same width, with exponents where they differ much."""

    def __init__(self, values, dtype, plus=False):
        self.dtype, self.plus = dtype, plus
        finite = [v for v in values if v - v == 0]
        sizes = [abs(v) for v in finite if v]
        rounded = _ROUNDED.get(dtype, (float,))[0]
        ratio = max(sizes) / min(sizes) if sizes else 0
        self.exponents = bool(sizes) and (max(sizes) >= 1e8 or not _options["suppress"] and (
            min(sizes) < rounded(0.0001) or ratio > 2000 or rounded(ratio) > 1000))
        self.precision = _options["precision"]
        texts = [self._scientific(v) if self.exponents else self._positional(v) for v in finite]
        parts = [t.partition("e")[0].split(".") for t in texts]
        self.left = max([len(p[0]) for p in parts], default=0)
        self.right = max([len(p[1]) for p in parts], default=0)
        self.exponent = 0
        if self.exponents:
            self.precision = self.right
            self.exponent = max(len(t.partition("e")[2]) for t in texts) - 1
            self.right += self.exponent + 2
        if len(finite) < len(values):
            longest = 4 if plus or float("-inf") in values else 3 if values else 0
            self.left = max(self.left, 3 - self.right - 1, longest - self.right - 1)

    def _positional(self, v):
        text = format(Decimal(_shortest(v, self.dtype)), "f")
        if len(text.partition(".")[2]) > self.precision:
            text = f"{v:.{self.precision}f}"
        text = text.rstrip("0") if "." in text else text + "."
        return ("+" if self.plus and text[0] != "-" else "") + (text if "." in text else text + ".")

    def _scientific(self, v):
        text = f"{Decimal(_shortest(v, self.dtype)):e}"
        digits, _, exponent = text.partition("e")
        digits = digits.rstrip("0") if "." in digits else digits
        if len(digits.partition(".")[2]) > self.precision or v == 0:
            digits, _, exponent = f"{v:.{self.precision}e}".partition("e")
            digits = digits.rstrip("0") if "." in digits else digits
        digits = digits if "." in digits else digits + "."
        return f"{'+' if self.plus and digits[0] != '-' else ''}{digits}e{exponent[0]}{exponent[1:].rjust(2, '0')}"

    def __call__(self, v):
        if v - v != 0:
            sign = "-" if v < 0 else "+" if self.plus else ""
            return (sign + ("nan" if v != v else "inf")).rjust(self.left + self.right + 1)
        if not self.exponents:
            whole, _, rest = self._positional(v).partition(".")
            return whole.rjust(self.left) + "." + rest.ljust(self.right)
        digits, _, exponent = f"{v:.{self.precision}e}".partition("e")
        whole, _, rest = (("+" if self.plus and digits[0] != "-" else "") + digits).partition(".")
        return f"{whole.rjust(self.left)}.{rest}e{exponent[0]}{exponent[1:].rjust(self.exponent, '0')}"


def _texts(values, dtype, single):
    if dtype == _core.bool:
        return [str(v) if single else str(v).rjust(5) for v in values]
    if dtype in _PART:
        part = _PART[dtype]
        re = _Floats([v.real for v in values], part)
        im = _Floats([v.imag for v in values], part, plus=True)
        out = []
        for v in values:
            text = im(v.imag)
            end = len(text.rstrip())
            out.append(re(v.real) + text[:end] + "j" + text[end:])
        return out
    if isinstance(values[0], float):
        form = _Floats(values, dtype)
        return [form(v) for v in values]
    width = max(len(str(v)) for v in values)
    return [str(v).rjust(width) for v in values]


def _number_text(value, dtype):
    """str of an array without axes."""
    if isinstance(value, complex):
        return str(complex(*(float(_shortest(v, _PART[dtype])) for v in (value.real, value.imag))))
    return str(float(_shortest(value, dtype))) if isinstance(value, float) else str(value)


def _rows(shape, texts, gap, indent, width, dots):
    """Nested brackets around the texts, in lines of at most `width` characters."""
    if not shape:
        return next(texts)
    n, edge = shape[0], _options["edgeitems"]
    cut = dots and n > 2 * edge
    items = [_rows(shape[1:], texts, gap, indent + " ", width - 1, dots) for _ in range(2 * edge if cut else n)]
    if cut:
        items.insert(edge, "...")
    if len(shape) > 1:
        return "[" + (gap.rstrip() + "\n" * (len(shape) - 1) + indent).join(items) + "]"
    room = width - max(len(gap.rstrip()), 1)
    lines, line = [], indent
    for i, item in enumerate(items):
        if len(line) + len(item) > room and len(line) > len(indent):
            lines.append(line.rstrip())
            line = indent
        line += item + (gap if i + 1 < len(items) else "")
    return "[" + "\n".join([*lines, line])[len(indent):] + "]"


def array_text(x, name=""):
    """str(x), or repr(x) where a name is given."""
    if not x._on_host and _core.compiling():
        return f"{name or 'Array'}(shape={x.shape}, dtype={x.dtype})"
    dtype, host = x.dtype, _core.to_host(x)
    if host.ndim == 0 and not name:
        return _number_text(host.item(), dtype)
    end = "" if not name else ")" if dtype in _IMPLIED and host.size else ","
    prefix = f"{name}(" if name else ""
    if host.size == 0:
        body = "[]" if not name or host.shape == (0,) else f"[], shape={host.shape}"
    else:
        cut = host.size > _options["threshold"]
        shown = _trimmed(host, _options["edgeitems"]) if cut else host
        texts = iter(_texts(_core.reshape(shown, (-1,), None).tolist(), dtype, not host.ndim))
        indent = " " * (len(prefix) + 1)
        body = _rows(host.shape, texts, ", " if name else " ", indent, _options["linewidth"] - len(end), cut)
    text = prefix + body + end
    if end != ",":
        return text
    kind = f"dtype={dtype})"
    last = len(text) - (text.rfind("\n") + 1)
    return text + (" " if last + len(kind) + 1 <= _options["linewidth"] else "\n" + " " * len(prefix)) + kind
