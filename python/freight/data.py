"""The commands `freight data ...` as functions: freight.data.info("mnist"), check("photos/"). freight.load_data reads a data set."""
from ._command_functions import (  # noqa: F401
    data_check as check, data_get as get, data_info as info, data_list as list, data_preview as preview, data_sample as sample, data_verify as verify)
