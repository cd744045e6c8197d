"""A fit, or a choice -> one self-contained HTML page that can be opened, searched and shared without a network."""

from unmix.report.page import write_choice, write_report

__all__ = ["write_choice", "write_report"]
