"""Estimate what a billion entities and a hundred billion links need. A calculation, not a run.

It combines the sizes of what a step moves, the speeds of the given hardware, and two measured
constants: a full step over its matrix products (results/step.json) and the set-up time per link
(results/scale.json). docs/scaling.md explains the plan.

    python benchmarks/plan.py
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
GB, TB = 1e9, 1e12


@dataclass(frozen=True)
class Data:
    """Two views with half the entities each: one has features, the other none."""

    nodes: float = 1e9
    links: float = 1e11
    features: int = 64  # float16
    hidden: int = 256
    K: int = 64


@dataclass(frozen=True)
class Hardware:
    """Typical cloud machines: eight GPUs, SSDs, a fast network. Sustained speeds, not peaks."""

    machines: int = 16
    gpus: int = 8  # per machine
    flops: float = 30e12  # per GPU, float32 products of this size
    reads: float = 2e6  # random reads of 4 kB per second and machine
    disk: float = 10 * GB  # sequential bytes per second and machine
    network: float = 25 * GB  # bytes per second and machine (200 Gbit)
    latency: float = 1e-4  # seconds of a collective call over all machines

    @property
    def ranks(self) -> int:
        return self.machines * self.gpus


@dataclass(frozen=True)
class Batch:
    """The batch of one rank."""

    links: int = 8192
    uniform: int = 8192

    @property
    def side(self) -> int:
        return self.links + self.uniform


def overhead() -> float:
    """Return the time of a full step over its matrix products, measured for the small network."""
    rows = json.loads((RESULTS / "step.json").read_text())["results"]
    return next(
        r["ratio"] for r in rows if r["network"].startswith("small") and r["what"] == "step"
    )


def set_up_seconds_per_link() -> float:
    """Return the set-up time per link of the largest graph measured."""
    row = json.loads((RESULTS / "scale.json").read_text())["results"]["mapped"][-1]
    return float(row["set_up_seconds"] / row["links"])


def main() -> None:
    data, hardware, batch = Data(), Hardware(), Batch()
    ranks, N, K = hardware.ranks, batch.side, data.K
    weights = data.features * data.hidden + data.hidden * K
    print(f"{hardware.machines} machines of {hardware.gpus} GPUs; {batch.links:,} links per rank")

    print("\nStorage and memory")
    row = data.features * 2
    share = data.links / ranks
    table = data.nodes / 2 * K * 4 * 3
    _print_size("features of one view, float16, in files", data.nodes / 2 * row)
    _print_size("  of one machine", data.nodes / 2 * row / hardware.machines)
    _print_size("links, two int32, in files", data.links * 8)
    _print_size("  of one rank", share * 8)
    _print_size("free vectors of half the entities, with Adam's moments", table)
    _print_size("  of one rank", table / ranks)
    _print_size("encoders with Adam's moments, in every rank", 3 * 4 * weights)
    _print_size("ids and log weights of a rank's entities", data.nodes / ranks * 12)

    print("\nOne step")
    products = 3 * 2 * N * weights + 3 * 2 * N * N * K
    compute = overhead() * products / hardware.flops
    gathered = N * hardware.gpus  # rows, a machine
    fetch = gathered / hardware.reads
    gradients = 2 * 4 * weights * (ranks - 1) / ranks
    exchange = gradients / (hardware.network / hardware.gpus) + hardware.latency
    looked_up = 2 * N * K * 4  # of a rank: rows there, gradients back
    shuffle = looked_up / (hardware.network / hardware.gpus) + 2 * hardware.latency
    _print_size("features gathered by a rank", N * row)
    print(f"  {fetch * 1e3:.1f} ms of random reads on each machine, ahead of the step")
    _print_size("gradients sent by a rank", gradients)
    print(f"  {exchange * 1e3:.2f} ms")
    _print_size("free vectors and their gradients, to and from a rank", looked_up)
    print(f"  {shuffle * 1e3:.2f} ms")
    print(f"arithmetic of a rank: {products / 1e9:.0f} GFLOP, x {overhead():.2f}")
    print(f"  {compute * 1e3:.1f} ms")
    step = max(compute + exchange + shuffle, fetch)
    print(f"step: {step * 1e3:.1f} ms, the larger of the reads and the sum of the others")

    quick = compute + exchange + shuffle
    print(f"  without the reads, with features in memory: {quick * 1e3:.1f} ms")

    print("\nOne epoch, set-up and embedding")
    steps = data.links / (ranks * batch.links)
    hours, fewer = steps * step / 3600, steps * quick / 3600
    print(f"steps: {steps:,.0f}; hours: {hours:.1f}, or {fewer:.2f} without the reads")
    _print_size("features gathered, all machines", steps * N * row * ranks)
    _print_size(
        "gradients and free vectors sent, all ranks", steps * (gradients + looked_up) * ranks
    )
    set_up = share * set_up_seconds_per_link()
    print(f"set-up of a rank's links: {set_up:.0f} s, at {1e9 * set_up / share:.0f} ns per link")
    reading = data.nodes / 2 * row / hardware.machines / hardware.disk
    embedding = data.nodes / 2 / ranks * 2 * weights / (0.7 * hardware.flops)
    print(f"embedding all entities: {reading:.1f} s of reads, {embedding:.2f} s of products")


def _print_size(what: str, size: float) -> None:
    unit, name = next(
        (u, n) for u, n in ((TB, "TB"), (GB, "GB"), (1e6, "MB"), (1e3, "kB")) if size >= u
    )
    print(f"{what}: {size / unit:.3g} {name}")


if __name__ == "__main__":
    main()
