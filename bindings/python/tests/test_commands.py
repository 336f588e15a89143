# SPDX-License-Identifier: BSD-3-Clause
"""Commands beyond read and write: what each does, what is refused and by whom, and log pages decoded."""
import errno
import gc
import struct
import unittest
from unittest import mock

import nvmfr
from nvmfr import (AnaState, FeatureSelect, LogPage, Op, ReserveAction, ReserveType, SoftFaultKind,
                   SoftNotice, _logpages)

from support import BLOCK, SoftCase, pattern

OTHER_HOST = bytes(range(16))
TIMESTAMP, WRITE_CACHE, NUM_QUEUES = 0x0e, 0x06, 0x07
IDENTIFY, GET_LOG, SET_FEATURES = 0x06, 0x02, 0x09


def block(value, count=1):
    return bytes([value]) * BLOCK * count


class Refusals:
    """What a row raises, and with which NVMe status."""

    def assert_refused(self, rows):
        for name, call, error, status in rows:
            with self.subTest(name):
                with self.assertRaises(error) as caught:
                    call()
                self.assertEqual(getattr(caught.exception, "status", 0) & 0x7ff, status)


class Admin(Refusals, SoftCase):
    target_options = {"oaes": 1 << 8 | 1 << 11, "ana_groups": 2}

    def test_identify(self):
        page = self.controller.identify(1)
        self.assertEqual(page[4:24].strip(), self.controller.info.serial)
        blocks, = struct.unpack_from("<Q", self.controller.identify(0, nsid=self.nsid))
        self.assertEqual(blocks * BLOCK, self.size_bytes)
        active = struct.unpack_from("<2I", self.controller.identify(2))
        self.assertEqual(active, (self.nsid, 0))

    def test_any(self):
        """The same by hand; what comes goes straight to the caller's memory."""
        page = bytearray(4096)
        self.assertEqual(self.controller.admin(IDENTIFY, page, cdw10=1), 0)
        self.assertEqual(bytes(page), self.controller.identify(1))
        sent = struct.pack("<Q", 0x1234560000)
        self.controller.admin(SET_FEATURES, sent, cdw10=TIMESTAMP)
        data = self.controller.get_feature(TIMESTAMP, size_bytes=8).data
        self.assertEqual(data[2:6], sent[2:6])  # the rest are seconds, and go on

    def test_features(self):
        self.assertEqual(self.controller.get_feature(WRITE_CACHE).value, 1)
        stamp = struct.pack("<Q", 0xa987650000)
        self.controller.set_feature(TIMESTAMP, 0, data=stamp)
        self.assertEqual(self.controller.get_feature(TIMESTAMP, size_bytes=8).data[2:6], stamp[2:6])

    def test_smart(self):
        smart = self.controller.smart()
        self.assertEqual((smart.temperature_kelvin, smart.sensor_kelvin[0], smart.spare_percent),
                         (313, 313, 100))
        raw = self.controller.log_page(LogPage.SMART, 512)
        self.assertEqual(struct.unpack_from("<H", raw, 1)[0], smart.temperature_kelvin)
        self.assertEqual(self.controller.log_page(LogPage.SMART, 4, offset_bytes=200), raw[200:204])

    def test_logs(self):
        self.assertEqual(self.controller.error_log(), [])
        effects = self.controller.effects()
        self.assertLessEqual({IDENTIFY, GET_LOG, SET_FEATURES}, set(effects.admin))
        self.assertTrue(effects.io[Op.WRITE] & 2 and not effects.io[Op.READ] & 2)
        self.target.set_ana(1, 2, AnaState.NON_OPTIMIZED)
        groups = self.controller.ana_log()
        self.assertEqual([(group.group, group.state, group.nsids) for group in groups],
                         [(1, AnaState.OPTIMIZED, [self.nsid]), (2, AnaState.NON_OPTIMIZED, [])])

    def test_events_stay_with_retain(self):
        """An event of a page is told again only once the page was read without."""
        def told():
            return [event.type for event in self.host.events(20)]
        self.assertEqual(told(), [nvmfr.EventType.STATE])
        self.target.notify(SoftNotice.HEALTH)
        self.assertEqual(told(), [nvmfr.EventType.HEALTH])
        self.controller.log_page(LogPage.SMART, 512, retain=True)
        self.target.notify(SoftNotice.HEALTH)
        self.assertEqual(self.host.events(), [])
        self.controller.log_page(LogPage.SMART, 512)
        self.target.notify(SoftNotice.HEALTH)
        self.assertEqual(told(), [nvmfr.EventType.HEALTH])

    def test_refused(self):
        admin = self.controller.admin
        self.assert_refused([
            ("page", lambda: self.controller.identify(0x55), nvmfr.StatusError, 0x002),
            ("feature", lambda: self.controller.get_feature(0x77), nvmfr.StatusError, 0x002),
            ("log", lambda: self.controller.log_page(0x70, 512), nvmfr.StatusError, 0x109),
            ("opcode", lambda: admin(0xc0), nvmfr.StatusError, 0x001),
            ("the library's", lambda: admin(0x18), nvmfr.DeniedError, 0),
            ("its feature", lambda: self.controller.set_feature(NUM_QUEUES, 1), nvmfr.DeniedError, 0),
            ("saved", lambda: self.controller.get_feature(WRITE_CACHE, select=FeatureSelect.SAVED),
             nvmfr.UnsupportedError, 0),
            ("save", lambda: self.controller.set_feature(WRITE_CACHE, 1, save=True),
             nvmfr.UnsupportedError, 0),
            ("a namespace's", lambda: self.controller.smart(self.nsid), nvmfr.UnsupportedError, 0),
            ("no multiple of 4", lambda: self.controller.log_page(2, 3), nvmfr.ArgumentError, 0),
            ("no such dword", lambda: admin(IDENTIFY, cdw9=1), TypeError, 0),
            ("too large", lambda: admin(IDENTIFY, cdw10=1 << 32), ValueError, 0),
            ("read-only memory", lambda: admin(IDENTIFY, bytes(4096), cdw10=1), ValueError, 0),
        ])

    def test_too_late(self):
        self.target.add_fault(SoftFaultKind.SILENCE, opcode=IDENTIFY)
        with self.assertRaises(TimeoutError):
            self.controller.admin(IDENTIFY, bytearray(4096), cdw10=1, timeout=0.05)


class Logs(unittest.TestCase):
    """Bytes as a controller may send them."""

    def test_errors(self):
        entry = struct.pack("<QHHHHQI", 9, 1, 7, 0x281 << 1 | 1, 0xffff, 5, 3).ljust(64, b"\0")
        found = _logpages.parse_errors(bytes(64) + entry + entry[:40])
        self.assertEqual(found, [nvmfr.ErrorEntry(9, 1, 7, 0x281, 0xffff, 5, 3)])

    def test_changed(self):
        for words, want in (([], []), ([3, 8], [3, 8]), ([0xffffffff], None),
                            (list(range(1, 1025)), list(range(1, 1025)))):
            log = struct.pack(f"<{len(words)}I", *words).ljust(4096, b"\0")
            self.assertEqual(_logpages.parse_changed(log), want)

    def test_ana(self):
        log = (struct.pack("<QH6x", 4, 2) + struct.pack("<IIQB15x", 1, 2, 4, 0x12) + struct.pack("<2I", 5, 6)
               + struct.pack("<IIQB15x", 2, 0, 4, 7))
        self.assertEqual(_logpages.parse_ana(log), [(1, AnaState.NON_OPTIMIZED, 4, [5, 6]), (2, 7, 4, [])])
        self.assertEqual(_logpages.ana_bytes(log[:40]), 80)
        for cut in range(16, len(log)):
            self.assertGreater(_logpages.ana_bytes(log[:cut]), cut)
            with self.assertRaises(nvmfr.FormatError):
                _logpages.parse_ana(log[:cut])
        with self.assertRaises(nvmfr.FormatError):
            _logpages.parse_ana(struct.pack("<QH6xIIQB15x", 4, 1, 1, 0xffffffff, 4, 1))

    def test_smart(self):
        raw = nvmfr._abi.Smart(temperature_kelvin=300)
        raw.host_reads[:] = [5, 2]
        raw.thermal_seconds[:] = [7, 8]
        smart = _logpages.smart_of(raw)
        self.assertEqual((smart.host_reads, smart.thermal_seconds), (2 << 64 | 5, (7, 8)))


class LongAnaLog(SoftCase):
    """More than one piece of it."""
    target_options = {"ana_groups": 2, "nn": 2000}

    def test(self):
        for _ in range(1100):
            self.target.add_namespace(size_bytes=BLOCK, ana_group=2)
        groups = self.controller.ana_log()
        self.assertEqual([len(group.nsids) for group in groups], [1, 1100])


class OneNamespace(Refusals, SoftCase):

    def setUp(self):
        super().setUp()
        self.fill(64)
        self.disk = self.controller.namespace()

    def test_compare(self):
        self.assertTrue(self.disk.compare(pattern(3, 4), 3))
        self.assertFalse(self.disk.compare(pattern(4, 4), 3))
        wrong = bytearray(pattern(0, 64))
        wrong[-1] ^= 1
        with self.host.register(wrong) as buffer:
            self.assertFalse(self.disk.compare(buffer, 0))
        self.target.add_fault(SoftFaultKind.STATUS, opcode=int(Op.COMPARE), value=0x281)
        with self.assertRaises(nvmfr.StatusError):
            self.disk.compare(pattern(3, 4), 3)

    def test_without_data(self):
        self.disk.verify(0, 64)
        self.disk.write_zeroes(2, 3)
        self.assertEqual(self.disk.read(0, 6), pattern(0, 2) + bytes(3 * BLOCK) + pattern(5, 1))
        self.target.add_fault(SoftFaultKind.STATUS, opcode=int(Op.VERIFY), value=0x281)
        self.assert_refused([
            ("unreadable", lambda: self.disk.verify(0, 64), nvmfr.StatusError, 0x281),
            ("beyond", lambda: self.disk.verify(1 << 30, 1), nvmfr.ArgumentError, 0),
            ("none", lambda: self.disk.write_zeroes(0, 0), ValueError, 0)])

    def test_deallocate_and_copy(self):
        self.disk.deallocate([(1, 2), (5, 1)])
        self.assertEqual(self.disk.read(0, 6),
                         pattern(0, 1) + bytes(2 * BLOCK) + pattern(3, 2) + bytes(BLOCK))
        self.disk.copy(100, ((lba, 2) for lba in (20, 10)))
        self.assertEqual(self.disk.read(100, 4), pattern(20, 2) + pattern(10, 2))
        self.assert_refused([
            ("beyond", lambda: self.disk.copy(1 << 30, [(0, 1)]), nvmfr.ArgumentError, 0),
            ("too many", lambda: self.disk.deallocate([(0, 1)] * 257), nvmfr.ArgumentError, 0),
            ("none", lambda: self.disk.deallocate([]), nvmfr.ArgumentError, 0),
            ("no blocks", lambda: self.disk.deallocate([(0, 0)]), ValueError, 0)])

    def test_compare_and_write(self):
        self.assertTrue(self.disk.compare_and_write(pattern(7, 1), block(1), 7))
        self.assertFalse(self.disk.compare_and_write(pattern(7, 1), block(2), 7))
        self.assertEqual(self.disk.read(6, 3), pattern(6, 1) + block(1) + pattern(8, 1))
        with self.assertRaisesRegex(ValueError, "same length"):
            self.disk.compare_and_write(block(1), block(2, 2), 7)
        self.target.add_fault(SoftFaultKind.STATUS, opcode=int(Op.COMPARE), value=0x281)
        with self.assertRaises(nvmfr.StatusError) as caught:
            self.disk.compare_and_write(block(1), block(2), 7)
        self.assertEqual(caught.exception.status, 0x281)
        self.assertEqual(self.disk.read(7, 1), block(1))

    def test_reservations(self):
        self.disk.reserve(ReserveAction.REGISTER, other_key=7)
        self.assertEqual(self.target.reserve(self.nsid, ReserveAction.REGISTER, OTHER_HOST, other_key=9), 0)
        self.assertEqual(self.target.reserve(self.nsid, ReserveAction.ACQUIRE, OTHER_HOST, key=9,
                                             kind=ReserveType.WRITE_EXCLUSIVE), 0)
        found = self.disk.reservations()
        self.assertEqual((found.kind, found.present), (ReserveType.WRITE_EXCLUSIVE, 2))
        self.assertEqual({(who.key, who.holds) for who in found.registrants}, {(7, False), (9, True)})
        self.assertEqual({who.hostid for who in found.registrants if who.holds}, {OTHER_HOST})
        self.assert_refused([
            ("held", lambda: self.disk.write(block(1), 0), nvmfr.StatusError, 0x083),
            ("key", lambda: self.disk.reserve(ReserveAction.ACQUIRE, key=8, kind=1), nvmfr.StatusError,
             0x083)])
        self.disk.reserve(ReserveAction.PREEMPT, key=7, other_key=9, kind=ReserveType.EXCLUSIVE)
        self.disk.write(block(1), 0)
        self.assertEqual([who.key for who in self.disk.reservations().registrants], [7])
        self.disk.reserve(ReserveAction.RELEASE, key=7, kind=ReserveType.EXCLUSIVE)
        self.assertEqual(self.disk.reservations().kind, 0)

    def test_many_registrants(self):
        """More than the first page has room for."""
        for key in range(1, 9):
            self.assertEqual(self.target.reserve(self.nsid, ReserveAction.REGISTER,
                                                 struct.pack("<QQ", 1, key), other_key=key), 0)
        with mock.patch("nvmfr._namespace.PAGE_BYTES", 128):
            found = self.disk.reservations()
        self.assertEqual({who.key for who in found.registrants}, set(range(1, 9)))

    def test_any(self):
        data = bytearray(2 * BLOCK)
        self.disk.command(int(Op.READ), data, cdw10=5, cdw12=1)
        self.assertEqual(data, pattern(5, 2))
        self.disk.command(int(Op.WRITE), block(3), cdw10=5)
        self.assertEqual(self.disk.read(5, 1), block(3))
        self.target.add_fault(SoftFaultKind.RESULT, opcode=int(Op.FLUSH), value=0x1234567890)
        self.assertEqual(self.disk.command(int(Op.FLUSH)), 0x1234567890)
        self.assert_refused([
            ("opcode", lambda: self.disk.command(0x84), nvmfr.StatusError, 0x001),
            ("Fabrics", lambda: self.disk.command(0x7f), nvmfr.DeniedError, 0)])

    def test_where_oncs_has_it_not(self):
        with self.host.soft_target("plain", oncs=0) as target:
            target.add_namespace(size_bytes=1 << 20)
            disk = self.host.connect(target.uri).namespace()
            self.assert_refused([
                ("compare", lambda: disk.compare(block(0), 0), nvmfr.UnsupportedError, 0),
                ("verify", lambda: disk.verify(0, 1), nvmfr.UnsupportedError, 0),
                ("write zeroes", lambda: disk.write_zeroes(0, 1), nvmfr.UnsupportedError, 0),
                ("deallocate", lambda: disk.deallocate([(0, 1)]), nvmfr.UnsupportedError, 0),
                ("copy", lambda: disk.copy(0, [(1, 1)]), nvmfr.UnsupportedError, 0),
                ("fused", lambda: disk.compare_and_write(block(0), block(1), 0), nvmfr.UnsupportedError, 0),
                ("reserve", lambda: disk.reserve(ReserveAction.REGISTER, other_key=1),
                 nvmfr.UnsupportedError, 0),
                ("report", disk.reservations, nvmfr.UnsupportedError, 0)])

    def test_after_a_wait_that_ended_too_early(self):
        """The list is still the command's."""
        qpair = self.controller.queue_pair(4)
        disk = qpair.namespace()
        self.target.add_fault(SoftFaultKind.DELAY, opcode=0x09, value=200000)
        with self.assertRaises(TimeoutError):
            disk.deallocate([(1, 1)], timeout=0)
        with self.assertRaises(nvmfr.BusyError):
            disk.deallocate([(2, 1)])
        done = nvmfr.Completions(1)
        self.assertEqual(qpair.wait(done), 1)
        done.check(1)
        disk.deallocate([(2, 1)])
        self.assertEqual(disk.read(0, 4), pattern(0, 1) + bytes(2 * BLOCK) + pattern(3, 1))


class Submitted(SoftCase):
    """On a queue pair: many at once, completions told apart."""

    def setUp(self):
        super().setUp()
        self.fill(64)
        self.qpair = self.controller.queue_pair(16)
        self.done = nvmfr.Completions(16)

    def outcome(self, count):
        self.assertEqual(self.qpair.wait(self.done, count, 20), count)
        return {done.user_data: (done.result, done.status & 0x7ff) for done in self.done[:count]}

    def test_side_by_side(self):
        memory = self.host.alloc(64 * BLOCK)
        memory.view[:4 * BLOCK] = pattern(0, 4)
        self.qpair.compare(memory, 0, 2, user_data=1)
        self.qpair.compare(memory, 0, 2, offset_bytes=BLOCK, user_data=2)
        self.qpair.verify(0, 64, user_data=3)
        self.qpair.write_zeroes(32, 8, user_data=4)
        self.qpair.deallocate([(40, 8)], memory, list_offset_bytes=8 * BLOCK, user_data=5)
        self.qpair.copy(48, [(0, 4)], memory, list_offset_bytes=9 * BLOCK, user_data=6)
        self.qpair.command(int(Op.READ), memory, BLOCK, nsid=self.nsid, offset_bytes=10 * BLOCK,
                           user_data=7, cdw10=9)
        self.qpair.reserve(ReserveAction.REGISTER, memory, other_key=5, keys_offset_bytes=11 * BLOCK,
                           user_data=8)
        bad = (-errno.EREMOTEIO, 0x285)
        self.assertEqual(self.outcome(8), {number: bad if number == 2 else (0, 0) for number in range(1, 9)})
        self.assertEqual(memory.view[10 * BLOCK:11 * BLOCK], pattern(9, 1))
        self.qpair.report_reservations(memory, 4096, offset_bytes=16 * BLOCK)
        self.outcome(1)
        found = nvmfr.parse_reservations(memory.view[16 * BLOCK:24 * BLOCK])
        self.assertEqual([who.key for who in found.registrants], [5])
        self.assertEqual(self.controller.namespace().read(32, 20), bytes(16 * BLOCK) + pattern(0, 4))

    def test_fused(self):
        memory = self.host.alloc(2 * BLOCK)
        memory.view[:BLOCK] = pattern(1, 1)
        for _ in range(2):  # the second time it is another's
            self.qpair.compare_and_write(memory, memory, 1, 1, new_offset_bytes=BLOCK, user_data=(5, 6))
            last = self.outcome(2)
        self.assertEqual({number: status for number, (_, status) in last.items()}, {5: 0x285, 6: 0x009})
        self.assertEqual(self.controller.namespace().read(1, 1), bytes(BLOCK))

    def test_what_is_in_flight_is_kept(self):
        memory = self.host.alloc(4096)
        self.target.add_fault(SoftFaultKind.DELAY, opcode=0x19, value=100000)
        self.qpair.copy(48, [(0, 4)], memory)
        with self.assertRaises(nvmfr.BusyError):
            memory.release()
        del memory
        gc.collect()
        self.assertEqual(self.outcome(1), {0: (0, 0)})
        self.assertEqual(self.controller.namespace().read(48, 4), pattern(0, 4))

    def test_refused(self):
        memory = self.host.alloc(4096)
        with self.assertRaises(nvmfr.ArgumentError):
            self.qpair.deallocate([(0, 1)] * 300, memory)
        with self.assertRaises(nvmfr.NotFoundError):
            self.qpair.copy(0, [(1, 1)], memory, nsid=77)
        with self.assertRaises(nvmfr.ArgumentError):
            nvmfr.parse_reservations(bytes(63))
        memory.release()
        with self.assertRaisesRegex(ValueError, "released"):
            self.qpair.compare(memory, 0, 1)
