"""The chapter of a report on diagnostic series: which dependencies each mechanism learns."""
