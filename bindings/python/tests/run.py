#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""run.py MODULE...: runs unittest modules of this folder and speaks TAP, which Meson counts."""
import faulthandler
import os
import sys
import unittest


class Tap(unittest.TestResult):
    """One line a test."""
    count = 0

    def say(self, word, test, remark=""):
        self.count += 1
        print(f"{word} {self.count} - {test.id()}{remark}", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.say("ok", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.say("ok", test, f" # SKIP {reason}")

    def explain(self, test, text):
        self.say("not ok", test)
        print("".join(f"# {line}\n" for line in text.splitlines()), end="", flush=True)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.explain(test, self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.explain(test, self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.explain(subtest, "".join(self._exc_info_to_string(err, test)))


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path.insert(0, here)
    # A hang says where, before Meson's time is over.
    faulthandler.dump_traceback_later(280, exit=True)
    suite = unittest.TestSuite(unittest.defaultTestLoader.loadTestsFromName(name) for name in sys.argv[1:])
    result = Tap()
    suite.run(result)
    print(f"1..{result.count}", flush=True)
    sys.exit(0 if result.wasSuccessful() and result.count else 1)


if __name__ == "__main__":
    main()
