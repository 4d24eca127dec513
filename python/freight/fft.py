"""Fourier transforms: the standard's fft extension."""
from ._fft import (fft, fftfreq, fftn, fftshift, hfft, ifft, ifftn, ifftshift, ihfft, irfft, irfftn, rfft,  # noqa: F401
                   rfftfreq, rfftn)
