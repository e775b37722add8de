"""Which domain a column of one's own is of, where only its name was given."""

import numpy as np
import pandas as pd
import pytest

from zoo.core.table import read_table
from zoo.workflows.owndata import find_input


@pytest.mark.parametrize(
    ("values", "domain"),
    [
        (["CCO", "c1ccccc1", "CC(=O)O"], "molecules"),
        (["CCO", "CCC", "CN"], "molecules"),  # these are sequences of residues too
        (["MKTAYIAKQR", "GSHMASMTGG", "mktay"], "proteins"),
    ],
)
def test_a_named_column_is_of_the_domain_that_reads_it(tmp_path, values, domain):
    pd.DataFrame({"what": values, "y": np.arange(len(values))}).to_csv(tmp_path / "own.csv", index=False)
    found, column = find_input(read_table(tmp_path / "own.csv"), "what")
    assert (found.name, column) == (domain, "what")
