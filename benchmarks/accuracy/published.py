"""The best published scores, for the tables' last row: numbers of others, none of them run here."""

from collections.abc import Mapping

PUBLISHED: Mapping[str, Mapping[int, tuple[float, str]]] = {
    "etth1": {96: (0.351, "SegRNN"), 192: (0.390, "SegRNN"), 336: (0.414, "DUET"), 720: (0.426, "SRSNet")},
    "etth2": {96: (0.270, "DUET"), 192: (0.324, "SRSNet"), 336: (0.349, "SRSNet"), 720: (0.378, "FITS")},
}
"""By data set and horizon: the lowest test MSE on z-scores, and whose.

From the projects' own tables, of those that leave out no test window, each with its look-back chosen: SegRNN (as in
the README of SparseTSF), DUET, SRSNet, FITS.
"""
