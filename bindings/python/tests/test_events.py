# SPDX-License-Identifier: BSD-3-Clause
"""Events, discovery, the dump, and python -m nvmfr.info."""
import contextlib
import errno
import gc
import io
import json
import select
import struct
import unittest
from unittest import mock

import nvmfr
from nvmfr import EventType, NsChange, info

from support import BLOCK, SoftCase

OAES = 1 << 8 | 1 << 31  # namespaces, the discovery log
SUBNQN = nvmfr._abi.SOFT_SUBNQN
LONG = 20  # seconds; nothing waits for it to pass


def entry(traddr, subnqn, trtype=1, subtype=2):
    """A Discovery Log Page Entry."""
    head = struct.pack("<BBBBHHH", trtype, 1, subtype, 0, 7, 0xffff, 32)
    return (head.ljust(32, b"\0") + b"4420".ljust(32) + bytes(192) + subnqn.encode().ljust(256, b"\0")
            + traddr.encode().ljust(256)).ljust(1024, b"\0")


class Events(SoftCase):
    target_options = {"oaes": OAES}

    def next(self):
        """The next events; those of becoming live went before."""
        events = self.host.events(LONG)
        self.assertTrue(events, "no event came")
        return [event for event in events if event.type != EventType.STATE] or self.next()

    def test_live(self):
        event, = self.host.events(LONG)
        self.assertEqual((event.type, event.value, event.result),
                         (EventType.STATE, nvmfr.State.LIVE, 0))
        self.assertIs(event.source, self.controller)
        self.assertEqual(self.host.events(), [])

    def test_namespaces(self):
        added = self.target.add_namespace(size_bytes=1 << 20)
        event, = self.next()
        self.assertEqual((event.type, event.nsid), (EventType.NS_ADDED, added))
        self.target.resize_namespace(added, 2 << 20)
        event, = self.next()
        self.assertEqual((event.type, event.value), (EventType.NS_CHANGED, NsChange.SIZE))
        self.assertEqual(self.controller.ns_info(added).capacity_blocks, (2 << 20) // BLOCK)
        self.target.remove_namespace(added)
        event, = self.next()
        self.assertEqual((event.type, event.nsid), (EventType.NS_REMOVED, added))

    def test_descriptor(self):
        self.host.events(LONG)
        ready = select.poll()
        ready.register(self.host.event_fileno(), select.POLLIN)
        self.assertEqual(ready.poll(0), [])
        self.target.drop()
        self.assertTrue(ready.poll(LONG * 1000))
        event, = self.host.events()
        self.assertEqual((event.type, event.value), (EventType.STATE, nvmfr.State.LOST))
        self.assertLess(event.result, 0)

    def test_recovery(self):
        """The same handles, live again; longer than one slice of a wait."""
        controller = self.host.connect(self.target.uri, ctrl_loss_timeout_ms=60000,
                                       reconnect_delay_ms=800)
        qpair = controller.queue_pair(4)
        self.target.drop()
        states = []
        while nvmfr.State.RECOVERING not in states:
            states += [event.value for event in self.host.events(LONG) if event.source is controller]
        controller.wait_live(LONG)
        self.assertEqual(controller.state, nvmfr.State.LIVE)
        self.assertEqual(qpair.poll(nvmfr.Completions(1)), 0)
        qpair.wait_live(LONG)
        self.assertEqual(len(qpair.namespace().read(0, 1)), BLOCK)

    def test_live_after_a_slice_of_a_wait(self):
        """The slice's time was over, and then it was live: that is no failure."""
        qpair = self.controller.queue_pair(4)
        late = mock.Mock(wraps=nvmfr._lib.lib())
        for module, function, waiting in (("_controller", late.nvmfr_ctrl_wait, self.controller),
                                          ("_queue", late.nvmfr_qpair_wait, qpair)):
            function.side_effect = [-errno.ETIMEDOUT, 0]
            with mock.patch(f"nvmfr.{module}.lib", return_value=late):
                waiting.wait_live(LONG)
            self.assertEqual(function.call_count, 2)

    def test_fast_io_fail(self):
        """Of both queue pairs in one event; the recovery goes on."""
        controller = self.host.connect(self.target.uri, ctrl_loss_timeout_ms=60000,
                                       reconnect_delay_ms=5000, fast_io_fail_ms=100)
        qpairs = [controller.queue_pair(4) for _ in range(2)]
        self.target.drop()
        event = None
        while event is None or event.type != EventType.FAST_IO_FAIL:
            events = self.host.events(LONG)
            self.assertTrue(events, "no event came")
            event = next((each for each in events if each.type == EventType.FAST_IO_FAIL), event)
        self.assertEqual((event.value, event.result), (len(qpairs), 0))
        self.assertIs(event.source, controller)
        self.assertEqual(controller.state, nvmfr.State.RECOVERING)

    def test_passed_on(self):
        self.target.notify(nvmfr.SoftNotice.HEALTH)
        event, = self.next()
        self.assertEqual((event.type, event.log_page, event.aer_info), (EventType.HEALTH, 2, 1))
        self.assertIs(event.source, self.controller)

    def test_overflow(self):
        self.host.events(LONG)
        for _ in range(300):
            self.host.connect(self.target.uri).close()
        # After a close none of that controller comes: nothing is left of three hundred.
        self.assertEqual(self.host.events(), [])

    def test_of_another_version(self):
        raw = nvmfr._abi.Event(type=99, value=5)
        self.assertEqual(self.host._sources.event(raw)[:4], (99, None, 0, 5))

    def test_a_pointer_that_went(self):
        other = self.host.connect(self.target.uri)
        raw = nvmfr._abi.Event(ctrl=other._handle.pointer, type=1)
        self.assertIs(self.host._sources.event(raw).source, other)
        other.close()
        self.assertIsNone(self.host._sources.event(raw).source)
        del other
        gc.collect()
        self.assertIsNone(self.host._sources.event(raw).source)

    def test_manual(self):
        with nvmfr.Host(manual=True) as host:
            with self.assertRaisesRegex(ValueError, "manual"):
                host.events(1)
            controller = host.connect("nvmf+soft:?size=1M")
            self.assertIs(host.events()[0].source, controller)

    def test_dump(self):
        self.controller.queue_pair(8)
        known = self.controller.dump()
        self.assertEqual(known["state"], "live")
        self.assertIn("soft", json.dumps(known))
        self.target.drop()
        with self.assertRaises(nvmfr.LostError):
            self.controller.queue_pair(8).wait_live()
        self.assertEqual(self.controller.dump()["state"], "lost")


class Discovery(SoftCase):
    target_options = {"oaes": OAES}

    def test_records(self):
        self.target.set_discovery(entry("192.0.2.1", "nqn.2014-08.org.example:a")
                                  + entry("192.0.2.2", "nqn.2014-08.org.example:b", trtype=3))
        with self.host.discover(self.target.uri) as found:
            self.assertEqual(len(found), found.info.records)
            self.assertEqual([record.subnqn.decode()[-2:] for record in found][-2:], [":a", ":b"])
            self.assertEqual(found[-1].uri, b"")
            rdma = found[-2]
            self.assertEqual((rdma.traddr, rdma.trsvcid, rdma.portid), (b"192.0.2.1", b"4420", 7))
            self.assertEqual(found.uris()[-1],
                             "nvmf+rdma://192.0.2.1:4420/nqn.2014-08.org.example:a")
            own, = [uri for uri in found.uris() if "soft" in uri]
            self.host.connect(own).close()
            with self.assertRaises(IndexError):
                found[len(found)]
        with self.assertRaisesRegex(ValueError, "closed"):
            len(found)

    def test_persistent(self):
        with self.host.discover(self.target.uri, persistent=True) as found:
            before = len(found)
            self.target.set_discovery(entry("192.0.2.1", "nqn.2014-08.org.example:a"))
            event = None
            while event is None or event.type != EventType.DISCOVERY_CHANGED:
                events = self.host.events(LONG)
                self.assertTrue(events, "no event came")
                event = events[-1]
            self.assertIs(event.source, found)
            found.refresh()
            self.assertEqual(len(found), before + 1)
            self.target.drop()
            while self.host.events(LONG)[-1].value != nvmfr.State.LOST:
                pass
            with self.assertRaises(nvmfr.LostError):
                found.refresh()
            self.assertEqual(len(found), before + 1)

    def test_refused(self):
        with self.assertRaisesRegex(nvmfr.ArgumentError, "give one of them"):
            self.host.discover(self.target.uri, subnqn=SUBNQN)
        with self.assertRaises(nvmfr.NotFoundError):
            self.host.discover("nvmf+soft://nobody")
        with self.assertRaises(TypeError):
            self.host.discover(self.target.uri, depth=4)

    def test_ends_with_its_host(self):
        host = nvmfr.Host()
        target = host.soft_target("other")
        found = host.discover(target.uri, persistent=True)
        host.close()
        self.assertTrue(found.closed)


class Info(unittest.TestCase):

    def run_info(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = info.main(list(arguments))
        return status, out.getvalue(), err.getvalue()

    def test_controller(self):
        status, out, _ = self.run_info("nvmf+soft:?size=64M&block=4096&ro=1")
        self.assertEqual(status, 0)
        self.assertIn(SUBNQN, out)
        self.assertIn("namespace   1: 16384 blocks of 4096 bytes, 64 MiB, read-only", out)

    def test_json(self):
        status, out, _ = self.run_info("--json", "nvmf+soft:?size=64M")
        self.assertEqual((status, json.loads(out)["state"]), (0, "live"))

    def test_paths(self):
        """Two ports of a soft target, whose ANA states differ."""
        with nvmfr.Host() as host:
            target = host.soft_target("disks", ana_groups=1)
            target.add_namespace(size_bytes=1 << 20)
            target.set_ana(2, 1, nvmfr.AnaState.NON_OPTIMIZED)
            uris = [target.port_uri(1), target.port_uri(2)]
            with mock.patch.object(info, "Host", return_value=contextlib.nullcontext(host)):
                status, out, _ = self.run_info(*uris)
                paths = json.loads(self.run_info("--json", *uris)[1])["paths"]
        self.assertEqual(status, 0)
        self.assertRegex(out, r"namespace   1: 2048 blocks .*, optimized \(ANA group 1\)")
        self.assertRegex(out, r"path        by controller \d+: live; namespace 1 optimized\n"
                              r"path        by controller \d+: live; namespace 1 non optimized\n$")
        self.assertEqual([path["state"] for path in paths], ["live"] * 2)

    def test_discovery(self):
        """A URI without a subsystem; the target is a soft one here."""
        with nvmfr.Host() as host:
            target = host.soft_target("disks")
            target.set_discovery(entry("192.0.2.2", "nqn.2014-08.org.example:b", trtype=3))
            with host.discover(target.uri) as found, \
                    mock.patch.object(nvmfr.Host, "discover", return_value=found):
                status, out, _ = self.run_info("nvmf+rdma://192.0.2.1")
            self.assertEqual(status, 0)
            self.assertIn("subsystem   192.0.2.2 (not by this library)  nqn.2014-08.org.example:b", out)
            with host.discover(target.uri) as found, \
                    mock.patch.object(nvmfr.Host, "discover", return_value=found):
                rows = json.loads(self.run_info("--json", "nvmf+rdma://192.0.2.1/")[1])
            self.assertEqual(rows[-1]["trtype"], 3)

    def test_mistakes(self):
        status, out, err = self.run_info("nvmf+soft:///nowhere")
        self.assertEqual((status, out), (1, ""))
        self.assertIn("nowhere", err)
        self.assertIn(errno.errorcode[errno.ENOENT], err)
