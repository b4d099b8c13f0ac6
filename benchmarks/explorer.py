"""Cost of an action in the locality explorer, without the browser: processor and wall milliseconds.

    python benchmarks/explorer.py [--threads 2] [--moment]

Targets, on 2 idle cores: under 100 ms for a slide over cached maps, under 1500 ms for a click.
tests/browser/test_live.py prints the times from the input to the new image.
"""

import argparse
import time

import torch

from lcs_utils.widgets import LocalityExplorer


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--moment", action="store_true", help="only the first images, as a smoke test")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)

    def clock(what, work):
        wall, start = time.perf_counter(), time.process_time()
        result = work()
        spent, passed = time.process_time() - start, time.perf_counter() - wall
        print(f"{what:38s}{1000 * spent:7.0f} ms of processor time,{1000 * passed:7.0f} ms", flush=True)
        return result

    live = clock("build and first picture", LocalityExplorer)
    view = live.view
    clock("slide to a new noise level", lambda: live.show(view._replace(noise=3)))
    if args.moment:
        return
    clock("slide to another new noise level", lambda: live.show(view._replace(noise=4)))
    clock("slide back to a kept one", lambda: live.show(view._replace(noise=3)))
    clock("click on another pixel", lambda: live.show(view._replace(target=(8, 9))))
    clock("click on the next pixel", lambda: live.show(view._replace(target=(8, 10))))
    clock("toggle a cell", lambda: live.toggle(3))
    clock("toggle another cell", lambda: live.toggle(200))
    clock("sample all three nets", live.draw_samples)
    pieces = [piece for net in live.maps.nets for piece in live.maps.pieces(net, live.view._replace(noise=0))]
    times = []
    for piece in pieces:
        start = time.process_time()
        piece()
        times.append(time.process_time() - start)
    print(f"in the background: {len(times)} pieces a noise level, the longest {1000 * max(times):.0f} ms")


if __name__ == "__main__":
    main()
