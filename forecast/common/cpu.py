"""What the processor can do, as Linux lists it. Apart from `devices`, which imports the compiler of torch."""

from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")


def flags_of(cpuinfo: Path) -> frozenset[str]:
    """Return the abilities that a file like /proc/cpuinfo lists; none if there is no such file."""
    if not cpuinfo.is_file():
        return frozenset()
    lines = cpuinfo.read_text(encoding="ascii", errors="ignore").splitlines()
    return frozenset(next((line.split(":", 1)[1] for line in lines if line.startswith("flags")), "").split())


_FLAGS = flags_of(CPUINFO)  # a constant for torch.compile


def has_amx(cpuinfo: Path | None = None) -> bool:
    """Return whether the CPU has matrix units for bf16."""
    return "amx_bf16" in (_FLAGS if cpuinfo is None else flags_of(cpuinfo))


def has_bfloat16_products() -> bool:
    """Return whether the CPU multiplies bf16 without converting it: with AMX, or with AVX-512 alone."""
    return has_amx() or "avx512_bf16" in _FLAGS
