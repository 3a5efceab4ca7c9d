"""Durations and sizes as text for people."""

from __future__ import annotations


def format_duration(seconds: float | None) -> str:
    """Return a duration with a suitable unit: "340 ms", "2 min 05 s", "3 d 04 h"."""
    if seconds is None:
        return ""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    total = round(seconds)
    days, hours, minutes = total // 86400, total // 3600 % 24, total // 60 % 60
    if days:
        return f"{days} d {hours:02} h"
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {total % 60:02} s"


def format_size(byte_count: int | None) -> str:
    """Return a size with a decimal unit: "12 B", "3.4 MB"."""
    if byte_count is None or byte_count < 0:
        return ""
    if byte_count < 1000:
        return f"{byte_count} B"
    amount = float(byte_count)
    for unit in ("kB", "MB", "GB", "TB"):
        amount /= 1000
        if amount < 999.5 or unit == "TB":
            return f"{amount:.3g} {unit}"
    return ""
