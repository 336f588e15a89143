#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""run.py MODULE...: runs modules of this folder with pytest and speaks TAP, which Meson counts."""
import faulthandler
import os
import sys

import pytest


class Tap:
    """One line a test; what passed or failed beside its call counts where it matters."""
    count = 0

    def pytest_runtest_logreport(self, report):
        if report.passed and report.when != "call":
            return
        self.count += 1
        word = "not ok" if report.failed else "ok"
        skip = f" # SKIP {report.longrepr[2]}" if report.skipped else ""
        print(f"{word} {self.count} - {report.nodeid}{skip}", flush=True)
        if report.failed:
            print("".join(f"# {line}\n" for line in report.longreprtext.splitlines()), end="", flush=True)

    def pytest_collectreport(self, report):
        if report.failed:
            self.count += 1
            print(f"not ok {self.count} - {report.nodeid} cannot be read\n# "
                  + report.longreprtext.replace("\n", "\n# "), flush=True)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    # A hang says where, before Meson's time is over.
    faulthandler.dump_traceback_later(280, exit=True)
    tap = Tap()
    status = pytest.main(["-p", "no:terminal", "-p", "no:cacheprovider", "-p", "no:faulthandler",
                          "--rootdir", here, "--capture", "no"]
                         + [os.path.join(here, name + ".py") for name in sys.argv[1:]], plugins=[tap])
    print(f"1..{tap.count}", flush=True)
    sys.exit(status if status or tap.count else 1)


if __name__ == "__main__":
    main()
