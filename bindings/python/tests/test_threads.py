# SPDX-License-Identifier: BSD-3-Clause
"""The GIL is let go of while a call waits: only another Python thread can end these waits."""
import errno
import threading
from unittest import mock

import nvmfr

from support import BLOCK, SoftCase, pattern

LONG = 20  # seconds: a wait that holds the GIL lasts as long, and then it is seen


def four(work):
    """Runs work(0) to work(3), a thread each, to their ends."""
    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


class Waits(SoftCase):

    def setUp(self):
        super().setUp()
        # Each wait in one C call: the looks at signals in between would let others run as well.
        patch = mock.patch("nvmfr._queue._SLICE_MS", 1 << 30)
        patch.start()
        self.addCleanup(patch.stop)

    def in_thread(self, wait, end, handle=None):
        """Runs wait in a thread, end here once it has begun (is in a call on handle), and returns what
        wait returned or raised."""
        begun, result = threading.Event(), []

        def run():
            begun.set()
            try:
                result.append(wait())
            except OSError as why:
                result.append(why)
        thread = threading.Thread(target=run)
        thread.start()
        begun.wait()
        while handle and not handle.in_use() and not result:
            pass
        end()
        thread.join()
        return result[0]

    def ends_by_loss(self, wait):
        result = self.in_thread(wait, self.target.drop)
        self.assertNotIsInstance(result, TimeoutError)
        return result

    def test_queue_pair(self):
        self.silence(count=0)
        qpair, done = self.controller.queue_pair(4), nvmfr.Completions(1)
        qpair.read(self.host.alloc(BLOCK), 0, 1)
        self.assertEqual(self.ends_by_loss(lambda: qpair.wait(done, 1, LONG)), 1)
        self.assertEqual(done[0].result, -errno.ECONNABORTED)

    def test_group(self):
        self.silence(count=0)
        group, done = self.host.group(), nvmfr.Completions(1)
        qpair = self.controller.queue_pair(4, group=group)
        qpair.read(self.host.alloc(BLOCK), 0, 1)
        self.assertEqual(self.ends_by_loss(lambda: group.wait(done, 1, LONG)), 1)

    def test_pread(self):
        self.silence(count=0)
        qpair, buffer = self.controller.queue_pair(4), self.host.alloc(BLOCK)
        result = self.ends_by_loss(lambda: qpair.pread(buffer, 10, 1, timeout=LONG))
        self.assertIsInstance(result, nvmfr.LostError)

    def test_simple_read(self):
        self.silence(count=0)
        namespace = self.controller.namespace()
        result = self.ends_by_loss(lambda: namespace.read(0, 1, LONG))
        self.assertIsInstance(result, nvmfr.LostError)

    def test_connect(self):
        with self.host.soft_target("slow", ready_after_us=20000000, ready_timeout=255) as target:
            target.add_namespace()
            controller = self.host.connect(target.uri, wait=False)
            result = self.in_thread(lambda: controller.wait_live(LONG), target.drop,
                                    controller._handle)
            self.assertIsInstance(result, nvmfr.LostError)

    def test_a_thread_each(self):
        self.fill(64)
        wrong = []

        def work(number):
            namespace = self.controller.namespace()
            for turn in range(100):
                lba = (turn * 7 + number) % 64
                if namespace.read(lba, 1) != pattern(lba, 1):
                    wrong.append(lba)
        four(work)
        self.assertEqual(wrong, [])

    def test_one_namespace_of_all(self):
        self.fill(64)
        namespace, wrong = self.controller.namespace(), []

        def work(number):
            for turn in range(50):
                lba = (turn * 7 + number) % 64
                if namespace.read(lba, 1) != pattern(lba, 1):
                    wrong.append(lba)
        four(work)
        self.assertEqual(wrong, [])

    def test_manual_host(self):
        with nvmfr.Host(manual=True) as host:
            self.assertGreaterEqual(host.fileno(), 0)
            controller = host.connect("nvmf+soft:?size=1M")
            host.poll()
            self.assertTrue(host.timeout() is None or host.timeout() >= 0)
            self.assertEqual(controller.namespace().read(0, 1), bytes(BLOCK))
        with self.assertRaises(nvmfr.ArgumentError):
            self.host.poll()
