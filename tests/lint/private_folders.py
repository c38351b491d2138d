"""An Import Linter contract: other folders import names from a folder, never its files."""

from __future__ import annotations

from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output


class PrivateFolders(Contract):
    """Check that imports from another folder name the folder, as in ``from pmvge.graph import``."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Collect every import of a file of another folder."""
        broken = [
            f"{importer} imports {imported}"
            for imported in sorted(graph.modules)
            if imported.count(".") > 1
            for importer in sorted(graph.find_modules_that_directly_import(imported))
            if importer.split(".")[1:2] != imported.split(".")[1:2]
        ]
        return ContractCheck(kept=not broken, metadata={"broken": broken})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print the imports that break the contract."""
        lines: list[Any] = check.metadata["broken"]
        for line in lines:
            output.print_error(line, bold=False)
