#!/usr/bin/env python3
"""Draws the tiling lesson from `tilec --json bench ladder > ladder.json`: one picture for GEMM, one for Add.

    tools/plot_bench.py ladder.json [--out kernel_templates/pictures]

Needs matplotlib (Debian: python3-matplotlib).
"""

import argparse
import json
import pathlib

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402


def label(row):
    parameters = row["parameters"]
    if row["template"] == "gemm_naive":
        return "naive"
    return f"{parameters['TILE']}/{parameters['TN']}" + (" pad 0" if parameters["PAD"] == 0 else "")


def draw_gemm(rows, device, path):
    """Bars in the order of the ladder: throughput, with registers, shared memory and occupancy beside."""
    figure, (speed, registers, shared, occupancy) = plt.subplots(
        1, 4, sharey=True, figsize=(13, 0.27 * len(rows) + 1.6), gridspec_kw={"width_ratios": [4, 1.4, 1.4, 1.4]})
    places = range(len(rows))
    kinds = ["tab:gray" if r["template"] == "gemm_naive" else
             "tab:orange" if r["parameters"]["TN"] == 1 else "tab:blue" for r in rows]
    columns = [(speed, [r["tflops"] for r in rows], "TFLOP/s", "{:.2f}"),
               (registers, [r["registers"] for r in rows], "registers a thread", "{:.0f}"),
               (shared, [r["shared_bytes"] / 1024 for r in rows], "shared memory a block, KB", "{:.1f}"),
               (occupancy, [100 * r["occupancy"] for r in rows], "occupancy, %", "{:.0f}")]
    for axis, values, title, form in columns:
        bars = axis.barh(places, values, color=kinds)
        axis.bar_label(bars, [form.format(v) for v in values], fontsize=7, padding=2)
        axis.set_xlabel(title)
        axis.margins(x=0.2)
        axis.spines[["top", "right"]].set_visible(False)
    speed.set_yticks(places, [label(r) for r in rows], fontsize=8)
    speed.invert_yaxis()
    speed.margins(y=0.01)
    speed.set_ylabel("TILE/TN (grey: no tile, orange: shared tile, blue: register tile)")
    figure.suptitle(f"float GEMM 2048³, gemm_naive and gemm_regn, {device}")
    figure.tight_layout()
    figure.savefig(path, dpi=110)


def draw_add(rows, device, path):
    """A panel a size: bandwidth over TILE, a line for each W, the other patterns as levels."""
    sizes = sorted({r["elements"] for r in rows})
    figure, axes = plt.subplots(1, len(sizes), figsize=(13, 4.6))
    for axis, elements in zip(axes, sizes):
        here = [r for r in rows if r["elements"] == elements]
        for width, color in ((1, "tab:orange"), (2, "tab:green"), (4, "tab:blue")):
            line = sorted((r["parameters"]["TILE"], r["gb_s"]) for r in here
                          if r["template"] == "add_tiled" and r["parameters"]["W"] == width)
            axis.plot([x for x, _ in line], [y for _, y in line], "o-", color=color, label=f"add_tiled W={width}")
        for template, style in (("add_elementwise", "--"), ("add_block_tiled", ":")):
            best = max((r for r in here if r["template"] == template), key=lambda r: r["gb_s"])
            axis.axhline(best["gb_s"], linestyle=style, color="black", label=f"{template} (best)")
        axis.set_xscale("log", base=2)
        axis.set_xlabel("TILE, elements a thread")
        axis.set_ylim(bottom=0)
        axis.set_title(f"{elements:,} floats")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("GB/s, three streams")
    figure.suptitle(f"float add, a tile a thread against lanes side by side, {device}")
    figure.legend(*axes[-1].get_legend_handles_labels(), loc="lower center", ncols=5, fontsize=8, frameon=False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("ladder", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("kernel_templates/pictures"))
    arguments = parser.parse_args()
    document = json.loads(arguments.ladder.read_text(encoding="utf-8"))
    ladder = document["ladder"]
    arguments.out.mkdir(parents=True, exist_ok=True)
    draw_gemm(ladder["gemm"], ladder["device"], arguments.out / "gemm_ladder.png")
    draw_add(ladder["add"], ladder["device"], arguments.out / "add_ladder.png")
    print(f"{arguments.out / 'gemm_ladder.png'}\n{arguments.out / 'add_ladder.png'}")


if __name__ == "__main__":
    main()
