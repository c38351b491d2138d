"""The sections of a report: numbers and figures to HTML, with how to read them."""
