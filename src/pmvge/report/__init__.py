"""Write a report of a fitted model as one HTML page."""

from pmvge.report.writing import check_folder, write_report

__all__ = ["check_folder", "write_report"]
