"""Fourier transforms: the standard's fft extension."""
from . import _hints
from ._fft import (fft, fftfreq, fftn, fftshift, hfft, ifft, ifftn, ifftshift, ihfft, irfft, irfftn, rfft,  # noqa: F401
                   rfftfreq, rfftn)
from ._manipulation import _converted

_hints.explained(globals(), __name__, ("x",), _converted)
