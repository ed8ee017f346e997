from pathlib import Path

import pandas as pd

from benchmarks.accuracy.regular import write_regular


def test_rows_keep_their_values_and_order_and_get_regular_dates(tmp_path: Path) -> None:
    source, target = tmp_path / "weather.csv.gz", tmp_path / "outputs" / "regular.csv"
    dates = ["2020-01-01 00:10:00", "2020-01-01 00:20:00", "2020-01-01 00:20:00", "2020-01-01 02:00:00"]
    pd.DataFrame({"date": dates, "OT": [1.5, -9999.0, 2.5, 3.5]}).to_csv(source, index=False)
    write_regular(source, target)
    rows = pd.read_csv(target)
    assert rows["OT"].tolist() == [1.5, -9999.0, 2.5, 3.5]
    assert rows["date"].tolist() == [f"2020-01-01 00:{minute}:00" for minute in (10, 20, 30, 40)]
