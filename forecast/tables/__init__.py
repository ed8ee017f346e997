"""From a file or frame to a checked series: columns, times, numbers, labels, repairs."""
