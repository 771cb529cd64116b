#!/usr/bin/env python3
"""Measures, with Nsight Compute on the first CUDA device, the metrics that decide what is said of tiling:
sectors per request, shared-memory bank conflicts, hit rates, DRAM use. Prints Markdown tables.

    tools/measure_claims.py [--tilec build/release/tools/tilec/tilec] [--json FILE]
"""

import argparse
import csv
import io
import json
import subprocess
import sys

METRICS = {
    "gpu__time_duration.sum": "ns",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio": "sectors/load",
    "l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio": "sectors/store",
    "l1tex__t_sector_hit_rate.pct": "L1 hit %",
    "lts__t_sector_hit_rate.pct": "L2 hit %",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": "shared wavefronts ld",
    "smsp__inst_executed_op_shared_ld.sum": "shared loads",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum": "conflicts ld",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum": "conflicts st",
    "dram__bytes.sum": "DRAM bytes",
    "dram__throughput.avg.pct_of_peak_sustained_elapsed": "DRAM %",
}

GEMM = ["gemm", "2048", "2048", "2048"]
ADD = ["add", str(1 << 26)]
RUNS = [
    (GEMM, "gemm_naive", {"BLOCK_X": 32, "BLOCK_Y": 8}),
    (GEMM, "gemm_naive", {"BLOCK_X": 1, "BLOCK_Y": 256}),
    (GEMM, "gemm_regn", {"TILE": 32, "TN": 1, "PAD": 0}),
    (GEMM, "gemm_regn", {"TILE": 32, "TN": 1, "PAD": 1}),
    (GEMM, "gemm_regn", {"TILE": 32, "TN": 4, "PAD": 0}),
    (GEMM, "gemm_regn", {"TILE": 32, "TN": 4, "PAD": 1}),
    (GEMM, "gemm_regn", {"TILE": 16, "TN": 4, "PAD": 1}),
    (GEMM, "gemm_regn", {"TILE": 64, "TN": 8, "PAD": 0}),
    (GEMM, "gemm_regn", {"TILE": 64, "TN": 8, "PAD": 1}),
    (ADD, "add_tiled", {"TILE": 1, "W": 1}),
    (ADD, "add_tiled", {"TILE": 4, "W": 4}),
    (ADD, "add_tiled", {"TILE": 8, "W": 4}),
    (ADD, "add_tiled", {"TILE": 16, "W": 4}),
    (ADD, "add_tiled", {"TILE": 32, "W": 4}),
    (ADD, "add_tiled", {"TILE": 64, "W": 4}),
    (ADD, "add_tiled", {"TILE": 32, "W": 1}),
    (ADD, "add_elementwise", {"W": 1}),
    (ADD, "add_elementwise", {"W": 4}),
    (ADD, "add_block_tiled", {"UNROLL": 4}),
]


def measure(tilec, problem, template, parameters):
    """The metrics of one launch, by name. The first launch of the process is left out."""
    command = ["ncu", "--csv", "--clock-control", "none", "--launch-skip", "1", "--launch-count", "1",
               "--kernel-name", template, "--metrics", ",".join(METRICS), tilec, "run", *problem,
               "--device", "cuda:0", "--template", template, "--repeat", "3"]
    for name, value in parameters.items():
        command += ["--set", f"{name}={value}"]
    done = subprocess.run(command, capture_output=True, text=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith('"')]
    values = {}
    for row in csv.DictReader(io.StringIO("\n".join(lines))):
        values[row["Metric Name"]] = (float(row["Metric Value"].replace(",", "")), row["Metric Unit"])
    if not values:
        sys.exit(f"{' '.join(command)}\nmeasured nothing:\n{done.stdout}{done.stderr}")
    return values


def to_base(value, unit):
    """ncu scales units as it likes: back to ns and bytes."""
    scale = {"usecond": 1e3, "us": 1e3, "msecond": 1e6, "ms": 1e6, "second": 1e9, "s": 1e9,
             "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}
    return value * scale.get(unit, 1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tilec", default="build/release/tools/tilec/tilec")
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--from-json", help="print the tables of such a file; measure nothing")
    arguments = parser.parse_args()
    known = json.load(open(arguments.from_json, encoding="utf-8")) if arguments.from_json else None
    figures = []
    print("| kernel | parameters | µs | sectors a load | sectors a store | L1 hit % | L2 hit % | shared loads, M | their "
          "wavefronts, M | conflicts of shared stores, M | DRAM % of peak | DRAM MB |")
    print("|---" * 12 + "|")
    runs = [(k["problem"], k["template"], k["parameters"]) for k in known] if known else RUNS
    for i, (problem, template, parameters) in enumerate(runs):
        values = known[i]["metrics"] if known else {
            name: to_base(*pair) for name, pair in measure(arguments.tilec, problem, template, parameters).items()}
        figures.append({"problem": problem, "template": template, "parameters": parameters, "metrics": values})
        get = lambda name: values.get(name, 0.0)
        shared = lambda name: f"{get(name) / 1e6:.1f}" if get("smsp__inst_executed_op_shared_ld.sum") else "–"
        cells = [f"{get('gpu__time_duration.sum') / 1e3:.1f}",
                 f"{get('l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio'):.2f}",
                 f"{get('l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_st.ratio'):.2f}",
                 f"{get('l1tex__t_sector_hit_rate.pct'):.1f}",
                 f"{get('lts__t_sector_hit_rate.pct'):.1f}",
                 shared("smsp__inst_executed_op_shared_ld.sum"),
                 shared("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"),
                 shared("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum"),
                 f"{get('dram__throughput.avg.pct_of_peak_sustained_elapsed'):.1f}",
                 f"{get('dram__bytes.sum') / 1e6:.0f}"]
        settings = " ".join(f"{name}={value}" for name, value in parameters.items())
        print(f"| {template} | {settings} | {' | '.join(cells)} |", flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
