#!/usr/bin/env python3
"""TFLOP/s against sequence length, a panel for each head size and mask, from what attention.py or attention_bwd.py wrote with
`--set lengths --csv`.

usage: attention_plot.py CSV SVG
"""

import csv
import math
import sys

WIDTH, HEIGHT, LEFT, TOP, GAP = 400, 260, 56, 44, 70
PEAK = 989  # TFLOP/s of an H200's tensor cores in bf16
CURVES = {  # by column of the table: colour and name
    "ours": ("#c0392b", "autotune"),
    "any": ("#c0392b", "autotune"),
    "same_bits": ("#e59866", "autotune, same bits"),
    "cudnn": ("#2471a3", "cuDNN"),
    "cudnn_any": ("#2471a3", "cuDNN"),
    "flash": ("#7d8b3c", "FlashAttention-2 (torch)"),
    "fa3": ("#7d3c98", "FlashAttention-3"),
    "fa3_any": ("#7d3c98", "FlashAttention-3"),
    "fa3_same_bits": ("#c39bd3", "FlashAttention-3, same bits"),
    "triton": ("#b9770e", "Triton"),
}


def text(x, y, words, anchor="middle", colour="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{words}</text>'


def line(x1, y1, x2, y2, style):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


class Panel:
    def __init__(self, left, top, rows):
        self.left, self.top, self.rows = left, top, sorted(rows, key=lambda row: int(row["queries"]))
        lengths = [math.log2(int(row["queries"])) for row in self.rows]
        self.first, self.last = min(lengths), max(lengths)

    def place(self, length, rate):
        share = (math.log2(length) - self.first) / (self.last - self.first)
        return self.left + share * WIDTH, self.top + HEIGHT * (1 - rate / (PEAK * 1.04))

    def axes(self, title):
        parts = [text(self.left + WIDTH / 2, self.top - 10, title)]
        for rate in range(0, 1000, 200):
            y = self.place(2**self.first, rate)[1]
            parts += [line(self.left, y, self.left + WIDTH, y, 'stroke="#ddd"'), text(self.left - 6, y + 4, rate, "end")]
        y = self.place(2**self.first, PEAK)[1]
        parts += [
            line(self.left, y, self.left + WIDTH, y, 'stroke="#222" stroke-dasharray="6 3"'),
            text(self.left + 4, y + 14, f"{PEAK}: tensor cores at 1830 MHz", "start"),
        ]
        for row in self.rows:
            x = self.place(int(row["queries"]), 0)[0]
            parts.append(text(x, self.top + HEIGHT + 16, row["queries"]))
        return parts

    def curve(self, name):
        points = [
            self.place(int(row["queries"]), float(row[f"{name}_tflops"])) for row in self.rows if row.get(f"{name}_tflops")
        ]
        if not points:
            return []
        path, colour = " ".join(f"{x:.1f},{y:.1f}" for x, y in points), CURVES[name][0]
        dots = [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>', *dots]


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["set"] == "lengths"]
    panels = sorted({(int(row["size"]), row["mask"]) for row in rows})
    parts, seen = [], set()
    for number, (size, mask) in enumerate(panels):
        of_panel = [row for row in rows if (int(row["size"]), row["mask"]) == (size, mask)]
        panel = Panel(LEFT + number % 2 * (WIDTH + GAP), TOP + number // 2 * (HEIGHT + GAP), of_panel)
        parts += panel.axes(f"head size {size}, {'causal' if mask == 'causal' else 'no mask'}: TFLOP/s against sequence length")
        for name in CURVES:
            curve = panel.curve(name)
            parts += curve
            seen |= {name} if curve else set()
    bottom = TOP + (len(panels) + 1) // 2 * (HEIGHT + GAP)
    for number, (colour, label) in enumerate(CURVES[name] for name in CURVES if name in seen):
        x = LEFT + number * 180
        parts += [line(x, bottom, x + 24, bottom, f'stroke="{colour}" stroke-width="3"'), text(x + 30, bottom + 4, label, "start")]
    width, height = LEFT + 2 * WIDTH + GAP + 40, bottom + 20
    with open(target, "w", encoding="utf-8") as file:
        file.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12">\n')
        file.write(f'<rect width="{width}" height="{height}" fill="white"/>\n')
        file.writelines(part + "\n" for part in parts)
        file.write("</svg>\n")


if __name__ == "__main__":
    main()
