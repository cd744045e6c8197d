"""A fit, or a choice -> one self-contained HTML page that can be opened, searched and shared without a network."""

from unmix.report.page import write_report, write_result

__all__ = ["write_report", "write_result"]
