#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""count.py BUILD_DIR: "PASSED FAILED SKIPPED" of the last meson test there, each case counted."""
import sys
import xml.etree.ElementTree as ElementTree


def main():
    path = sys.argv[1] + "/meson-logs/testlog.junit.xml"
    cases = list(ElementTree.parse(path).getroot().iter("testcase"))
    failed = sum(1 for c in cases if c.find("failure") is not None or c.find("error") is not None)
    skipped = sum(1 for c in cases if c.find("skipped") is not None)
    print(len(cases) - failed - skipped, failed, skipped)


main()
