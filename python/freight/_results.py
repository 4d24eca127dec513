"""The results of functions that return several arrays by name; generate.py writes their stubs."""
from collections import namedtuple

EighResult = namedtuple("EighResult", "eigenvalues eigenvectors")
EigResult = namedtuple("EigResult", "eigenvalues eigenvectors")
QRResult = namedtuple("QRResult", "Q R")
SlogdetResult = namedtuple("SlogdetResult", "sign logabsdet")
SVDResult = namedtuple("SVDResult", "U S Vh")
UniqueAllResult = namedtuple("UniqueAllResult", "values indices inverse_indices counts")
UniqueCountsResult = namedtuple("UniqueCountsResult", "values counts")
UniqueInverseResult = namedtuple("UniqueInverseResult", "values inverse_indices")
FloatInfo = namedtuple("FloatInfo", "bits eps max min smallest_normal dtype")
IntegerInfo = namedtuple("IntegerInfo", "bits max min dtype")
