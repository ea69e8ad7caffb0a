#!/usr/bin/env python3
"""How long a small kernel takes in a graph of 160 before and after kernels have changed streams, in torch.

usage: benchmarks/scripts/stream_changes.py

Once some eight kernels have run on another stream than the one before them, every later launch of the process takes longer
(docs/measuring.md, "Speeds of a context").
"""
import statistics

import torch

FEW, MANY = 32, 160


class Clock:
    """The time of one small kernel among others, without the cost of the graph."""

    def __init__(self):
        self.stream = torch.cuda.Stream()
        self.data = torch.zeros(132 * 256, device="cuda")
        self.few, self.many = self.graph(FEW), self.graph(MANY)

    def graph(self, launches):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self.stream):
            for _ in range(launches):
                self.data.add_(1.0)
        return graph

    def median_us(self, graph):
        with torch.cuda.stream(self.stream):
            events = [torch.cuda.Event(enable_timing=True) for _ in range(6)]
            events[0].record()
            for event in events[1:]:
                graph.replay()
                event.record()
            events[-1].synchronize()
            return statistics.median(1e3 * a.elapsed_time(b) for a, b in zip(events, events[1:]))

    def launch_us(self):
        return (self.median_us(self.many) - self.median_us(self.few)) / (MANY - FEW)


def main():
    clock = Clock()
    clock.launch_us()
    mine, other = (torch.zeros(1 << 20, device="cuda") for _ in range(2))
    second = torch.cuda.Stream()
    for changes in range(0, 33, 2):
        print(f"{changes:3d} changes of stream: {clock.launch_us():.3f} us a launch")
        mine.add_(1)
        torch.cuda.synchronize()
        with torch.cuda.stream(second):
            other.add_(1)
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
