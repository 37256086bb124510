"""A sheet of lent tools, some of which are not back."""

from __future__ import annotations

from localrag.tables.sheets import Dataset, RawTable, dataset_of


def loans() -> Dataset:
    """Three loans; two have no day of return."""
    rows = [
        ("K1", "drill", "Ann Lee", "2026-01-03", "2026-01-09", "40"),
        ("K2", "saw", "Bo Chu", "2026-01-05", "", "25"),
        ("K3", "drill", "Cy Orr", "2026-02-01", "", "40"),
    ]
    names = ("No", "Tool", "Lent to", "Out", "Back", "Deposit £")
    return dataset_of([RawTable("/loans.csv", "", names, rows, [(n, 9 * n) for n in (1, 2, 3)])])
