"""Write a report of a fitted model as one HTML page."""

from pmvge.report.writing import write_report

__all__ = ["write_report"]
