"""Counts and times of requests, as Prometheus reads them."""

from bisect import bisect_left
from collections import Counter

from forecast.predict.output import program_version

BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper limits of the times of a forecast, in seconds."""


class Metrics:
    """Counters of one process; only the thread of the event loop changes them."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, int]] = Counter()
        self.times: Counter[int] = Counter()
        self.seconds = 0.0
        self.open = 0

    def add(self, path: str, status: int, seconds: float) -> None:
        """Count a request that has ended; the times are those of forecasts."""
        self.requests[path, status] += 1
        if path == "/forecast":
            self.times[bisect_left(BUCKETS, seconds)] += 1
            self.seconds += seconds

    def text(self) -> str:
        """Return all counters in the text format of Prometheus."""
        lines = ["# TYPE forecast_build_info gauge", f'forecast_build_info{{version="{program_version()}"}} 1']
        lines += ["# TYPE forecast_requests_open gauge", f"forecast_requests_open {self.open}"]
        lines.append("# TYPE forecast_requests_total counter")
        for (path, status), count in sorted(self.requests.items()):
            lines.append(f'forecast_requests_total{{path="{path}",status="{status}"}} {count}')
        lines.append("# TYPE forecast_seconds histogram")
        total = 0
        for place, limit in enumerate((*map(str, BUCKETS), "+Inf")):
            total += self.times[place]
            lines.append(f'forecast_seconds_bucket{{le="{limit}"}} {total}')
        lines += [f"forecast_seconds_sum {self.seconds:.6f}", f"forecast_seconds_count {total}"]
        return "\n".join([*lines, ""])
